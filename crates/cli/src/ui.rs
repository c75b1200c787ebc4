//! The terminal: stdout is data, stderr is the rest. The one place that prints.

use std::io::{self, IsTerminal, Write};

use serde::Serialize;

use crate::environment::Environment;
use crate::failure::{Failure, Words};

/// How to write to this terminal.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ui {
    colour_out: bool,
    colour_err: bool,
}

/// What a piece of text is, for its colour. Nothing is told by colour alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Tone {
    Strong,
    Dim,
    Good,
    Bad,
    Accent,
}

impl Ui {
    pub(crate) fn new(environment: &Environment) -> Ui {
        let plain = environment.is_plain();
        Ui {
            colour_out: !plain && io::stdout().is_terminal(),
            colour_err: !plain && io::stderr().is_terminal(),
        }
    }

    /// One line of data.
    pub(crate) fn out(&self, line: &str) {
        // A reader that went away wants no more; there is nobody left to tell.
        let _ = writeln!(io::stdout().lock(), "{line}");
    }

    /// Text as it is.
    pub(crate) fn raw(&self, text: &str) {
        let mut stdout = io::stdout().lock();
        let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
    }

    /// One line of JSON.
    pub(crate) fn json(&self, value: &impl Serialize) {
        match serde_json::to_string(value) {
            Ok(line) => self.out(&line),
            Err(error) => self.note(&format!("this could not be written as JSON: {error}")),
        }
    }

    /// One line about what happens.
    pub(crate) fn note(&self, line: &str) {
        let _ = writeln!(io::stderr().lock(), "{line}");
    }

    /// A text in its colour, for stdout.
    pub(crate) fn tone(&self, tone: Tone, text: &str) -> String {
        paint(self.colour_out, tone, text)
    }

    /// How a command failed.
    pub(crate) fn failure(&self, failure: &Failure) {
        match &failure.words {
            Words::Plain { what, help } => {
                self.note(&format!("{} {what}", paint(self.colour_err, Tone::Bad, "error:")));
                if let Some(help) = help {
                    self.note(&format!(" {} {help}", paint(self.colour_err, Tone::Accent, "help:")));
                }
            }
            Words::Config(files) => {
                for problems in files {
                    self.note(problems.render(self.colour_err).trim_end());
                }
            }
            Words::Said => {}
        }
    }

    /// Whether log lines may have colours.
    pub(crate) fn colours_logs(&self) -> bool {
        self.colour_err
    }
}

fn paint(colour: bool, tone: Tone, text: &str) -> String {
    let code = match tone {
        Tone::Strong => "1",
        Tone::Dim => "2",
        Tone::Good => "32",
        Tone::Bad => "31",
        Tone::Accent => "36",
    };
    if colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
}
