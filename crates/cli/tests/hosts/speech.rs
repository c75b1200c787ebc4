//! A client that looks at bytes, as no SDK does.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::home::Home;

/// The members of an object, each as it was written.
pub(crate) type Members = BTreeMap<String, Box<RawValue>>;

pub(crate) struct Speech {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    id: u32,
}

#[derive(Deserialize)]
struct Answer {
    id: Option<u32>,
    result: Option<Box<RawValue>>,
}

impl Speech {
    /// Starts a server and opens a session with it; gives the result of `initialize`.
    pub(crate) fn open(home: &Home, command: &[String], version: &str) -> (Speech, String) {
        let environment = home.environment();
        let path = environment.iter().find(|(name, _)| name == "PATH").map(|(_, path)| path.clone());
        let mut child = home
            .command("/usr/bin/env")
            .args(command)
            .envs(environment)
            .env("PATH", path.unwrap())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let stdin = child.stdin.take().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let mut speech = Speech { child, stdin, stdout, id: 0 };
        let hello = json!({
            "protocolVersion": version, "capabilities": {}, "clientInfo": { "name": "bytes", "version": "1" },
        });
        let opened = speech.ask("initialize", &hello);
        speech.say(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        (speech, opened)
    }

    /// The result, byte for byte.
    pub(crate) fn ask(&mut self, method: &str, params: &Value) -> String {
        self.id += 1;
        self.say(&json!({ "jsonrpc": "2.0", "id": self.id, "method": method, "params": params }));
        loop {
            let mut line = String::new();
            assert_ne!(
                self.stdout.read_line(&mut line).unwrap(),
                0,
                "it ended without an answer to {method}"
            );
            let answer: Answer = serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line}"));
            if answer.id == Some(self.id) {
                return answer.result.unwrap_or_else(|| panic!("{line}")).get().to_owned();
            }
        }
    }

    fn say(&mut self, message: &Value) {
        writeln!(self.stdin, "{message}").unwrap();
    }

    /// Closes stdin and waits for the end.
    pub(crate) fn close(self) {
        let Speech { mut child, stdin, .. } = self;
        drop(stdin);
        child.wait().unwrap();
    }
}

/// An object's members as they are written.
pub(crate) fn members(object: &str) -> Members {
    serde_json::from_str(object).unwrap_or_else(|_| panic!("{object}"))
}

/// An array's elements as they are written.
pub(crate) fn elements(array: &str) -> Vec<String> {
    let raw: Vec<Box<RawValue>> = serde_json::from_str(array).unwrap_or_else(|_| panic!("{array}"));
    raw.iter().map(|element| element.get().to_owned()).collect()
}
