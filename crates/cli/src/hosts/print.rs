//! `run --print-config HOST`: the entry for a host, ready to be pasted, and where it goes.

use std::ffi::OsString;
use std::path::Path;

use super::host::Host;
use super::json;
use super::places::{self, Scope, System};
use super::program::Program;
use super::shape::Shape;
use super::tree::Format;
use crate::environment::Environment;
use crate::exit;
use crate::failure::Failure;
use crate::ui::Ui;

/// Prints the entry by which `host` would run `command` behind taskgate. `name` is what the host calls the server; without
/// it, it is told from the command. Nothing is started and nothing is written.
pub(crate) fn print_config(
    host: Host,
    name: Option<&str>,
    command: &[OsString],
    environment: &Environment,
    ui: Ui,
) -> Result<(), Failure> {
    let texts: Option<Vec<_>> = command.iter().map(|part| part.to_str().map(str::to_owned)).collect();
    let Some(texts) = texts.filter(|texts| !texts.is_empty()) else {
        return Err(Failure::new(
            exit::USAGE,
            "there is no command that could be written into a configuration",
            "write the server's command after --, in UTF-8",
        ));
    };
    let current = std::env::current_exe().map_err(anyhow::Error::new)?;
    let program = Program::find(current, environment);
    let Some(program) = program.for_host(Some(host), Scope::User) else {
        let help = "install it in a folder whose name is UTF-8";
        return Err(Failure::new(exit::USAGE, "the path of this taskgate is no text", help));
    };
    let name = name.map_or_else(|| name_of(&texts), str::to_owned);
    let argv: Vec<_> = [program, "run".to_owned(), "--".to_owned()].into_iter().chain(texts).collect();
    ui.raw(&entry(host, &name, &argv));
    let project = std::env::current_dir().unwrap_or_default();
    ui.note(&format!("\nfor {}, in one of these files:", host.title()));
    let mut is_first = [true, true];
    for place in places::known(System::here(), environment, &project) {
        let (which, whose) = match place.scope {
            Scope::User => (0, "for you"),
            Scope::Project => (1, "for this project"),
        };
        if place.host == host && std::mem::take(&mut is_first[which]) {
            ui.note(&format!("  {} ({whose})", place.file.display()));
        }
    }
    if let Some(line) = own_command(host, &name, &argv) {
        ui.note(&format!("or let {} write it:\n  {line}", host.title()));
    }
    Ok(())
}

/// A file with this one entry.
fn entry(host: Host, name: &str, argv: &[String]) -> String {
    let list = |parts: &[String]| parts.iter().map(|part| json::literal(part)).collect::<Vec<_>>().join(", ");
    let (program, args) = argv.split_first().map_or(("", argv), |(program, args)| (program.as_str(), args));
    let lines = match host.shape() {
        Shape::McpServers | Shape::ClaudeCode | Shape::Servers | Shape::ContextServers => {
            let kind = match host {
                // Both say so in their documentation, and read an entry without it as this one.
                Host::ClaudeCode | Host::VsCode => Some("\"type\": \"stdio\"".to_owned()),
                Host::ClaudeDesktop | Host::Cursor | Host::Zed | Host::Goose | Host::OpenCode => None,
            };
            let rest =
                [format!("\"command\": {}", json::literal(program)), format!("\"args\": [{}]", list(args))];
            kind.into_iter().chain(rest).collect()
        }
        Shape::Mcp => vec!["\"type\": \"local\"".to_owned(), format!("\"command\": [{}]", list(argv))],
        Shape::Extensions => {
            let scalar = |text: &str| Format::Yaml.literal(text);
            let mut lines = vec![
                format!("extensions:\n  {}:", scalar(name)),
                "    enabled: true".to_owned(),
                "    type: stdio".to_owned(),
                format!("    name: {}", scalar(name)),
                "    description: ''".to_owned(),
                format!("    cmd: {}", scalar(program)),
                "    args:".to_owned(),
            ];
            lines.extend(args.iter().map(|part| format!("    - {}", scalar(part))));
            lines.push("    timeout: 300\n".to_owned());
            return lines.join("\n");
        }
    };
    let section = host.shape().section();
    let inner = lines.join(",\n      ");
    format!("{{\n  \"{section}\": {{\n    {}: {{\n      {inner}\n    }}\n  }}\n}}\n", json::literal(name))
}

/// The host's own command line that writes such an entry, for those that have one.
///
/// - Claude Code: `claude mcp add [options] NAME -- COMMAND ARGS…`; a name is letters, digits, `-` and `_`.
/// - VS Code: `code --add-mcp JSON`, with the name within the entry.
fn own_command(host: Host, name: &str, argv: &[String]) -> Option<String> {
    match host {
        Host::ClaudeCode => {
            let name: String = name
                .chars()
                .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_') { c } else { '-' })
                .collect();
            let command: Vec<_> = argv.iter().map(|part| quoted(part)).collect();
            Some(format!("claude mcp add --scope user {} -- {}", quoted(&name), command.join(" ")))
        }
        Host::VsCode => {
            let (program, args) = argv.split_first()?;
            let args: Vec<_> = args.iter().map(|part| json::literal(part)).collect();
            let entry = format!(
                "{{\"name\":{},\"command\":{},\"args\":[{}]}}",
                json::literal(name),
                json::literal(program),
                args.join(",")
            );
            Some(format!("code --add-mcp {}", quoted(&entry)))
        }
        Host::ClaudeDesktop | Host::Cursor | Host::Zed | Host::Goose | Host::OpenCode => None,
    }
}

/// For a shell.
fn quoted(text: &str) -> String {
    let is_plain = !text.is_empty()
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '_' | '-' | '@' | ':' | '+' | '='));
    if is_plain { text.to_owned() } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

/// What a command is about: the package that a runner is told to run, else the program; without folder, scope and version.
fn name_of(command: &[String]) -> String {
    let program = command.first().map(String::as_str).unwrap_or_default();
    let stem = |path: &str| {
        Path::new(path)
            .file_stem()
            .map_or_else(|| path.to_owned(), |stem| stem.to_string_lossy().into_owned())
    };
    let subject = match stem(program).as_str() {
        "npx" | "bunx" | "pnpx" | "uvx" => command.iter().skip(1).find(|part| !part.starts_with('-')),
        "node" | "python" | "python3" | "bun" | "deno" | "sh" | "bash" => {
            command.iter().skip(1).find(|part| !part.starts_with('-') && part.contains(['.', '/']))
        }
        _ => None,
    };
    let Some(subject) = subject else { return stem(program) };
    let last = subject.rsplit('/').next().unwrap_or(subject);
    let bare = last.split_once('@').map_or(last, |(bare, _)| bare);
    let bare = if subject.starts_with(['.', '/']) { stem(bare) } else { bare.to_owned() };
    if bare.is_empty() { stem(program) } else { bare.strip_suffix(".py").map_or(bare.clone(), str::to_owned) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn a_server_is_named_for_what_it_is_about() {
        for (command, name) in [
            ("npx -y @modelcontextprotocol/server-filesystem@1.2 /home/me", "server-filesystem"),
            ("uvx mcp-server-git", "mcp-server-git"),
            ("python -m server", "python"),
            ("python3 /srv/weather.py", "weather"),
            ("node ./dist/index.js", "index"),
            ("/opt/bin/thing.sh a", "thing"),
            ("docker run -i x", "docker"),
        ] {
            assert_eq!(name_of(&words(command)), name, "{command}");
        }
    }

    #[test]
    fn what_is_printed_is_read_back_as_what_was_meant() {
        use crate::hosts::edit::Document;
        use crate::hosts::entry::Kind;

        let argv = words("/opt/bin/taskgate run -- npx -y x");
        for host in Host::ALL {
            let text = entry(host, "my \"server\"", &argv);
            let format = if host == Host::Goose { Format::Yaml } else { Format::Json };
            let document = Document { format, shape: host.shape(), host: Some(host), text: text.clone() };
            let entries = document.entries(Path::new("/opt/bin/taskgate")).unwrap();
            assert_eq!(entries.len(), 1, "{text}");
            assert_eq!(entries[0].name, "my \"server\"");
            let Kind::Behind(launch) = &entries[0].kind else { panic!("{:?}", entries[0]) };
            assert_eq!(launch.argv, argv);
        }
    }

    #[test]
    fn a_shell_reads_the_hosts_own_command_as_it_is_meant() {
        let argv = words("taskgate run -- sh -c it's");
        assert_eq!(
            own_command(Host::ClaudeCode, "a b", &argv).unwrap(),
            r"claude mcp add --scope user a-b -- taskgate run -- sh -c 'it'\''s'"
        );
        let line = own_command(Host::VsCode, "a", &argv).unwrap();
        assert!(
            line.starts_with(r#"code --add-mcp '{"name":"a","command":"taskgate","args":["run","--","#),
            "{line}"
        );
        assert_eq!(own_command(Host::Zed, "a", &argv), None);
    }
}
