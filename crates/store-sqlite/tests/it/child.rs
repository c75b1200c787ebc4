//! A process of its own, which can be killed or denied something.
//!
//! It is this very test program, running one ignored test that plays the child. What it is to do comes by its
//! standard input; what it says goes to its standard output, in lines that begin with [`MARK`].

use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdout, Command, Stdio};

const MARK: &str = "\u{1}said ";

/// A child that plays `part`, the full name of an ignored test.
pub(crate) struct Actor {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Actor {
    /// Starts it, and gives it `order` as its first line.
    pub(crate) fn play(part: &str, order: &str) -> Actor {
        Actor::start(Command::new(std::env::current_exe().unwrap()), part, order)
    }

    /// As [`Actor::play`], by a shell that runs `preparation` first.
    pub(crate) fn play_after(preparation: &str, part: &str, order: &str) -> Actor {
        let mut shell = Command::new("sh");
        shell
            .arg("-c")
            .arg(format!("{preparation}; exec \"$0\" \"$@\""))
            .arg(std::env::current_exe().unwrap());
        Actor::start(shell, part, order)
    }

    fn start(mut command: Command, part: &str, order: &str) -> Actor {
        command.args([part, "--exact", "--ignored", "--nocapture", "--test-threads=1"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = command.spawn().unwrap();
        writeln!(child.stdin.as_mut().unwrap(), "{order}").unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Actor { child, lines }
    }

    /// The next thing it says; `None` once it is gone.
    pub(crate) fn hear(&mut self) -> Option<String> {
        loop {
            let line = self.lines.next()?.unwrap();
            // A half-written line has no end, so what comes here was said.
            if let Some((_, said)) = line.split_once(MARK) {
                return said.strip_suffix('.').map(str::to_owned);
            }
        }
    }

    /// SIGKILL, now.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
    }

    /// Waits for its end; whether it ended well.
    pub(crate) fn wait(&mut self) -> bool {
        self.child.wait().unwrap().success()
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What the child is to do.
pub(crate) fn order() -> String {
    let mut order = String::new();
    std::io::stdin().read_line(&mut order).unwrap();
    order.trim_end().to_owned()
}

/// Says something, in one write.
pub(crate) fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    out.write_all(format!("{MARK}{text}.\n").as_bytes()).unwrap();
    out.flush().unwrap();
}
