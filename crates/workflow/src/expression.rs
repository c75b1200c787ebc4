//! One CEL expression: checked when it is loaded, bounded when it is evaluated.

use std::cell::RefCell;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, LazyLock};

use cel::common::types::DYN_TYPE;
use cel::common::value::CowVal;
use cel::{Context, Env, ExecutionError, IdedExpr, Value};

use crate::check;
use crate::json::kind;
use crate::names::Scope;

/// Longest expression, in bytes. A condition on a receipt has some dozen to a few hundred.
pub const SOURCE_BYTES_MAX: usize = 4096;

/// Brackets that may be open at once, before macros are expanded.
const NESTING_MAX: usize = 24;

/// Levels of the tree, macros expanded. Evaluation recurses once a level.
pub(crate) const DEPTH_MAX: usize = 32;

/// Macros that may stand inside each other.
pub(crate) const LOOPS_MAX: usize = 3;

/// What evaluating may cost: one for each element that a macro visits, and more where the data is large.
const STEPS: u64 = 100_000;

/// How much data makes a visit dearer by one step, since each may look through all of it.
const BYTES_A_LOOK: usize = 64 << 10;

/// The same where each visit may also keep a copy of all of it.
const BYTES_A_COPY: usize = 1 << 10;

/// Parsing recurses through every rule of the grammar at each bracket. 24 of them took 9 MiB in a debug build.
const PARSER_STACK: usize = 128 << 20;

/// The functions that macros' ranges are wrapped in. No expression can name them.
pub(crate) const CHARGE: &str = "@charge";
pub(crate) const CHARGE_COPIES: &str = "@charge_copies";

/// What an expression is to give.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Want {
    /// `true` or `false`.
    Bool,
    /// A text, or a whole number, which is written as its digits.
    Text,
    /// Anything that JSON can say.
    Json,
}

impl Want {
    pub(crate) fn words(self) -> &'static str {
        match self {
            Want::Bool => "true or false",
            Want::Text => "a text or a whole number",
            Want::Json => "a value that JSON can say",
        }
    }
}

/// Why a text is no expression of ours.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bad {
    /// What is wrong.
    pub what: String,
    /// What to do.
    pub help: String,
    /// Where, in bytes of the expression.
    pub at: Range<usize>,
}

/// Why evaluating gave nothing. Says what kind of thing was there and never what it said, since that may be a payload.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Failed {
    /// A member is not there.
    #[error("`{0}` is missing in the data")]
    Missing(String),
    /// A member is not there, and its name comes from the data.
    #[error("a member is missing in the data")]
    MissingOther,
    /// An operator or function was given what it does not take.
    #[error("`{function}` was given {given}")]
    Types {
        /// The operator or function.
        function: String,
        /// The types, as CEL names them.
        given: String,
    },
    /// A member is looked for in what has none.
    #[error("a member is looked for in {0}")]
    NoMembers(String),
    /// The value is of another kind.
    #[error("it gives {got} where {want} is needed")]
    Kind {
        /// What it gave.
        got: &'static str,
        /// What was wanted.
        want: &'static str,
    },
    /// More steps than an expression may take.
    #[error("it visits too many elements")]
    TooLong,
    /// Data that is not JSON, or too deep.
    #[error("{0} cannot be read as JSON")]
    Unreadable(&'static str),
    /// An object that names a member twice: it says two things, and nobody can tell which counts.
    #[error("{0} names a member twice in one object")]
    Twice(&'static str),
    /// Data that is too large to be looked into.
    #[error("{0} is larger than expressions look into")]
    TooLarge(&'static str),
    /// Data that is not there: a payload that was deleted, say.
    #[error("{0} is not known any more")]
    Gone(&'static str),
    /// Arithmetic that has no result.
    #[error("a number is divided by zero, or too large")]
    Arithmetic,
    /// An index beyond the end.
    #[error("an index is beyond the end of its list")]
    Index,
    /// Two rules that exclude each other hold.
    #[error("it says that the effect was made, and that it was not")]
    Both,
    /// A text that must say something.
    #[error("it gives an empty text")]
    Empty,
    /// A piece of a URL that would change which thing is asked about.
    #[error("it gives a piece of a URL that is empty, `.` or `..`")]
    Piece,
    /// Anything else.
    #[error("it cannot be evaluated on this data")]
    Other,
}

/// What the names of an expression stand for.
pub(crate) struct Data {
    pub(crate) rows: Vec<(&'static str, Value)>,
    /// How much was read for that.
    pub(crate) bytes: usize,
}

/// A checked expression.
pub struct Expression {
    source: String,
    tree: IdedExpr,
    uses: Vec<&'static str>,
}

impl std::fmt::Debug for Expression {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Expression").field("source", &self.source).finish_non_exhaustive()
    }
}

static ENV: LazyLock<Arc<Env>> = LazyLock::new(|| {
    let mut env = Env::default().with_optional_support(false).with_stdlib();
    // These fail only where there is a function of that name.
    let _ = env.add_overload(CHARGE, "charge", vec![DYN_TYPE], |range| charge(range, BYTES_A_LOOK));
    let _ = env.add_overload(CHARGE_COPIES, "charge", vec![DYN_TYPE], |range| charge(range, BYTES_A_COPY));
    Arc::new(env)
});

/// What is left to one evaluation.
#[derive(Clone, Copy)]
struct Meter {
    left: u64,
    bytes: usize,
    is_spent: bool,
}

thread_local! {
    // Functions of the library are plain functions, and evaluating stays on its thread.
    static METER: RefCell<Meter> = const { RefCell::new(Meter { left: 0, bytes: 0, is_spent: false }) };
}

fn charge<'b, 'v>(
    mut arguments: Vec<CowVal<'b, 'v>>,
    bytes_a_step: usize,
) -> Result<CowVal<'b, 'v>, ExecutionError> {
    let range = arguments.pop().ok_or_else(ExecutionError::missing_argument_or_target)?;
    let elements = range.as_sizer().map(|sizer| *sizer.size().inner()).unwrap_or(0);
    let elements = u64::try_from(elements).unwrap_or(0).saturating_add(1);
    METER.with_borrow_mut(|meter| {
        let weight = 1 + (meter.bytes / bytes_a_step) as u64;
        match meter.left.checked_sub(elements.saturating_mul(weight)) {
            Some(left) if !meter.is_spent => {
                meter.left = left;
                Ok(range)
            }
            Some(_) | None => {
                meter.is_spent = true;
                Err(ExecutionError::function_error(CHARGE, "spent"))
            }
        }
    })
}

impl Expression {
    /// Reads `source`, in which the names of `scope` stand for data.
    ///
    /// # Errors
    /// [`Bad`]: what is wrong, where, and what to do.
    pub fn compile(source: &str, scope: Scope, want: Want) -> Result<Expression, Bad> {
        let whole = 0..source.len();
        if source.trim().is_empty() {
            return Err(Bad {
                what: "the expression is empty".to_owned(),
                help: format!("write one in CEL; these names are known here: {}", scope.listed()),
                at: whole,
            });
        }
        if source.len() > SOURCE_BYTES_MAX {
            return Err(Bad {
                what: format!("the expression is longer than {SOURCE_BYTES_MAX} bytes"),
                help: "compute it in the system that is asked, and compare the outcome here".to_owned(),
                at: whole,
            });
        }
        check::nesting(source, NESTING_MAX)?;
        let (mut tree, spans) = parse(source)?;
        let uses = check::tree(&tree, source, &spans, scope, want)?;
        check::wrap_ranges(&mut tree);
        Ok(Expression { source: source.to_owned(), tree, uses })
    }

    /// As it was written.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Whether the name occurs in it.
    #[must_use]
    pub fn uses(&self, name: &str) -> bool {
        self.uses.contains(&name)
    }

    /// Evaluates with `data`, of which `bytes` were read.
    fn run(&self, Data { rows, bytes }: Data) -> Result<Value, Failed> {
        let mut context = Context::with_env(Arc::clone(&ENV));
        for (name, value) in rows {
            context.add_variable_from_value(name, value);
        }
        METER.set(Meter { left: STEPS, bytes, is_spent: false });
        // The library does not promise to be free of panics; one must not take a call's driver with it.
        let outcome = catch_unwind(AssertUnwindSafe(|| Value::resolve(&self.tree, &context)));
        if METER.with_borrow(|meter| meter.is_spent) {
            return Err(Failed::TooLong);
        }
        match outcome {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => Err(self.failed(&error)),
            Err(_) => Err(Failed::Other),
        }
    }

    fn failed(&self, error: &ExecutionError) -> Failed {
        #[expect(clippy::wildcard_enum_match_arm, reason = "the library may add errors")]
        match error {
            // A name that stands in the expression is the operator's; any other may come from the data.
            ExecutionError::NoSuchKey(name) if self.source.contains(name.as_str()) => {
                Failed::Missing(name.to_string())
            }
            ExecutionError::NoSuchKey(_) => Failed::MissingOther,
            ExecutionError::NoSuchOverload(overload) => {
                let types: Vec<_> = overload.argument_types().iter().map(|name| type_words(name)).collect();
                match (overload.function(), types.first()) {
                    ("_._" | "_[_]", Some(of)) => Failed::NoMembers((*of).to_owned()),
                    (function, _) => {
                        Failed::Types { function: operator(function), given: types.join(" and ") }
                    }
                }
            }
            ExecutionError::UnsupportedBinaryOperator(name, left, right) => {
                let function = match *name {
                    "add" => "+",
                    "sub" => "-",
                    "mul" => "*",
                    "div" => "/",
                    "rem" => "%",
                    other => other,
                };
                let given = format!("{} and {}", kind(left), kind(right));
                Failed::Types { function: function.to_owned(), given }
            }
            ExecutionError::DivisionByZero(_)
            | ExecutionError::RemainderByZero(_)
            | ExecutionError::Overflow(..) => Failed::Arithmetic,
            ExecutionError::IndexOutOfBounds(_) => Failed::Index,
            _ => Failed::Other,
        }
    }

    /// Evaluates what was compiled with [`Want::Bool`].
    ///
    /// # Errors
    /// [`Failed`]; a failure is never the same as `false`.
    pub(crate) fn truth(&self, data: Data) -> Result<bool, Failed> {
        let value = self.run(data)?;
        if let Value::Bool(truth) = value {
            return Ok(truth);
        }
        Err(Failed::Kind { got: kind(&value), want: Want::Bool.words() })
    }

    /// Evaluates what was compiled with [`Want::Text`]. Whole numbers become their digits; numbers with a fraction
    /// are refused, since their text depends on who writes it.
    ///
    /// # Errors
    /// [`Failed`].
    pub(crate) fn text(&self, data: Data) -> Result<String, Failed> {
        #[expect(
            clippy::wildcard_enum_match_arm,
            reason = "which variants there are depends on cel's features"
        )]
        match self.run(data)? {
            Value::String(text) => Ok(text.to_string()),
            Value::Int(number) => Ok(number.to_string()),
            Value::UInt(number) => Ok(number.to_string()),
            other => Err(Failed::Kind { got: kind(&other), want: Want::Text.words() }),
        }
    }

    /// Evaluates and writes the value as JSON.
    ///
    /// # Errors
    /// [`Failed`].
    pub(crate) fn json(&self, data: Data) -> Result<String, Failed> {
        let value = self.run(data)?;
        let mut out = String::new();
        crate::json::write(&value, &mut out).map_err(|got| Failed::Kind { got, want: Want::Json.words() })?;
        Ok(out)
    }
}

/// CEL's name of a type, in the words of this crate.
fn type_words(name: &str) -> &str {
    match name {
        "null_type" => "null",
        "bool" => "true or false",
        "int" | "uint" => "a whole number",
        "double" => "a number with a fraction",
        "string" => "a text",
        "list" => "a list",
        "map" => "a map",
        other => other,
    }
}

/// CEL's name of an operator, as people write it.
fn operator(name: &str) -> String {
    match name {
        "@in" => "in".to_owned(),
        name if name.contains('_') && !name.starts_with(|c: char| c.is_ascii_alphabetic()) => {
            name.replace('_', "")
        }
        name => name.to_owned(),
    }
}

/// Where the nodes of a tree stand in the source.
pub(crate) type Spans = cel::common::ast::SourceInfo;

fn parse(source: &str) -> Result<(IdedExpr, Spans), Bad> {
    let text = source.to_owned();
    let parse = move || {
        let parser = cel::Env::stdlib().with_optional_support(false).parser();
        parser.max_recursion_depth(48).error_recovery_limit(8).parse_with_source_info(&text)
    };
    // A thread of its own bounds what hostile nesting can do: the grammar recurses deeply.
    let parsed = std::thread::Builder::new()
        .name("expression".to_owned())
        .stack_size(PARSER_STACK)
        .spawn(parse)
        .map(std::thread::JoinHandle::join);
    match parsed {
        Ok(Ok(Ok(parsed))) => Ok(parsed),
        Ok(Ok(Err(errors))) => {
            let first = errors.errors.into_iter().min_by_key(|error| error.pos);
            let (what, at) = match first {
                Some(error) => (check::syntax_words(&error.msg), check::place(source, error.pos)),
                None => ("cannot be read".to_owned(), 0..source.len()),
            };
            Err(Bad { what: format!("the expression {what}"), help: SYNTAX_HELP.to_owned(), at })
        }
        Ok(Err(_)) | Err(_) => Err(Bad {
            what: "the expression cannot be read".to_owned(),
            help: SYNTAX_HELP.to_owned(),
            at: 0..source.len(),
        }),
    }
}

const SYNTAX_HELP: &str =
    "expressions are written in CEL: args.amount > 0 && args.to == \"x\"; texts stand in quotes";
