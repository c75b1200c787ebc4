//! What an agent can see, and which server process is its own.
//!
//! - [`Scope`]: the command with its arguments and folder, or the name that a person gave. All who start the same thing
//!   in the same place see the same tasks.
//! - [`Key`]: the scope and the environment: what a server process can do depends on the credentials that stand there.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use data_encoding::HEXLOWER;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use taskgate_core::id::{Principal, ServerName};

use crate::attachment::{Attachment, AttachmentId, Reach, Text};

/// Variables that say in which window, terminal or session a host was started, and nothing that a server works with.
/// They do not count for the process key; the process gets those of the host that started it. A name that ends in `*`
/// stands for all that begin so. `docs/commands.md` has this list.
pub const WINDOW_VARIABLES: &[&str] = &[
    // The shell's own.
    "_",
    "SHLVL",
    "PWD",
    "OLDPWD",
    "COLUMNS",
    "LINES",
    "HISTFILE",
    "PS1",
    // The terminal and its window.
    "TERM",
    "TERM_PROGRAM*",
    "TERM_SESSION_ID",
    "TERMINAL_EMULATOR",
    "COLORTERM",
    "COLORFGBG",
    "WINDOWID",
    "VTE_VERSION",
    "ALACRITTY_*",
    "GHOSTTY_*",
    "GNOME_TERMINAL_*",
    "ITERM_*",
    "KITTY_*",
    "KONSOLE_*",
    "LC_TERMINAL*",
    "WEZTERM_*",
    "WT_*",
    "WARP_*",
    "ZELLIJ*",
    "TMUX*",
    "STY",
    // The desktop's session.
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "XAUTHORITY",
    "DBUS_SESSION_BUS_ADDRESS",
    "DESKTOP_STARTUP_ID",
    "DESKTOP_SESSION",
    "GDMSESSION",
    "GIO_LAUNCHED_DESKTOP_FILE*",
    "SESSION_MANAGER",
    "XDG_SESSION_*",
    "XDG_ACTIVATION_TOKEN",
    "XDG_RUNTIME_DIR",
    "XDG_SEAT*",
    "XDG_VTNR",
    // The log-in and its service manager.
    "SSH_*",
    "INVOCATION_ID",
    "JOURNAL_STREAM",
    "MANAGERPID",
    "SYSTEMD_EXEC_PID",
    "XPC_*",
    "__CFBundleIdentifier",
    // The host itself, and what started us.
    "VSCODE_*",
    "CURSOR_TRACE_ID",
    "CLAUDECODE",
    "CLAUDE_CODE_ENTRYPOINT",
    "CLAUDE_CODE_SSE_PORT",
    "ELECTRON_NO_ATTACH_CONSOLE",
    "CHROME_DESKTOP",
    "INIT_CWD",
    "npm_command",
    "npm_execpath",
    "npm_node_execpath",
    "npm_lifecycle_*",
    "npm_package_*",
    "npm_config_user_agent",
    "npm_config_local_prefix",
];

/// Whether a variable counts for the process key.
fn counts(name: &OsStr) -> bool {
    let name = name.as_bytes();
    !WINDOW_VARIABLES.iter().any(|known| match known.strip_suffix('*') {
        Some(start) => name.starts_with(start.as_bytes()),
        None => name == known.as_bytes(),
    })
}

/// Longest readable part of a name.
const READABLE_MAX: usize = 24;

/// What an agent can see.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Scope {
    readable: String,
    digest: [u8; 32],
    is_named: bool,
}

impl Scope {
    /// The scope of an attachment.
    #[must_use]
    pub fn of(attachment: &Attachment) -> Scope {
        if let Some(name) = &attachment.name {
            let mut hash = Sha256::new();
            part(&mut hash, b"name");
            part(&mut hash, name.as_bytes());
            return Scope { readable: readable(name), digest: hash.finalize().into(), is_named: true };
        }
        let mut hash = Sha256::new();
        let readable = match &attachment.reach {
            Reach::Command { command, folder, .. } => {
                part(&mut hash, b"command");
                for word in command {
                    part(&mut hash, word.0.as_bytes());
                }
                part(&mut hash, b"");
                part(&mut hash, folder.0.as_bytes());
                readable(&program(command))
            }
            Reach::Http { url, .. } => {
                part(&mut hash, b"url");
                part(&mut hash, url.as_bytes());
                readable("http")
            }
        };
        Scope { readable, digest: hash.finalize().into(), is_named: false }
    }

    /// Whose tasks they are.
    #[must_use]
    pub fn principal(&self) -> Principal {
        Principal::stored(format!("local:{}-{}", self.readable, self.digits()))
    }

    fn digits(&self) -> String {
        HEXLOWER.encode(self.digest.get(..6).unwrap_or_default())
    }
}

/// Which server process.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Key {
    /// What those who share it can see.
    pub scope: Scope,
    /// Its name: in the store, in logs and for people.
    pub server: ServerName,
    /// The same without what tells apart those who want a process of their own: in the names of workflows, whose keys
    /// count for all of them.
    pub base: String,
}

impl Key {
    /// The key of an attachment. `secret` is the store's: with it the environment's hash can be kept without telling
    /// anything about the environment.
    #[must_use]
    pub fn of(attachment: &Attachment, secret: &[u8; 32]) -> Key {
        let scope = Scope::of(attachment);
        let mut name = if scope.is_named {
            // Two names that look alike when made readable are still two.
            match &attachment.name {
                Some(name) if readable(name) == *name => name.clone(),
                Some(_) | None => format!("{}-{}", scope.readable, scope.digits()),
            }
        } else {
            let seen = HEXLOWER.encode(environment_hash(attachment, secret).get(..6).unwrap_or_default());
            format!("{}-{}-{seen}", scope.readable, scope.digits())
        };
        let base = name.clone();
        if attachment.apart {
            name.push_str("-apart-");
            name.push_str(&HEXLOWER.encode(attachment.id.0.get(..6).unwrap_or_default()));
        }
        Key { scope, server: ServerName(name), base }
    }
}

/// What a name stands for, so that a second command under it is noticed.
#[must_use]
pub fn meaning(attachment: &Attachment) -> [u8; 32] {
    let unnamed = Attachment { name: None, ..attachment.clone() };
    Scope::of(&unnamed).digest
}

fn environment_hash(attachment: &Attachment, secret: &[u8; 32]) -> [u8; 32] {
    let mut pairs: Vec<(&[u8], &[u8])> = match &attachment.reach {
        Reach::Command { environment, .. } => environment
            .iter()
            .filter(|(name, _)| counts(&name.0))
            .map(|(name, value)| (name.0.as_bytes(), value.0.as_bytes()))
            .collect(),
        Reach::Http { headers, .. } => {
            headers.iter().map(|(name, value)| (name.as_bytes(), value.0.as_bytes())).collect()
        }
    };
    pairs.sort_unstable();
    // A key of 32 bytes is taken by every HMAC.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(secret) else { return [0; 32] };
    mac.update(b"taskgate process key 1");
    for (name, value) in pairs {
        for text in [name, value] {
            mac.update(&(text.len() as u64).to_le_bytes());
            mac.update(text);
        }
    }
    mac.finalize().into_bytes().into()
}

fn part(hash: &mut Sha256, bytes: &[u8]) {
    hash.update((bytes.len() as u64).to_le_bytes());
    hash.update(bytes);
}

/// The program's name, or of a runner the name of what it runs: `npx -y @scope/server-files /home` is `server-files`.
fn program(command: &[Text]) -> String {
    let name = |text: &OsStr| {
        Path::new(text)
            .file_stem()
            .map_or_else(|| "server".to_owned(), |name| name.to_string_lossy().into_owned())
    };
    let Some((program, arguments)) = command.split_first() else { return "server".to_owned() };
    let own = name(&program.0);
    let is_runner =
        matches!(own.as_str(), "npx" | "bunx" | "pnpx" | "uvx" | "pipx" | "node" | "bun" | "deno" | "uv")
            || own.starts_with("python");
    let is_word =
        |text: &str| !text.starts_with('-') && !matches!(text, "run" | "exec" | "dlx" | "tool" | "x");
    let run =
        arguments.iter().filter_map(|text| text.0.to_str()).find(|text| is_word(text)).filter(|_| is_runner);
    match run {
        // A version after `@` is not part of the name.
        Some(run) => {
            let last = run.rsplit('/').next().unwrap_or(run);
            let plain = last.split('@').find(|part| !part.is_empty()).unwrap_or(last);
            let path = Path::new(plain);
            let is_script = path.extension().is_some_and(|end| {
                ["js", "mjs", "cjs", "ts", "py"].iter().any(|known| end.eq_ignore_ascii_case(known))
            });
            if is_script { name(path.as_os_str()) } else { plain.to_owned() }
        }
        None => own,
    }
}

fn readable(name: &str) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let plain: String = name.chars().filter(|c| fits(*c)).take(READABLE_MAX).collect();
    let plain = plain.trim_start_matches('.');
    if plain.is_empty() { "server".to_owned() } else { plain.to_owned() }
}

/// An id for a new attachment.
#[must_use]
pub fn attachment_id(random: &dyn taskgate_engine::ids::Random) -> AttachmentId {
    let mut bytes = [0; 16];
    random.fill(&mut bytes);
    AttachmentId(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attachment::{Era, Treatment};

    const SECRET: [u8; 32] = [3; 32];

    fn attachment(command: &[&str], environment: &[(&str, &str)]) -> Attachment {
        let text = |text: &&str| Text(text.into());
        Attachment {
            id: AttachmentId([1; 16]),
            name: None,
            apart: false,
            reach: Reach::Command {
                command: command.iter().map(text).collect(),
                folder: Text("/work".into()),
                environment: environment.iter().map(|(name, value)| (text(name), text(value))).collect(),
            },
            era: Era::Auto,
            treatment: Treatment::default(),
            workflows: None,
            host_pid: 1,
        }
    }

    #[test]
    fn the_environment_makes_another_process_and_not_another_scope() {
        let one = Key::of(&attachment(&["npx", "-y", "files"], &[("TOKEN", "a")]), &SECRET);
        let other = Key::of(&attachment(&["npx", "-y", "files"], &[("TOKEN", "b")]), &SECRET);
        assert_eq!(one.scope, other.scope);
        assert_ne!(one.server, other.server);
        assert!(one.server.0.starts_with("files-"), "{}", one.server);
        assert!(one.scope.principal().as_str().starts_with("local:files-"));
    }

    #[test]
    fn windows_and_order_of_the_environment_do_not_count() {
        let one =
            attachment(&["x"], &[("A", "1"), ("B", "2"), ("TERM_PROGRAM_VERSION", "3"), ("SHLVL", "1")]);
        let other =
            attachment(&["x"], &[("B", "2"), ("WINDOWID", "9"), ("A", "1"), ("npm_lifecycle_event", "x")]);
        assert_eq!(Key::of(&one, &SECRET), Key::of(&other, &SECRET));
    }

    #[test]
    fn words_cannot_be_shifted_from_one_argument_to_the_next() {
        let scope = |command: &[&str]| Scope::of(&attachment(command, &[]));
        assert_ne!(scope(&["x", "ab", "c"]), scope(&["x", "a", "bc"]));
        let key = |environment| Key::of(&attachment(&["x"], environment), &SECRET);
        assert_ne!(key(&[("A", "B"), ("C", "")]), key(&[("A", ""), ("BC", "")]));
    }

    #[test]
    fn a_name_stands_for_command_folder_and_environment() {
        let named = |command: &[&str], environment: &[(&str, &str)]| Attachment {
            name: Some("files".into()),
            ..attachment(command, environment)
        };
        let one = named(&["x"], &[("TOKEN", "a")]);
        let other = named(&["y"], &[("TOKEN", "b")]);
        assert_eq!(Key::of(&one, &SECRET), Key::of(&other, &SECRET));
        assert_eq!(Key::of(&one, &SECRET).server.0, "files");
        assert_ne!(meaning(&one), meaning(&other));
    }

    #[test]
    fn names_that_look_alike_stay_apart() {
        let named =
            |name: &str| Key::of(&Attachment { name: Some(name.into()), ..attachment(&["x"], &[]) }, &SECRET);
        assert_ne!(named("a b").server, named("ab").server);
        assert_ne!(named("../x").server, named("x").server);
        assert!(!named("../x").server.0.contains('/'));
    }

    #[test]
    fn apart_is_a_process_of_its_own_in_the_same_scope() {
        let shared = attachment(&["x"], &[]);
        let apart = Attachment { apart: true, ..shared.clone() };
        let (one, other) = (Key::of(&shared, &SECRET), Key::of(&apart, &SECRET));
        assert_eq!(one.scope, other.scope);
        assert_ne!(one.server, other.server);
    }

    #[test]
    fn another_store_gives_another_hash_of_the_same_environment() {
        let one = attachment(&["x"], &[("TOKEN", "a")]);
        assert_ne!(Key::of(&one, &SECRET).server, Key::of(&one, &[4; 32]).server);
    }

    #[test]
    fn a_server_is_named_by_what_is_run() {
        let name =
            |command: &[&str]| program(&command.iter().map(|word| Text(word.into())).collect::<Vec<_>>());
        assert_eq!(name(&["/usr/bin/files.py"]), "files");
        assert_eq!(
            name(&["npx", "-y", "@modelcontextprotocol/server-filesystem@1.2.3", "/home"]),
            "server-filesystem"
        );
        assert_eq!(name(&["npx", "@scope/thing"]), "thing");
        assert_eq!(name(&["uvx", "mcp-server-git"]), "mcp-server-git");
        assert_eq!(name(&["python3", "server.py"]), "server");
        assert_eq!(name(&["docker", "run", "-i", "mcp/fetch"]), "docker");
        assert_eq!(name(&["node", "--inspect"]), "node");
    }
}
