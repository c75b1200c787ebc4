//! Who may speak to the listener at all: the rules on `Host`, `Origin` and content types, from the first listener on
//! (design 3).

use ::http::header::{ACCEPT, CONTENT_TYPE, HOST, HeaderMap, HeaderValue, ORIGIN};
use ::http::{StatusCode, Uri};

/// Names under which a loopback listener is reached.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// A request that gets no further.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum Barred {
    #[error("the Host header is missing")]
    NoHost,
    #[error("this Host is not allowed; add it to allowed_hosts if it is meant to be")]
    Host,
    #[error("pages of this Origin are not allowed; add it to allowed_origins if they are meant to be")]
    Origin,
    #[error("the body must be application/json")]
    ContentType,
    #[error("the answer is application/json or text/event-stream, and Accept allows neither")]
    Accept,
}

impl Barred {
    pub(crate) fn status(self) -> StatusCode {
        match self {
            Barred::NoHost => StatusCode::BAD_REQUEST,
            Barred::Host | Barred::Origin => StatusCode::FORBIDDEN,
            Barred::ContentType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Barred::Accept => StatusCode::NOT_ACCEPTABLE,
        }
    }
}

/// The lists that the operator gave.
#[derive(Clone, Debug)]
pub(crate) struct Guard {
    hosts: Vec<String>,
    any_host: bool,
    origins: Vec<String>,
}

impl Guard {
    pub(crate) fn new(hosts: &[String], origins: &[String]) -> Guard {
        let mut all: Vec<String> = LOOPBACK.iter().map(|&name| name.to_owned()).collect();
        all.extend(hosts.iter().map(|host| host.to_ascii_lowercase()));
        Guard {
            any_host: hosts.iter().any(|host| host == "*"),
            hosts: all,
            origins: origins.iter().map(|origin| origin.trim_end_matches('/').to_ascii_lowercase()).collect(),
        }
    }

    /// Checks where the request says it goes and where it says it comes from.
    ///
    /// # Source
    /// A-123, B-031; a name on the list keeps out pages that resolve their own name to our address
    pub(crate) fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), Barred> {
        let host = match headers.get(HOST) {
            Some(host) => host.to_str().map_err(|_| Barred::Host)?,
            None => uri.authority().ok_or(Barred::NoHost)?.as_str(),
        };
        if !self.any_host && !self.hosts.iter().any(|allowed| is_host(host, allowed)) {
            return Err(Barred::Host);
        }
        let mut origins = headers.get_all(ORIGIN).iter();
        let Some(origin) = origins.next() else { return Ok(()) };
        let origin = origin.to_str().map_err(|_| Barred::Origin)?;
        if origins.next().is_some() {
            return Err(Barred::Origin);
        }
        let own = origin.split_once("://").is_some_and(|(_, authority)| authority.eq_ignore_ascii_case(host));
        let listed = self.origins.iter().any(|allowed| allowed.eq_ignore_ascii_case(origin));
        if own || listed { Ok(()) } else { Err(Barred::Origin) }
    }
}

/// Whether `host`, with or without a port, is `allowed`, which may name a port of its own.
fn is_host(host: &str, allowed: &str) -> bool {
    host.eq_ignore_ascii_case(allowed) || without_port(host).eq_ignore_ascii_case(allowed)
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) && !name.is_empty() => name,
        Some(_) | None => host,
    }
}

/// What a POST must have besides: a JSON body, and a client that reads the answer (A-124, B-032).
pub(crate) fn check_post(headers: &HeaderMap) -> Result<Accepts, Barred> {
    let is_json = headers
        .get(CONTENT_TYPE)
        .is_some_and(|value| media_type(value).eq_ignore_ascii_case("application/json"));
    if !is_json {
        return Err(Barred::ContentType);
    }
    let accepts = Accepts::of(headers);
    if accepts.json || accepts.stream { Ok(accepts) } else { Err(Barred::Accept) }
}

fn media_type(value: &HeaderValue) -> &str {
    value.to_str().unwrap_or_default().split(';').next().unwrap_or_default().trim()
}

/// What the client reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Accepts {
    pub(crate) json: bool,
    pub(crate) stream: bool,
}

impl Accepts {
    /// No `Accept` at all means anything, as in HTTP itself.
    pub(crate) fn of(headers: &HeaderMap) -> Accepts {
        let mut accepts = Accepts { json: false, stream: false };
        let mut any = false;
        for value in headers.get_all(ACCEPT) {
            any = true;
            for range in value.to_str().unwrap_or_default().split(',') {
                let range = range.split(';').next().unwrap_or_default().trim();
                let is = |name: &str| range.eq_ignore_ascii_case(name);
                accepts.json |= is("application/json") || is("*/*") || is("application/*");
                accepts.stream |= is("text/event-stream") || is("*/*") || is("text/*");
            }
        }
        if any { accepts } else { Accepts { json: true, stream: true } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(http::HeaderName, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.clone(), HeaderValue::from_str(value).unwrap())).collect()
    }

    fn check(guard: &Guard, pairs: &[(http::HeaderName, &str)]) -> Result<(), Barred> {
        guard.check(&Uri::from_static("/mcp"), &headers(pairs))
    }

    #[test]
    fn a_123_only_listed_hosts_get_in() {
        let guard = Guard::new(&["Gate.Example".to_owned(), "other:8080".to_owned()], &[]);
        for host in [
            "localhost",
            "LOCALHOST:7000",
            "127.0.0.1:1",
            "[::1]",
            "[::1]:80",
            "gate.example:443",
            "other:8080",
        ] {
            assert_eq!(check(&guard, &[(HOST, host)]), Ok(()), "{host}");
        }
        for host in
            ["evil.example", "localhost.evil.example", "127.0.0.2", "[::2]:80", "other:8081", "other", ""]
        {
            assert_eq!(check(&guard, &[(HOST, host)]), Err(Barred::Host), "{host}");
        }
        assert_eq!(check(&guard, &[]), Err(Barred::NoHost));
        assert_eq!(check(&Guard::new(&["*".to_owned()], &[]), &[(HOST, "any.example")]), Ok(()));
    }

    #[test]
    fn b_031_an_origin_is_absent_or_listed_or_our_own() {
        let guard = Guard::new(&[], &["https://app.example/".to_owned()]);
        let with = |origin| check(&guard, &[(HOST, "localhost:7000"), (ORIGIN, origin)]);
        assert_eq!(with("https://app.example"), Ok(()));
        assert_eq!(with("http://localhost:7000"), Ok(()));
        for origin in
            ["https://evil.example", "null", "http://localhost:7001", "https://app.example.evil", ""]
        {
            assert_eq!(with(origin), Err(Barred::Origin), "{origin}");
        }
        let twice = [(HOST, "localhost"), (ORIGIN, "http://localhost"), (ORIGIN, "https://evil.example")];
        let twice: HeaderMap = {
            let mut map = HeaderMap::new();
            for (name, value) in twice {
                map.append(name, HeaderValue::from_static(value));
            }
            map
        };
        assert_eq!(guard.check(&Uri::from_static("/mcp"), &twice), Err(Barred::Origin));
    }

    #[test]
    fn design_3_only_json_is_read() {
        let post = |kind| check_post(&headers(&[(CONTENT_TYPE, kind)]));
        assert!(post("application/json").is_ok());
        assert!(post("Application/JSON; charset=utf-8").is_ok());
        for kind in ["text/plain", "application/json-seq", "application/x-www-form-urlencoded", ""] {
            assert_eq!(post(kind), Err(Barred::ContentType), "{kind}");
        }
    }

    #[test]
    fn a_124_a_client_that_reads_no_answer_is_told_so() {
        let accept = |value| check_post(&headers(&[(CONTENT_TYPE, "application/json"), (ACCEPT, value)]));
        assert_eq!(accept("application/json, text/event-stream"), Ok(Accepts { json: true, stream: true }));
        assert_eq!(accept("application/json;q=1"), Ok(Accepts { json: true, stream: false }));
        assert_eq!(accept("*/*"), Ok(Accepts { json: true, stream: true }));
        assert_eq!(accept("text/html"), Err(Barred::Accept));
    }
}
