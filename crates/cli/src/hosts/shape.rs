//! Where in a host's file the servers stand.

use std::ops::Range;

use super::tree::{Node, Value};

/// The kinds of files, by the member that holds the servers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Shape {
    /// `mcpServers`: Claude Desktop, Cursor, and what is called an `mcp.json` everywhere else.
    McpServers,
    /// `mcpServers` at the top and under `projects.PATH`: Claude Code.
    ClaudeCode,
    /// `servers`: VS Code.
    Servers,
    /// `context_servers`: Zed.
    ContextServers,
    /// `extensions`: goose.
    Extensions,
    /// `mcp`: opencode.
    Mcp,
}

/// A server in the tree.
#[derive(Clone, Debug)]
pub(crate) struct Found<'a> {
    /// The folder that it is for, in a file that keeps several projects apart.
    pub(crate) project: Option<&'a str>,
    pub(crate) name: &'a str,
    pub(crate) node: &'a Node,
    /// Whether this name stands more than once in its section.
    pub(crate) is_twice: bool,
    /// Whether other places of the file may share its section.
    pub(crate) is_shared: bool,
}

/// What stands where the servers should.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Misplaced {
    pub(crate) what: String,
    pub(crate) at: Range<usize>,
}

impl Shape {
    const ALL: [Shape; 5] =
        [Shape::McpServers, Shape::ContextServers, Shape::Servers, Shape::Mcp, Shape::Extensions];

    /// The member that holds the servers.
    pub(crate) fn section(self) -> &'static str {
        match self {
            Shape::McpServers | Shape::ClaudeCode => "mcpServers",
            Shape::Servers => "servers",
            Shape::ContextServers => "context_servers",
            Shape::Extensions => "extensions",
            Shape::Mcp => "mcp",
        }
    }

    /// Told by what stands in the file: the first kind whose section is there.
    pub(crate) fn of(root: &Node) -> Option<Shape> {
        Shape::ALL.into_iter().find(|shape| {
            root.get(shape.section()).is_some_and(|section| matches!(section.value, Value::Map(_)))
        })
    }

    /// Whether the file has a section of this kind.
    pub(crate) fn is_in(self, root: &Node) -> bool {
        !self.sections(root).is_empty()
    }

    /// The servers of a file, in its order.
    pub(crate) fn servers(self, root: &Node) -> Result<Vec<Found<'_>>, Misplaced> {
        let mut found = Vec::new();
        for (project, section) in self.sections(root) {
            let Some(members) = section.members() else {
                let what = format!(
                    "{:?} holds the servers: an object with one member for each was expected, found {}",
                    self.section(),
                    section.kind()
                );
                return Err(Misplaced { what, at: section.point() });
            };
            for member in members {
                let is_twice = members.iter().filter(|other| other.name == member.name).count() > 1;
                let is_shared = section.is_anchored;
                found.push(Found { project, name: &member.name, node: &member.value, is_twice, is_shared });
            }
        }
        Ok(found)
    }

    fn sections(self, root: &Node) -> Vec<(Option<&str>, &Node)> {
        let top = root.get(self.section()).filter(|section| section.value != Value::Null);
        let mut sections: Vec<_> = top.map(|section| (None, section)).into_iter().collect();
        if self == Shape::ClaudeCode {
            let projects = root.get("projects").and_then(Node::members).unwrap_or_default();
            sections.extend(projects.iter().filter_map(|project| {
                Some((Some(project.name.as_str()), project.value.get(self.section())?))
            }));
        }
        sections
    }
}
