//! The hosts that are known.

use clap::ValueEnum;
use serde::Serialize;

use super::places::Scope;
use super::shape::Shape;

/// A program that starts MCP servers from a file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Host {
    /// Claude Desktop
    ClaudeDesktop,
    /// Claude Code
    ClaudeCode,
    /// Visual Studio Code
    #[value(name = "vscode")]
    #[serde(rename = "vscode")]
    VsCode,
    /// Cursor
    Cursor,
    /// Zed
    Zed,
    /// goose
    Goose,
    /// opencode
    #[value(name = "opencode")]
    #[serde(rename = "opencode")]
    OpenCode,
}

impl Host {
    /// All of them, in the order in which they are shown.
    pub(crate) const ALL: [Host; 7] = [
        Host::ClaudeDesktop,
        Host::ClaudeCode,
        Host::VsCode,
        Host::Cursor,
        Host::Zed,
        Host::Goose,
        Host::OpenCode,
    ];

    /// Its name, for people.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Host::ClaudeDesktop => "Claude Desktop",
            Host::ClaudeCode => "Claude Code",
            Host::VsCode => "VS Code",
            Host::Cursor => "Cursor",
            Host::Zed => "Zed",
            Host::Goose => "goose",
            Host::OpenCode => "opencode",
        }
    }

    /// Where in its files the servers stand.
    pub(crate) fn shape(self) -> Shape {
        match self {
            Host::ClaudeDesktop | Host::Cursor => Shape::McpServers,
            Host::ClaudeCode => Shape::ClaudeCode,
            Host::VsCode => Shape::Servers,
            Host::Zed => Shape::ContextServers,
            Host::Goose => Shape::Extensions,
            Host::OpenCode => Shape::Mcp,
        }
    }

    /// Whether it is a window that a desktop starts, whose `PATH` may be shorter than a shell's. goose is both: its
    /// window and its command read the same file.
    pub(crate) fn is_window(self) -> bool {
        match self {
            Host::ClaudeDesktop | Host::VsCode | Host::Cursor | Host::Zed | Host::Goose => true,
            Host::ClaudeCode | Host::OpenCode => false,
        }
    }

    /// Whether it replaces a `~` at the beginning of an argument, as it does in the command. VS Code does
    /// (`extHostMcpNode.ts`: `launch.args.map(a => untildify(a, home))`); of the others it is not known.
    pub(crate) fn expands_tilde_in_args(self) -> bool {
        match self {
            Host::VsCode => true,
            Host::ClaudeDesktop
            | Host::ClaudeCode
            | Host::Cursor
            | Host::Zed
            | Host::Goose
            | Host::OpenCode => false,
        }
    }

    /// The time that a host waits for one tool call, from the member `timeout` of an entry, in milliseconds. `None` where
    /// such a member means nothing.
    ///
    /// - Claude Code: milliseconds; values below 1000 are ignored (its page *MCP*).
    /// - Zed: seconds (`ContextServerCommand.timeout`: "Timeout for tool calls in seconds").
    /// - goose: seconds (`ExtensionConfig::Stdio.timeout`, default 300).
    /// - opencode: milliseconds (`mcp.*.timeout`, passed to `callTool` in `mcp/catalog.ts`).
    pub(crate) fn call_limit_ms(self, timeout: u64) -> Option<u64> {
        match self {
            Host::ClaudeCode => (timeout >= 1000).then_some(timeout),
            Host::Zed | Host::Goose => Some(timeout.saturating_mul(1000)),
            Host::OpenCode => Some(timeout),
            Host::ClaudeDesktop | Host::VsCode | Host::Cursor => None,
        }
    }

    /// What to do before one of its files is written.
    pub(crate) fn caution(self, scope: Scope) -> Option<&'static str> {
        match (self, scope) {
            // It keeps its own state in that file, such as how often it was started.
            (Host::ClaudeCode, Scope::User) => {
                Some("Claude Code writes this file too while it runs: quit it before this is written")
            }
            (
                Host::ClaudeDesktop
                | Host::ClaudeCode
                | Host::VsCode
                | Host::Cursor
                | Host::Zed
                | Host::Goose
                | Host::OpenCode,
                Scope::User | Scope::Project,
            ) => None,
        }
    }

    /// What makes it read its file again.
    pub(crate) fn restart(self) -> &'static str {
        match self {
            Host::ClaudeDesktop => {
                "quit Claude Desktop (closing its window is not enough) and start it again"
            }
            Host::ClaudeCode => "start a new session of Claude Code",
            Host::VsCode => "restart the servers in VS Code (command `MCP: List Servers`), or VS Code itself",
            Host::Cursor => "restart Cursor",
            Host::Zed => "restart Zed",
            Host::Goose => "start a new session of goose; restart its window",
            Host::OpenCode => "restart opencode",
        }
    }
}
