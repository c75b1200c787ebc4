//! What is wrong with a configuration, and where.

use std::fmt::Write as _;
use std::ops::Range;

use miette::{Diagnostic, GraphicalReportHandler, GraphicalTheme, LabeledSpan, NamedSource, SourceCode};
use serde::Serialize;

use super::shown::shown;

/// One thing that is wrong at one place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Problem {
    /// What is wrong.
    pub(crate) what: String,
    /// What to do.
    pub(crate) help: Option<String>,
    /// Where, in bytes; `None` for the file as a whole.
    pub(crate) at: Option<Range<usize>>,
}

/// All that is wrong with one file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Problems {
    /// The file as it was named to us.
    pub(crate) file: String,
    /// What stood in it, as far as it may be shown, each character at its place; empty if it could not be read.
    pub(crate) text: String,
    /// In the order of the file.
    pub(crate) problems: Vec<Problem>,
}

/// One problem as programs read it.
#[derive(Serialize, Debug)]
pub(crate) struct ProblemLine<'a> {
    file: &'a str,
    line: Option<usize>,
    column: Option<usize>,
    what: &'a str,
    help: Option<&'a str>,
}

impl Problems {
    /// Those of a configuration, whose secrets are not shown.
    pub(crate) fn of_config(file: &str, text: &str, problems: Vec<Problem>) -> Problems {
        Problems::new(file, &shown(text), problems)
    }

    /// Those of a file whose `text` may be shown.
    pub(crate) fn new(file: &str, text: &str, mut problems: Vec<Problem>) -> Problems {
        problems.sort_by_key(|problem| problem.at.as_ref().map(|at| at.start));
        Problems { file: file.to_owned(), text: text.to_owned(), problems }
    }

    /// A file that could not be read at all.
    pub(crate) fn unreadable(file: &str, error: &std::io::Error) -> Problems {
        let kind = error.kind();
        let help = if kind == std::io::ErrorKind::NotFound {
            "check the path; `taskgate demo` needs no file at all"
        } else if kind == std::io::ErrorKind::PermissionDenied {
            "make it readable for this user"
        } else {
            "check that it is a text file that this user can read"
        };
        let what = format!("{file} cannot be read: {error}");
        Problems::new(file, "", vec![Problem { what, help: Some(help.to_owned()), at: None }])
    }

    /// For people: each problem with its lines.
    pub(crate) fn render(&self, colour: bool) -> String {
        let theme = if colour { GraphicalTheme::unicode() } else { GraphicalTheme::unicode_nocolor() };
        let handler = GraphicalReportHandler::new_themed(theme).with_width(100);
        let mut out = String::new();
        let source = NamedSource::new(&self.file, self.text.clone());
        for problem in &self.problems {
            let located = Located { problem, source: &source };
            if handler.render_report(&mut out, &located).is_err() {
                // Words without the picture are better than none.
                let _ = writeln!(out, "{}: {}", self.file, problem.what);
            }
        }
        out
    }

    /// For programs.
    pub(crate) fn lines(&self) -> Vec<ProblemLine<'_>> {
        let line = |problem| self.line(problem);
        self.problems.iter().map(line).collect()
    }

    fn line<'a>(&'a self, problem: &'a Problem) -> ProblemLine<'a> {
        let before = problem.at.as_ref().and_then(|at| self.text.get(..at.start));
        let line = before.map(|before| before.matches('\n').count() + 1);
        let column = before.map(|before| before.rsplit('\n').next().unwrap_or("").chars().count() + 1);
        let help = problem.help.as_deref();
        ProblemLine { file: &self.file, line, column, what: &problem.what, help }
    }
}

#[derive(Debug)]
struct Located<'a> {
    problem: &'a Problem,
    source: &'a NamedSource<String>,
}

impl std::fmt::Display for Located<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.problem.what)
    }
}

impl std::error::Error for Located<'_> {}

impl Diagnostic for Located<'_> {
    fn help(&self) -> Option<Box<dyn std::fmt::Display + '_>> {
        self.problem.help.as_ref().map(|help| Box::new(help) as Box<dyn std::fmt::Display>)
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        self.problem.at.as_ref().map(|_| self.source as &dyn SourceCode)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let at = self.problem.at.clone()?;
        Some(Box::new(std::iter::once(LabeledSpan::new(Some("here".to_owned()), at.start, at.len()))))
    }
}
