//! A host: it starts `run`, writes JSON-RPC to its stdin, and reads what comes back.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::thread;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::scene::{PATIENCE, until};

pub(crate) struct Host {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    stderr: Arc<Mutex<String>>,
    last: u64,
    /// What came while something else was waited for.
    heard: Vec<Value>,
}

impl Host {
    pub(crate) fn start(mut command: Command) -> Host {
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (sender, lines) = channel();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        let stderr = Arc::new(Mutex::new(String::new()));
        let said = stderr.clone();
        let mut pipe = child.stderr.take().unwrap();
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = pipe.read(&mut bytes) {
                said.lock().unwrap().push_str(&String::from_utf8_lossy(&bytes[..count]));
            }
        });
        let stdin = child.stdin.take();
        Host { child, stdin, lines, stderr, last: 100, heard: Vec::new() }
    }

    pub(crate) fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }

    pub(crate) fn stderr(&self) -> String {
        self.stderr.lock().unwrap().clone()
    }

    pub(crate) fn wait_for_stderr(&self, words: &str) {
        until(words, || self.stderr().contains(words).then_some(()));
    }

    pub(crate) fn send(&mut self, message: &Value) {
        self.send_text(&message.to_string());
    }

    pub(crate) fn send_text(&mut self, text: &str) {
        writeln!(self.stdin.as_mut().unwrap(), "{text}").unwrap();
    }

    /// The next message that is such; the others are kept.
    pub(crate) fn wait(&mut self, what: &str, is_such: impl Fn(&Value) -> bool) -> Value {
        if let Some(at) = self.heard.iter().position(&is_such) {
            return self.heard.remove(at);
        }
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) => {
                    let message: Value =
                        serde_json::from_str(&line).unwrap_or_else(|_| panic!("no JSON: {line}"));
                    if is_such(&message) {
                        return message;
                    }
                    self.heard.push(message);
                }
                Err(RecvTimeoutError::Timeout) => {
                    panic!(
                        "{what}: nothing within {PATIENCE:?}; heard {:?}; said {}",
                        self.heard,
                        self.stderr()
                    )
                }
                Err(RecvTimeoutError::Disconnected) => {
                    panic!("{what}: its output ended; heard {:?}; said {}", self.heard, self.stderr())
                }
            }
        }
    }

    /// Sends a request; its id.
    pub(crate) fn ask(&mut self, method: &str, params: Value) -> u64 {
        self.last += 1;
        let id = self.last;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        id
    }

    pub(crate) fn answer(&mut self, id: u64) -> Value {
        self.wait("an answer", |message| message["id"] == id && message.get("method").is_none())
    }

    pub(crate) fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.ask(method, params);
        self.answer(id)
    }

    /// Opens a legacy session; the answer to `initialize`.
    pub(crate) fn open(&mut self) -> Value {
        self.open_with(json!({}))
    }

    /// The same, offering this.
    pub(crate) fn open_with(&mut self, capabilities: Value) -> Value {
        let info = json!({ "name": "test host", "version": "1" });
        let answer = self.request(
            "initialize",
            json!({ "protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": info }),
        );
        self.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        answer
    }

    pub(crate) fn opened(mut self) -> Host {
        let answer = self.open();
        assert!(answer["result"].is_object(), "{answer} {}", self.stderr());
        self
    }

    /// Begins a call of a tool; its id.
    pub(crate) fn call(&mut self, tool: &str, arguments: Value) -> u64 {
        self.ask("tools/call", json!({ "name": tool, "arguments": arguments }))
    }

    /// Calls a tool; the text of its answer.
    pub(crate) fn text(&mut self, tool: &str, arguments: Value) -> String {
        let id = self.call(tool, arguments);
        text(&self.answer(id))
    }

    /// Closes its end, and waits for the exit code.
    pub(crate) fn close(mut self) -> Option<i32> {
        drop(self.stdin.take());
        self.child.wait().unwrap().code()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.pid()), signal).unwrap();
    }

    /// Its exit code, once it has ended by itself.
    pub(crate) fn code(&mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }
}

/// All text in an answer, or its error's message.
pub(crate) fn text(answer: &Value) -> String {
    if let Some(message) = answer["error"]["message"].as_str() {
        return format!("error: {message}");
    }
    let content = answer["result"]["content"].as_array().unwrap_or_else(|| panic!("no content: {answer}"));
    content.iter().filter_map(|part| part["text"].as_str()).collect::<Vec<_>>().join("\n")
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
