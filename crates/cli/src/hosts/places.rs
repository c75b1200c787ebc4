//! Where the hosts keep their files, for this user and for the project in the current folder.
//!
//! What each line relies on:
//! - Claude Desktop: `claude_desktop_config.json` in its folder of application data: `~/Library/Application
//!   Support/Claude` on macOS, `~/.config/Claude` on Linux.
//! - Claude Code (page *MCP*, scopes): user and local scope in `~/.claude.json` (`mcpServers` at the top, and under
//!   `projects.PATH`), project scope in `.mcp.json` at the project's root.
//! - VS Code (page *MCP configuration reference*): `.vscode/mcp.json`, and `mcp.json` in the user profile: `User`, or
//!   `User/profiles/ID` for a further profile.
//! - Cursor (page *MCP*): `~/.cursor/mcp.json` and `.cursor/mcp.json`.
//! - Zed: `context_servers` is one of the *project* settings (`ProjectSettingsContent`), so it may stand in
//!   `~/.config/zed/settings.json` and in `.zed/settings.json`.
//! - goose (page *Configuration files*; `config/paths.rs`): `~/.config/goose/config.yaml` on macOS and Linux;
//!   `GOOSE_PATH_ROOT`, where set, holds a folder `config`.
//! - opencode (page *Config*; `config/paths.ts`): `opencode.json` and `opencode.jsonc` in `~/.config/opencode`, in the
//!   project, and in the project's `.opencode`.

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::host::Host;
use crate::environment::Environment;

/// Whose servers a file holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Scope {
    /// This user's, in every project.
    User,
    /// Those of one project; others may read the same file.
    Project,
}

/// A file of a host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    pub(crate) host: Host,
    pub(crate) scope: Scope,
    pub(crate) file: PathBuf,
}

/// What decides where application data stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum System {
    Linux,
    MacOs,
}

impl System {
    /// The one that we run on. Another Unix is taken for Linux.
    pub(crate) fn here() -> System {
        if cfg!(target_os = "macos") { System::MacOs } else { System::Linux }
    }
}

/// All files that the hosts would read, whether they are there or not.
pub(crate) fn known(system: System, environment: &Environment, project: &Path) -> Vec<Place> {
    let mut places = Vec::new();
    for host in Host::ALL {
        let user = user_files(host, system, environment).into_iter().map(|file| (Scope::User, file));
        let project = project_files(host, project).into_iter().map(|file| (Scope::Project, file));
        places.extend(user.chain(project).map(|(scope, file)| Place { host, scope, file }));
    }
    places
}

fn user_files(host: Host, system: System, environment: &Environment) -> Vec<PathBuf> {
    let home = environment.home();
    let config = environment.config_home();
    let application_data = match system {
        System::Linux => config.clone(),
        System::MacOs => home.as_ref().map(|home| home.join("Library/Application Support")),
    };
    let found = match host {
        Host::ClaudeDesktop => application_data.map(|data| data.join("Claude/claude_desktop_config.json")),
        Host::ClaudeCode => home.map(|home| home.join(".claude.json")),
        Host::VsCode => {
            let Some(data) = application_data else { return Vec::new() };
            return ["Code", "Code - Insiders"].iter().flat_map(|name| profiles(&data.join(name))).collect();
        }
        Host::Cursor => home.map(|home| home.join(".cursor/mcp.json")),
        // Both systems: zed's own `paths` uses `~/.config/zed` on macOS too.
        Host::Zed => match system {
            System::Linux => config.map(|config| config.join("zed/settings.json")),
            System::MacOs => home.map(|home| home.join(".config/zed/settings.json")),
        },
        Host::Goose => environment
            .goose_root()
            .map(|root| root.join("config"))
            .or_else(|| config.map(|config| config.join("goose")))
            .map(|folder| folder.join("config.yaml")),
        Host::OpenCode => {
            let Some(config) = config else { return Vec::new() };
            let folder = config.join("opencode");
            return vec![folder.join("opencode.json"), folder.join("opencode.jsonc")];
        }
    };
    found.into_iter().collect()
}

/// The `mcp.json` of the default profile of VS Code, then those of the others.
fn profiles(code: &Path) -> Vec<PathBuf> {
    let user = code.join("User");
    let mut files = vec![user.join("mcp.json")];
    let others = std::fs::read_dir(user.join("profiles"));
    let mut others: Vec<_> =
        others.into_iter().flatten().flatten().map(|entry| entry.path().join("mcp.json")).collect();
    others.sort();
    files.extend(others);
    files
}

fn project_files(host: Host, project: &Path) -> Vec<PathBuf> {
    let names: &[&str] = match host {
        Host::ClaudeDesktop | Host::Goose => &[],
        Host::ClaudeCode => &[".mcp.json"],
        Host::VsCode => &[".vscode/mcp.json"],
        Host::Cursor => &[".cursor/mcp.json"],
        Host::Zed => &[".zed/settings.json"],
        Host::OpenCode => {
            &["opencode.json", "opencode.jsonc", ".opencode/opencode.json", ".opencode/opencode.jsonc"]
        }
    };
    names.iter().map(|name| project.join(name)).collect()
}

/// Whose file one seems to be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Guess {
    pub(crate) host: Host,
    pub(crate) scope: Scope,
    /// Told by its place; else by its name alone.
    pub(crate) is_certain: bool,
}

/// Whose file this is, told by where it stands and how it is called.
pub(crate) fn guess(file: &Path, known: &[Place]) -> Option<Guess> {
    let real = std::fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    let same = |place: &&Place| {
        place.file == file || std::fs::canonicalize(&place.file).is_ok_and(|other| other == real)
    };
    if let Some(place) = known.iter().find(same) {
        return Some(Guess { host: place.host, scope: place.scope, is_certain: true });
    }
    let name = file.file_name()?.to_str()?;
    // A lone name stands in the current folder.
    let folder = real.parent().and_then(Path::file_name).and_then(|name| name.to_str()).unwrap_or_default();
    let (host, scope) = match (folder, name) {
        (_, "claude_desktop_config.json") => (Host::ClaudeDesktop, Scope::User),
        (_, ".claude.json") => (Host::ClaudeCode, Scope::User),
        (_, ".mcp.json") => (Host::ClaudeCode, Scope::Project),
        (".vscode", "mcp.json") => (Host::VsCode, Scope::Project),
        (".cursor", "mcp.json") => (Host::Cursor, Scope::Project),
        (".zed", "settings.json") => (Host::Zed, Scope::Project),
        ("zed", "settings.json") => (Host::Zed, Scope::User),
        ("goose", "config.yaml") => (Host::Goose, Scope::User),
        (_, "opencode.json" | "opencode.jsonc") => (Host::OpenCode, Scope::Project),
        _ => return None,
    };
    Some(Guess { host, scope, is_certain: false })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(host: Host, scope: Scope, system: System, environment: &Environment) -> Vec<String> {
        known(system, environment, Path::new("/project"))
            .into_iter()
            .filter(|place| place.host == host && place.scope == scope)
            .map(|place| place.file.to_string_lossy().into_owned())
            .collect()
    }

    #[test]
    fn files_of_the_user_stand_where_each_system_keeps_them() {
        let plain = Environment::of([("HOME", "/h")]);
        let linux = |host| of(host, Scope::User, System::Linux, &plain);
        assert_eq!(linux(Host::ClaudeDesktop), ["/h/.config/Claude/claude_desktop_config.json"]);
        assert_eq!(linux(Host::ClaudeCode), ["/h/.claude.json"]);
        assert_eq!(
            linux(Host::VsCode),
            ["/h/.config/Code/User/mcp.json", "/h/.config/Code - Insiders/User/mcp.json"]
        );
        assert_eq!(linux(Host::Cursor), ["/h/.cursor/mcp.json"]);
        assert_eq!(linux(Host::Zed), ["/h/.config/zed/settings.json"]);
        assert_eq!(linux(Host::Goose), ["/h/.config/goose/config.yaml"]);
        let opencode = ["/h/.config/opencode/opencode.json", "/h/.config/opencode/opencode.jsonc"];
        assert_eq!(linux(Host::OpenCode), opencode);
        let mac = |host| of(host, Scope::User, System::MacOs, &plain);
        assert_eq!(
            mac(Host::ClaudeDesktop),
            ["/h/Library/Application Support/Claude/claude_desktop_config.json"]
        );
        assert_eq!(mac(Host::VsCode)[0], "/h/Library/Application Support/Code/User/mcp.json");
        assert_eq!(mac(Host::Zed), ["/h/.config/zed/settings.json"]);
    }

    #[test]
    fn the_environment_moves_the_folder_of_configurations() {
        let moved = Environment::of([("HOME", "/h"), ("XDG_CONFIG_HOME", "/c"), ("GOOSE_PATH_ROOT", "/g")]);
        let linux = |host| of(host, Scope::User, System::Linux, &moved);
        assert_eq!(linux(Host::ClaudeDesktop), ["/c/Claude/claude_desktop_config.json"]);
        assert_eq!(linux(Host::Goose), ["/g/config/config.yaml"]);
        assert_eq!(linux(Host::Zed), ["/c/zed/settings.json"]);
    }

    #[test]
    fn files_of_a_project_stand_in_its_folder() {
        let nobody = Environment::default();
        let project = |host| of(host, Scope::Project, System::Linux, &nobody);
        assert_eq!(project(Host::ClaudeCode), ["/project/.mcp.json"]);
        assert_eq!(project(Host::VsCode), ["/project/.vscode/mcp.json"]);
        assert!(project(Host::Goose).is_empty());
        assert_eq!(project(Host::OpenCode).len(), 4);
        assert!(of(Host::Cursor, Scope::User, System::Linux, &nobody).is_empty());
    }

    #[test]
    fn a_file_is_known_by_its_name_where_its_place_is_not() {
        let guess = |file: &str| guess(Path::new(file), &[]).map(|guess| guess.host);
        assert_eq!(guess("/copy/claude_desktop_config.json"), Some(Host::ClaudeDesktop));
        assert_eq!(guess("/copy/.cursor/mcp.json"), Some(Host::Cursor));
        assert_eq!(guess("/copy/.vscode/mcp.json"), Some(Host::VsCode));
        assert_eq!(guess("/copy/mcp.json"), None);
    }
}
