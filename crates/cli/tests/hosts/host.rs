//! One life of a host, which is a process of its own; and what it reports.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::home::{Home, PATIENCE, peers};
use crate::pace::pace;
use crate::stage;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Client {
    TypeScript,
    PythonA,
    PythonPlain,
    /// A new process for each turn.
    Inspector,
}

impl Client {
    fn name(self) -> &'static str {
        match self {
            Client::TypeScript => "typescript",
            Client::PythonA => "python_a",
            Client::PythonPlain => "python_plain",
            Client::Inspector => "inspector",
        }
    }
}

pub(crate) struct Host {
    child: Child,
    lines: Receiver<Value>,
    /// Turns that have begun.
    pub(crate) turns: usize,
}

/// What a host reports at its end.
#[derive(Debug)]
pub(crate) struct Report(pub(crate) Value);

impl Host {
    pub(crate) fn start(home: &Home, client: Client, options: &[&str], server: &[String]) -> Host {
        let leave = stage::leave();
        // The kernel ends it with us: with the thread that starts it, which is the play's own.
        let mut command = home.command("setpriv");
        command.args(["--pdeathsig", "KILL"]).arg(peers().join("host")).arg(client.name());
        for (name, value) in home.environment() {
            command.arg("--env").arg(format!("{name}={value}"));
        }
        command.arg("--cwd").arg(home.work()).args(options);
        if !pace().is_real() && !options.contains(&"--timeout") {
            command.args(["--timeout", &pace().client().as_secs_f64().to_string()]);
        }
        command.arg("--").args(server);
        let log = File::options().create(true).append(true).open(home.file("stderr")).unwrap();
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
        let mut child = command.spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (line, lines) = channel();
        thread::spawn(move || {
            for said in stdout.lines().map_while(Result::ok) {
                // It may be that nobody listens any more.
                let _ = line.send(serde_json::from_str(&said).unwrap_or(Value::String(said)));
            }
        });
        let mut host = Host { child, lines, turns: 0 };
        let said = host.lines_until(PATIENCE, &["open", "report"]);
        if said["event"] == "report" && said["turns"] == json!([]) {
            eprintln!("the host saw no tools: {}", said["error"]);
        }
        drop(leave);
        host
    }

    /// Waits until the turn of this number has begun.
    pub(crate) fn until_turn(&mut self, number: usize) {
        while self.turns < number {
            let said = self.lines_until(whole_play(), &["turn", "report"]);
            assert_eq!(said["event"], "turn", "it was over before turn {number}: {said}");
        }
    }

    pub(crate) fn report(mut self) -> Report {
        let report = Report(self.lines_until(whole_play(), &["report"]));
        let _ = self.child.wait();
        report
    }

    /// Waits for the end of a host that was told to die.
    pub(crate) fn dies(mut self) -> usize {
        while let Ok(said) = self.lines.recv_timeout(whole_play()) {
            self.see(&said);
            assert_ne!(said["event"], "report", "it was to die: {said}");
        }
        let status = self.child.wait().unwrap();
        assert_eq!(status.signal(), Some(9), "{status}");
        self.turns
    }

    fn lines_until(&mut self, within: Duration, events: &[&str]) -> Value {
        loop {
            match self.lines.recv_timeout(within) {
                Ok(said) => {
                    self.see(&said);
                    if events.iter().any(|event| said["event"] == *event) {
                        if said["event"] == "report" && !events.contains(&"turn") && events.contains(&"open")
                        {
                            // It could not even open; the report is still wanted.
                            let (line, lines) = channel();
                            line.send(said.clone()).unwrap();
                            self.lines = lines;
                        }
                        return said;
                    }
                }
                Err(RecvTimeoutError::Timeout) => {
                    panic!("the host says none of {events:?} within {within:?}")
                }
                Err(RecvTimeoutError::Disconnected) => {
                    panic!("the host ended without saying any of {events:?}")
                }
            }
        }
    }

    fn see(&mut self, said: &Value) {
        if said["event"] == "turn" {
            self.turns += 1;
        }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// More than any life of a host may take, and less than would hold up everybody.
fn whole_play() -> Duration {
    pace().tool() * 2 + PATIENCE
}

impl Report {
    pub(crate) fn turns(&self) -> &[Value] {
        self.0["turns"].as_array().map_or(&[], Vec::as_slice)
    }

    /// What the model read last.
    pub(crate) fn last_words(&self) -> String {
        let said = self.turns().last().map_or(&self.0, |turn| turn);
        ["text", "error"].map(|member| said[member].as_str().unwrap_or_default()).concat()
    }

    /// It ended with these words in a result, in so many turns, and the client never gave up.
    pub(crate) fn ends(&self, words: &str, turns_max: usize) -> String {
        let seen = self.summary();
        assert!(self.0["ok"] == true && self.last_words().contains(words), "{seen}");
        assert!(self.turns().len() <= turns_max, "more than {turns_max} turns: {seen}");
        self.is_patient();
        self.figures()
    }

    /// No request timed out, and none was near it.
    pub(crate) fn is_patient(&self) {
        assert_eq!(self.0["timeouts"], 0, "{}", self.summary());
        for turn in self.turns() {
            let took = Duration::from_millis(turn["elapsed_ms"].as_u64().unwrap_or(u64::MAX));
            // Inspector's turn is a process with a start and an end.
            let is_process = self.0["client"].as_str().unwrap_or_default().starts_with("inspector");
            assert!(is_process || took < pace().client(), "{}", self.summary());
        }
    }

    /// Each turn with its time.
    pub(crate) fn figures(&self) -> String {
        let seconds =
            |turn: &Value| format!("{:.1}", turn["elapsed_ms"].as_f64().unwrap_or(f64::NAN) / 1000.0);
        let turns: Vec<String> = self.turns().iter().map(seconds).collect();
        format!("{} turns of {} s", turns.len(), turns.join(" + "))
    }

    /// Without the tools, which are long.
    pub(crate) fn summary(&self) -> Value {
        let mut report = self.0.clone();
        report["tools"] = json!("…");
        report["capabilities"] = json!("…");
        report
    }
}
