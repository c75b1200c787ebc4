//! One server, understood.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

use taskgate_client::Secret;
use taskgate_client::config::{EraChoice, InheritEnv, ServerConfig, Sharing, Transport};
use taskgate_core::gate::ToolMode;
use taskgate_core::id::ServerName;
use taskgate_core::operation::{Effect, Replay};
use taskgate_gateway::config::{ServerPolicy, ToolPolicy};

use super::expand::expand;
use super::raw::{RawEffect, RawEra, RawMode, RawReplay, RawServer, RawTool};
use super::understand::{Fault, resolve};
use crate::environment::Environment;

/// How it is reached, and how its calls are treated.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) back: ServerConfig,
    pub(crate) policy: ServerPolicy,
}

/// Reads one server; what is wrong goes to `faults`.
pub(crate) fn understand(
    name: &str,
    raw: &RawServer,
    folder: &Path,
    environment: &Environment,
    faults: &mut Vec<Fault>,
) -> Option<Server> {
    let before = faults.len();
    let mut reader = Reader { name, folder, environment, faults };
    if name.is_empty() || name.chars().any(char::is_control) {
        reader.fault(&[], "a server needs a name in plain text", "name it by what it does: [servers.files]");
    }
    let transport = reader.transport(raw);
    let policy = reader.policy(raw);
    if faults.len() > before {
        return None;
    }
    let mut back = ServerConfig::new(name, transport?);
    back.era = match raw.era {
        RawEra::Auto => EraChoice::Auto,
        RawEra::Legacy => EraChoice::Legacy,
        RawEra::Modern => EraChoice::Modern,
    };
    back.sharing = if raw.shared { Sharing::Nobody } else { Sharing::Apart };
    Some(Server { back, policy })
}

struct Reader<'a> {
    name: &'a str,
    folder: &'a Path,
    environment: &'a Environment,
    faults: &'a mut Vec<Fault>,
}

impl Reader<'_> {
    fn fault(&mut self, keys: &[&str], what: impl Into<String>, help: impl Into<String>) {
        let mut path = vec!["servers", self.name];
        path.extend(keys);
        self.faults.push(Fault::new(&path, what, help));
    }

    fn value(&mut self, keys: &[&str], text: &str) -> String {
        expand(text, self.environment).unwrap_or_else(|incomplete| {
            self.fault(keys, incomplete.to_string(), incomplete.help());
            String::new()
        })
    }

    fn secrets(&mut self, section: &str, raw: &BTreeMap<String, String>) -> Vec<(String, Secret)> {
        raw.iter()
            .map(|(name, text)| (name.clone(), Secret::new(self.value(&[section, name], text))))
            .collect()
    }

    fn transport(&mut self, raw: &RawServer) -> Option<Transport> {
        match (&raw.command, &raw.url) {
            (Some(command), None) => {
                if !raw.headers.is_empty() {
                    self.fault(
                        &["headers"],
                        "`headers` belong to a server with `url`",
                        "use `env` for a `command`",
                    );
                }
                self.stdio(command, raw)
            }
            (None, Some(url)) => {
                for (key, is_there) in
                    [("args", !raw.args.is_empty()), ("env", !raw.env.is_empty()), ("cwd", raw.cwd.is_some())]
                {
                    if is_there {
                        self.fault(
                            &[key],
                            format!("`{key}` belongs to a server with `command`"),
                            "this one has a `url`: taskgate connects to it and does not start it",
                        );
                    }
                }
                self.http(url, raw)
            }
            (Some(_), Some(_)) => {
                self.fault(&["url"], "a server has either `command` or `url`", "take one of the two away");
                None
            }
            (None, None) => {
                let what = format!("server {:?} has neither `command` nor `url`", self.name);
                self.fault(&[], what, "say how it is reached: `command = \"…\"` or `url = \"http://…\"`");
                None
            }
        }
    }

    fn stdio(&mut self, command: &str, raw: &RawServer) -> Option<Transport> {
        let command = self.value(&["command"], command);
        if command.trim().is_empty() {
            self.fault(&["command"], "`command` is empty", "name the program that is to be started");
        }
        let args = raw.args.iter().map(|arg| OsString::from(self.value(&["args"], arg))).collect();
        let env = self.secrets("env", &raw.env);
        let cwd = raw.cwd.as_deref().map(|cwd| {
            let cwd = resolve(&self.value(&["cwd"], cwd), self.folder, self.environment);
            if !cwd.is_dir() {
                let what = format!("there is no folder {}", cwd.display());
                self.fault(&["cwd"], what, "make it, or correct the path");
            }
            cwd
        });
        Some(Transport::Stdio { command: command.into(), args, env, cwd, inherit_env: InheritEnv::All })
    }

    fn http(&mut self, url: &str, raw: &RawServer) -> Option<Transport> {
        let url = self.value(&["url"], url);
        let parsed = url.parse::<http::Uri>().ok().filter(|uri| {
            matches!(uri.scheme_str(), Some("http" | "https"))
                && uri.host().is_some_and(|host| !host.is_empty())
        });
        if parsed.is_none() {
            self.fault(
                &["url"],
                "`url` is no http:// or https:// URL",
                "write it like \"https://example.com/mcp\"",
            );
        }
        let headers = self.secrets("headers", &raw.headers);
        for (name, value) in &headers {
            let fits = http::HeaderName::from_bytes(name.as_bytes()).is_ok()
                && http::HeaderValue::from_str(value.expose()).is_ok();
            if !fits {
                let what = format!("the header {name:?} cannot be sent");
                self.fault(
                    &["headers", name],
                    what,
                    "names are letters, digits and `-`; values are one line",
                );
            }
        }
        Some(Transport::Http { url, headers })
    }

    fn policy(&mut self, raw: &RawServer) -> ServerPolicy {
        let mut policy = ServerPolicy::new(ServerName(self.name.to_owned()));
        policy.path = match &raw.path {
            Some(path) => {
                let fits = path.len() > 1
                    && path.starts_with('/')
                    && !path.contains(['?', '#', '%', ' ', '\\'])
                    && path.bytes().all(|byte| byte.is_ascii_graphic());
                if !fits {
                    let what = format!("{path:?} is no path");
                    self.fault(
                        &["path"],
                        what,
                        "begin it with `/` and use letters, digits, `-`, `_`, `.` and `/`",
                    );
                }
                path.clone()
            }
            None => format!("/{}/mcp", slug(self.name)),
        };
        policy.trust_annotations = raw.trust_annotations;
        policy.default = self.tool(&["default"], raw.default, RawTool::default());
        policy.tools = raw
            .tools
            .iter()
            .map(|(tool, own)| (tool.clone(), self.tool(&["tools", tool], *own, raw.default)))
            .collect();
        policy
    }

    fn tool(&mut self, keys: &[&str], own: RawTool, default: RawTool) -> ToolPolicy {
        let at = |key| keys.iter().copied().chain([key]).collect::<Vec<_>>();
        let replay = own.replay.or(default.replay).unwrap_or(RawReplay::Never);
        let window = own.replay_window.or(if own.replay.is_none() { default.replay_window } else { None });
        let replay = match (replay, window) {
            (RawReplay::Never, _) => Replay::Never,
            (RawReplay::Natural, _) => Replay::Natural,
            (RawReplay::Keyed, Some(window)) => Replay::Keyed { window: window.0 },
            (RawReplay::Keyed, None) => {
                self.fault(
                    &at("replay"),
                    "`replay = \"keyed\"` needs a `replay_window`",
                    "say how long the server honours a key, as its documentation promises: replay_window = \"24h\"",
                );
                Replay::Never
            }
        };
        if own.replay_window.is_some() && !matches!(replay, Replay::Keyed { .. }) {
            self.fault(
                &at("replay_window"),
                "`replay_window` goes with `replay = \"keyed\"` only",
                "take it away, or declare `replay = \"keyed\"`",
            );
        }
        let effect = own.effect.or(default.effect).unwrap_or(RawEffect::Consequential);
        let mode = own.mode.or(default.mode).unwrap_or(RawMode::Auto);
        ToolPolicy {
            effect: match effect {
                RawEffect::ReadOnly => Effect::ReadOnly,
                RawEffect::Reversible => Effect::Reversible,
                RawEffect::Consequential => Effect::Consequential,
            },
            mode: match mode {
                RawMode::Auto => ToolMode::Auto,
                RawMode::Task => ToolMode::Task,
                RawMode::Sync => ToolMode::Sync,
            },
            replay,
        }
    }
}

/// A server's name as a part of a path.
fn slug(name: &str) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let slug: String = name.chars().map(|c| if fits(c) { c } else { '-' }).collect();
    // `.` and `..` mean something else in a path.
    if slug.chars().all(|c| c == '.') { "-".repeat(slug.len()) } else { slug }
}

/// Where the gateway answers for itself.
const OWN_PATHS: [&str; 2] = ["/healthz", "/readyz"];

/// Two servers cannot answer at one path.
pub(crate) fn distinct_paths(servers: &[Server], faults: &mut Vec<Fault>) {
    let mut seen = BTreeMap::new();
    for Server { policy, .. } in servers {
        if OWN_PATHS.contains(&policy.path.as_str()) {
            faults.push(Fault::new(
                &["servers", &policy.name.0, "path"],
                format!("the gateway answers for itself at {}", policy.path),
                "give the server another `path`",
            ));
        }
        if let Some(other) = seen.insert(policy.path.as_str(), &policy.name.0) {
            faults.push(Fault::new(
                &["servers", &policy.name.0, "path"],
                format!("servers {other:?} and {:?} both answer at {}", policy.name.0, policy.path),
                "give one of them another `path`",
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_from_hosts_become_paths() {
        assert_eq!(slug("files"), "files");
        assert_eq!(slug("My Server/1"), "My-Server-1");
        assert_eq!(slug(".."), "--");
    }

    #[test]
    fn a_tool_falls_back_to_the_servers_default() {
        let mut faults = Vec::new();
        let raw = RawServer {
            command: Some("x".to_owned()),
            default: RawTool {
                effect: Some(RawEffect::Reversible),
                mode: Some(RawMode::Task),
                ..RawTool::default()
            },
            tools: BTreeMap::from([(
                "t".to_owned(),
                RawTool { effect: Some(RawEffect::ReadOnly), ..RawTool::default() },
            )]),
            ..RawServer::default()
        };
        let server = understand("a", &raw, Path::new("/"), &Environment::default(), &mut faults).unwrap();
        let tool = server.policy.tools["t"];
        assert_eq!((tool.effect, tool.mode, tool.replay), (Effect::ReadOnly, ToolMode::Task, Replay::Never));
        assert_eq!(server.policy.default.effect, Effect::Reversible);
    }
}
