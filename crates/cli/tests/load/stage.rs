//! The gateway, and three servers behind it: one for each dialect and one without tasks.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::capture::tap::{self, Exchange, Exchanges};

/// An endpoint of the gateway.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// `127.0.0.1:PORT`.
    pub(crate) address: String,
    pub(crate) path: String,
}

/// What a process holds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    /// Resident memory, KiB.
    pub(crate) memory: u64,
    pub(crate) descriptors: usize,
}

/// A line that is written down.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Line {
    /// To all clients.
    Front,
    /// To the server of this dialect.
    Back(&'static str),
}

pub(crate) struct Stage {
    folder: TempDir,
    gateway: Child,
    servers: Vec<Child>,
    /// What passes to each server and to all clients, where that is written down.
    lines: Vec<(Line, Exchanges)>,
    pub(crate) places: Vec<Place>,
}

const DIALECTS: [&str; 3] = ["a", "b", "plain"];

impl Stage {
    /// With `is_tapped`, all that passes is kept in memory.
    pub(crate) fn set(is_tapped: bool) -> Stage {
        let folder = TempDir::new().unwrap();
        let mut config = format!(
            // Short, so that those without tasks meet a handle, and those with them an answer at once as well.
            "[limits]\nsync_budget = \"3s\"\ntask_after = \"500ms\"\nlive_tasks_anonymous = 1000000\n\
             [listen]\naddress = \"127.0.0.1:0\"\n[store]\npath = {:?}\n",
            folder.path().join("tasks.db").to_str().unwrap()
        );
        let (mut servers, mut lines) = (Vec::new(), Vec::new());
        let mut tapped = |line: Line, port: u16| {
            if !is_tapped {
                return port;
            }
            let (port, exchanges) = tap::http(port);
            lines.push((line, exchanges));
            port
        };
        for dialect in DIALECTS {
            let (child, said) = start(
                &["demo-server", "--until-stdin-ends", "--dialect", dialect],
                &folder.path().join(format!("{dialect}.log")),
                1,
            );
            let (port, path) = address(&said[0]);
            config.push_str(&format!(
                "[servers.{dialect}]\nurl = \"http://127.0.0.1:{}{path}\"\n\
                 [servers.{dialect}.tools.echo]\neffect = \"read_only\"\n",
                tapped(Line::Back(dialect), port)
            ));
            servers.push(child);
        }
        let file = folder.path().join("taskgate.toml");
        fs::write(&file, config).unwrap();
        let (gateway, said) = start(
            &["serve", "--json", "--until-stdin-ends", "--config", file.to_str().unwrap()],
            &folder.path().join("gateway.log"),
            DIALECTS.len(),
        );
        let port = tapped(Line::Front, address(&said[0]).0);
        let places = said
            .iter()
            .map(|said| Place { address: format!("127.0.0.1:{port}"), path: address(said).1 })
            .collect();
        Stage { folder, gateway, servers, lines, places }
    }

    /// What was written down.
    pub(crate) fn heard(&self) -> Vec<(Line, Vec<Exchange>)> {
        self.lines.iter().map(|(line, heard)| (*line, heard.lock().unwrap().clone())).collect()
    }

    /// What the gateway holds now.
    pub(crate) fn held(&self) -> Held {
        let process = Path::new("/proc").join(self.gateway.id().to_string());
        let status = fs::read_to_string(process.join("status")).unwrap();
        let memory = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.split_whitespace().next());
        Held {
            memory: memory.and_then(|size| size.parse().ok()).unwrap(),
            descriptors: fs::read_dir(process.join("fd")).unwrap().count(),
        }
    }

    /// What the gateway complained of.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("gateway.log")).unwrap_or_default()
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        for child in std::iter::once(&mut self.gateway).chain(&mut self.servers) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The port and the path of what says where it listens.
fn address(said: &Value) -> (u16, String) {
    let url = said["url"].as_str().unwrap().strip_prefix("http://127.0.0.1:").unwrap();
    let (port, path) = url.split_at(url.find('/').unwrap());
    (port.parse().unwrap(), path.to_owned())
}

/// Starts taskgate, which ends when we do, since its stdin does; and what it says first, in so many lines.
fn start(args: &[&str], log: &Path, lines: usize) -> (Child, Vec<Value>) {
    let taskgate = std::env::var_os("LOAD_GATEWAY").unwrap_or_else(|| env!("CARGO_BIN_EXE_taskgate").into());
    let mut child = Command::new(taskgate)
        .args(args)
        .env("NO_COLOR", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(fs::File::create(log).unwrap())
        .spawn()
        .unwrap();
    let said = BufReader::new(child.stdout.take().unwrap()).lines().take(lines);
    let said: Vec<Value> =
        said.map_while(Result::ok).filter_map(|line| serde_json::from_str(&line).ok()).collect();
    assert_eq!(said.len(), lines, "{args:?}: {}", fs::read_to_string(log).unwrap_or_default());
    (child, said)
}
