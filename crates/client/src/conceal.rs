//! Keeping secrets out of what servers say.
//!
//! A server that fails likes to print what it was given: a rejected key, a whole request. Its words go into our
//! errors, logs and to whoever [`crate::Hears`], so the secrets that it has of us are taken out first (R6.3).
//! What a tool returns is its caller's own and passes untouched.

use std::fmt;

use memchr::memmem::Finder;
use taskgate_wire::json::string_literal;

use crate::config::Transport;
use crate::secret::Secret;

/// Shorter values are left: they are switches and numbers, and would be found everywhere.
const BYTES_MIN: usize = 8;
/// What stands behind text that was cut.
const CUT: &str = "…";

/// Variables that say where and how a program runs. Their values are not secret, and hiding them would make errors
/// unreadable: most are paths.
const PLAIN: &[&str] = &[
    "COLORTERM",
    "DISPLAY",
    "EDITOR",
    "GOPATH",
    "GOROOT",
    "HOME",
    "HOSTNAME",
    "HOSTTYPE",
    "INIT_CWD",
    "JAVA_HOME",
    "LANG",
    "LANGUAGE",
    "LD_LIBRARY_PATH",
    "LOGNAME",
    "LS_COLORS",
    "MANPATH",
    "NODE_ENV",
    "NODE_PATH",
    "NO_COLOR",
    "OLDPWD",
    "PAGER",
    "PATH",
    "PWD",
    "PYTHONPATH",
    "PYTHONUNBUFFERED",
    "SHELL",
    "SHLVL",
    "SSH_AUTH_SOCK",
    "SYSTEMROOT",
    "TEMP",
    "TMP",
    "TMPDIR",
    "TZ",
    "USER",
    "VIRTUAL_ENV",
    "VISUAL",
    "WAYLAND_DISPLAY",
    "_",
];
/// The same, by how they begin.
const PLAIN_BEGINNINGS: &[&str] = &["LC_", "TERM", "XDG_", "CARGO_HOME", "RUSTUP_HOME", "NVM_", "VSCODE_"];

/// Replaces secrets by their names in brackets: `[API_KEY]`.
#[derive(Default)]
pub(crate) struct Conceal {
    /// The longest value first, so that one which holds another is found as a whole.
    hidden: Vec<Hidden>,
}

struct Hidden {
    value: String,
    label: String,
    /// Finds how the value begins; so one that was cut in the middle is found as well.
    beginning: Finder<'static>,
}

impl fmt::Debug for Conceal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Conceal({} values)", self.hidden.len())
    }
}

impl Conceal {
    /// What a server that is reached like this has of our secrets.
    pub(crate) fn new(transport: &Transport) -> Conceal {
        let mut values = Vec::new();
        match transport {
            Transport::Stdio { env, .. } => {
                let plain: Vec<&str> =
                    env.iter().filter(|(name, _)| is_plain(name)).map(|(_, value)| value.expose()).collect();
                let secret = |(name, value): &&(String, Secret)| {
                    // The folder that `PWD` names is no secret under another name.
                    !is_plain(name) && !plain.contains(&value.expose())
                };
                for (name, value) in env.iter().filter(secret) {
                    forms(name, value.expose(), &mut values);
                }
            }
            Transport::Http { headers, .. } => {
                for (name, value) in headers {
                    forms(name, value.expose(), &mut values);
                    // `Bearer …`: a server quotes the token alone.
                    if let Some((_, token)) = value.expose().split_once(' ') {
                        forms(name, token, &mut values);
                    }
                }
            }
        }
        values.sort_by(|(one, _), (other, _)| other.len().cmp(&one.len()).then_with(|| one.cmp(other)));
        values.dedup_by(|(one, _), (other, _)| one == other);
        let hidden = values.into_iter().map(|(value, label)| {
            let beginning = value.as_bytes().get(..BYTES_MIN).unwrap_or_default();
            Hidden { beginning: Finder::new(beginning).into_owned(), label, value }
        });
        Conceal { hidden: hidden.collect() }
    }

    /// `text` without the secrets.
    pub(crate) fn hide(&self, text: String) -> String {
        let mut found: Vec<(usize, usize, &str)> = Vec::new();
        for hidden in &self.hidden {
            for start in hidden.beginning.find_iter(text.as_bytes()) {
                let Some(len) = hidden.len_at(&text, start) else { continue };
                let end = start + len;
                if found.iter().all(|(taken, until, _)| end <= *taken || start >= *until) {
                    found.push((start, end, &hidden.label));
                }
            }
        }
        if found.is_empty() {
            return text;
        }
        found.sort_unstable();
        let mut out = String::with_capacity(text.len());
        let mut at = 0;
        for (start, end, label) in found {
            out.push_str(text.get(at..start).unwrap_or_default());
            out.push('[');
            out.push_str(label);
            out.push(']');
            at = end;
        }
        out.push_str(text.get(at..).unwrap_or_default());
        out
    }
}

impl Hidden {
    /// How much of the value stands at `start`: all of it, or what is left of it where the text was cut.
    fn len_at(&self, text: &str, start: usize) -> Option<usize> {
        let rest = text.get(start..)?;
        if rest.starts_with(&self.value) {
            return Some(self.value.len());
        }
        let common: usize = rest
            .chars()
            .zip(self.value.chars())
            .take_while(|(one, other)| one == other)
            .map(|(one, _)| one.len_utf8())
            .sum();
        let behind = rest.get(common..)?;
        (behind.is_empty() || behind.starts_with(CUT)).then_some(common)
    }
}

/// The forms in which a value may be quoted: as it is, line by line, and as JSON has it.
fn forms(name: &str, value: &str, all: &mut Vec<(String, String)>) {
    let literal = string_literal(value);
    let lines = value.lines().map(str::trim);
    for form in lines.chain([value, literal.trim_matches('"')]) {
        if form.len() >= BYTES_MIN {
            all.push((form.to_owned(), name.to_owned()));
        }
    }
}

fn is_plain(name: &str) -> bool {
    PLAIN.contains(&name) || PLAIN_BEGINNINGS.iter().any(|beginning| name.starts_with(beginning))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::InheritEnv;

    fn with_env(env: &[(&str, &str)]) -> Conceal {
        Conceal::new(&Transport::Stdio {
            command: "server".into(),
            args: vec![],
            env: env.iter().map(|(name, value)| ((*name).to_owned(), Secret::new(*value))).collect(),
            cwd: None,
            inherit_env: InheritEnv::Nothing,
        })
    }

    fn hide(conceal: &Conceal, text: &str) -> String {
        conceal.hide(text.to_owned())
    }

    #[test]
    fn r6_3_values_of_variables_are_named_and_not_shown() {
        let conceal = with_env(&[("API_KEY", "sk-1234567890"), ("DB", "postgres://u:pässword@h/d")]);
        assert_eq!(
            hide(&conceal, "bad key sk-1234567890 (sk-1234567890) for postgres://u:pässword@h/d"),
            "bad key [API_KEY] ([API_KEY]) for [DB]"
        );
        assert_eq!(format!("{conceal:?}"), "Conceal(2 values)");
    }

    #[test]
    fn r6_3_a_value_that_holds_another_is_hidden_as_a_whole() {
        let conceal = with_env(&[("TOKEN", "abcdefgh"), ("URL", "https://abcdefgh@host/")]);
        assert_eq!(hide(&conceal, "https://abcdefgh@host/ abcdefgh"), "[URL] [TOKEN]");
    }

    #[test]
    fn r6_3_what_is_left_of_a_value_that_was_cut_is_hidden() {
        let conceal = with_env(&[("TOKEN", "0123456789abcdef")]);
        assert_eq!(hide(&conceal, "token 0123456789a"), "token [TOKEN]");
        assert_eq!(hide(&conceal, "token 0123456789a… | next"), "token [TOKEN]… | next");
        assert_eq!(hide(&conceal, "token 0123456789x"), "token 0123456789x", "another one");
    }

    #[test]
    fn r6_3_a_key_of_several_lines_is_hidden_line_by_line_and_as_json() {
        let key = "-----BEGIN KEY-----\nMIIEvQIBADAN\nq\"uoted\\key\n-----END KEY-----";
        let conceal = with_env(&[("PEM", key)]);
        assert_eq!(hide(&conceal, "read MIIEvQIBADAN"), "read [PEM]");
        let quoted = format!("{{\"key\":{}}}", string_literal(key));
        assert_eq!(hide(&conceal, &quoted), "{\"key\":\"[PEM]\"}");
    }

    #[test]
    fn what_is_short_or_no_secret_is_left() {
        let conceal = with_env(&[
            ("DEBUG", "true"),
            ("PATH", "/usr/local/bin:/usr/bin"),
            ("LC_ALL", "de_DE.UTF-8"),
            ("PWD", "/home/me/project"),
            ("MY_ROOT", "/home/me/project"),
        ]);
        let said = "true: no such file in /usr/local/bin:/usr/bin or /home/me/project, de_DE.UTF-8";
        assert_eq!(hide(&conceal, said), said);
    }

    #[test]
    fn r6_3_credentials_in_headers_are_hidden_with_and_without_their_scheme() {
        let conceal = Conceal::new(&Transport::Http {
            url: "http://localhost/mcp".to_owned(),
            headers: vec![("authorization".to_owned(), Secret::new("Bearer 0123456789"))],
        });
        assert_eq!(hide(&conceal, "Bearer 0123456789 / 0123456789"), "[authorization] / [authorization]");
    }
}
