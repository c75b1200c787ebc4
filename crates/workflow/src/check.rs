//! What can be known of an expression before there is data: names, functions, kinds, and how deep it is.

use std::ops::Range;

use cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, LiteralValue};
use cel::{IdedExpr, common::ast::operators as op};

use crate::expression::{Bad, CHARGE, CHARGE_COPIES, DEPTH_MAX, LOOPS_MAX, Spans, Want};
use crate::names::{FUNCTIONS, MACROS, NAMES, Scope, TYPES};

/// Refuses what would take the parser too deep. Brackets in texts count too: that is simple, and nobody writes so many.
pub(crate) fn nesting(source: &str, max: usize) -> Result<(), Bad> {
    let mut open = 0_usize;
    for (at, byte) in source.bytes().enumerate() {
        match byte {
            b'(' | b'[' | b'{' => open += 1,
            b')' | b']' | b'}' => open = open.saturating_sub(1),
            _ => {}
        }
        if open > max {
            return Err(Bad {
                what: format!("the expression has more than {max} open brackets"),
                help: "write it flatter".to_owned(),
                at: at..at + 1,
            });
        }
    }
    Ok(())
}

/// Checks a parsed expression and tells which names of `scope` it uses.
pub(crate) fn tree(
    tree: &IdedExpr,
    source: &str,
    spans: &Spans,
    scope: Scope,
    want: Want,
) -> Result<Vec<&'static str>, Bad> {
    let mut walk = Walk { source, spans, scope, bound: Vec::new(), uses: Vec::new(), loops: 0 };
    walk.node(tree, 0)?;
    if let Some(found) = known(tree)
        && !found.fits(want)
    {
        return Err(Bad {
            what: format!("the expression gives {} where {} is needed", found.words(), want.words()),
            help: match want {
                Want::Bool => "write a condition, such as data.status == \"paid\"",
                Want::Text => "give a text, such as args.order_id, or a whole number; string(x) makes a text",
                Want::Json => "give a value that JSON can say",
            }
            .to_owned(),
            at: 0..source.len(),
        });
    }
    Ok(walk.uses)
}

struct Walk<'a> {
    source: &'a str,
    spans: &'a Spans,
    scope: Scope,
    /// Variables of macros.
    bound: Vec<&'a str>,
    uses: Vec<&'static str>,
    /// Macros around this place.
    loops: usize,
}

impl<'a> Walk<'a> {
    fn span(&self, id: u64) -> Range<usize> {
        let whole = 0..self.source.len();
        let Some((start, stop)) = self.spans.offset_for(id) else { return whole };
        let (mut start, end) = (start as usize, stop as usize + 1);
        if self.source.get(start..end) == Some("(") {
            // Calls are placed at their bracket; their name is what to look at.
            let before = self.source.get(..start).unwrap_or_default();
            start = before.trim_end_matches(|c: char| c.is_ascii_alphanumeric() || c == '_').len();
        }
        let end = if self.source.get(start..end).is_some_and(|text| text.len() > 1 && text.ends_with('(')) {
            end - 1
        } else {
            end
        };
        if start < end && self.source.get(start..end).is_some() { start..end } else { whole }
    }

    fn bad<T>(&self, id: u64, what: String, help: impl Into<String>) -> Result<T, Bad> {
        Err(Bad { what, help: help.into(), at: self.span(id) })
    }

    fn node(&mut self, node: &'a IdedExpr, depth: usize) -> Result<(), Bad> {
        if depth > DEPTH_MAX {
            return self.bad(
                node.id,
                format!("the expression is nested more than {DEPTH_MAX} levels deep"),
                "write it flatter, or ask for less of it",
            );
        }
        let below = depth + 1;
        match &node.expr {
            Expr::Literal(_) => Ok(()),
            Expr::Ident(name) => self.name(node.id, name),
            Expr::Select(select) => self.node(&select.operand, below),
            Expr::List(list) => list.elements.iter().try_for_each(|element| self.node(element, below)),
            Expr::Map(map) => {
                for entry in &map.entries {
                    if let EntryExpr::MapEntry(entry) = &entry.expr {
                        self.node(&entry.key, below)?;
                        self.node(&entry.value, below)?;
                    }
                }
                Ok(())
            }
            Expr::Call(call) => self.call(node.id, call, below),
            Expr::Comprehension(comprehension) => self.comprehension(node.id, comprehension, below),
            Expr::Struct(message) => self.bad(
                node.id,
                format!("`{}` is no type that is known here", message.type_name),
                "write a map instead: {\"name\": value}",
            ),
            Expr::Unspecified => {
                self.bad(node.id, "a part of the expression is empty".to_owned(), "complete it")
            }
        }
    }

    fn comprehension(
        &mut self,
        id: u64,
        comprehension: &'a ComprehensionExpr,
        below: usize,
    ) -> Result<(), Bad> {
        self.loops += 1;
        if self.loops > LOOPS_MAX {
            let what = format!("more than {LOOPS_MAX} macros stand inside each other");
            return self.bad(id, what, "visit fewer lists within lists");
        }
        self.node(&comprehension.iter_range, below)?;
        self.node(&comprehension.accu_init, below)?;
        let before = self.bound.len();
        self.bound.push(&comprehension.iter_var);
        self.bound.extend(comprehension.iter_var2.as_deref());
        self.bound.push(&comprehension.accu_var);
        for inner in [&comprehension.loop_cond, &comprehension.loop_step, &comprehension.result] {
            self.node(inner, below)?;
        }
        self.bound.truncate(before);
        self.loops -= 1;
        Ok(())
    }

    fn name(&mut self, id: u64, name: &str) -> Result<(), Bad> {
        if self.bound.contains(&name) || TYPES.contains(&name) {
            return Ok(());
        }
        if let Some(known) = self.scope.names().iter().find(|known| **known == name) {
            if !self.uses.contains(known) {
                self.uses.push(known);
            }
            return Ok(());
        }
        let elsewhere = NAMES.iter().any(|(known, _)| *known == name);
        let what = if elsewhere {
            format!("`{name}` is not known yet when this is evaluated")
        } else {
            format!("`{name}` is not known here")
        };
        let help = match name {
            "result" => "the tool's result is called `answer`, and what it says `data`".to_owned(),
            "arguments" | "params" => "the call's arguments are called `args`".to_owned(),
            _ if elsewhere => format!("known here: {}", self.scope.listed()),
            _ => format!("known here: {}; texts stand in quotes", self.scope.listed()),
        };
        self.bad(id, what, help)
    }

    fn call(&mut self, id: u64, call: &'a CallExpr, below: usize) -> Result<(), Bad> {
        let name = call.func_name.as_str();
        let is_operator = !name.starts_with(|c: char| c.is_ascii_alphabetic());
        if !is_operator && !FUNCTIONS.contains(&name) {
            let what = if MACROS.contains(&name) {
                format!("`{name}` is given other arguments than it takes")
            } else {
                format!("there is no function `{name}`")
            };
            let help = format!("known functions: {}, {}", FUNCTIONS.join(", "), MACROS.join(", "));
            return self.bad(id, what, help);
        }
        if name == "matches" {
            self.pattern(id, call)?;
        }
        if let Some(target) = &call.target {
            self.node(target, below)?;
        }
        call.args.iter().try_for_each(|argument| self.node(argument, below))
    }

    /// A pattern is compiled at each use, so it is one that is known, and not used in loops.
    fn pattern(&self, id: u64, call: &CallExpr) -> Result<(), Bad> {
        let help =
            "write the pattern as a text in quotes; contains(), startsWith() and endsWith() take any text";
        if !self.bound.is_empty() {
            return self.bad(id, "`matches` cannot be used inside a macro".to_owned(), help);
        }
        let Some(IdedExpr { expr: Expr::Literal(LiteralValue::String(pattern)), .. }) = call.args.last()
        else {
            return self.bad(id, "the pattern of `matches` is computed".to_owned(), help);
        };
        match regex::Regex::new(pattern.inner()) {
            Ok(_) => Ok(()),
            Err(_) => self.bad(
                id,
                "the pattern of `matches` is no regular expression, or too large".to_owned(),
                "patterns are written as the Rust crate `regex` has them: no look-around, no back references",
            ),
        }
    }
}

/// What an expression is known to give, whatever the data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Known {
    Bool,
    Text,
    Whole,
    Fraction,
    Null,
    Bytes,
    List,
    Map,
    Type,
}

impl Known {
    fn fits(self, want: Want) -> bool {
        match want {
            Want::Bool => self == Known::Bool,
            Want::Text => matches!(self, Known::Text | Known::Whole),
            Want::Json => !matches!(self, Known::Bytes | Known::Type),
        }
    }

    fn words(self) -> &'static str {
        match self {
            Known::Bool => "true or false",
            Known::Text => "a text",
            Known::Whole => "a whole number",
            Known::Fraction => "a number with a fraction",
            Known::Null => "null",
            Known::Bytes => "bytes",
            Known::List => "a list",
            Known::Map => "a map",
            Known::Type => "the name of a type",
        }
    }
}

fn known(node: &IdedExpr) -> Option<Known> {
    match &node.expr {
        Expr::Literal(literal) => Some(match literal {
            LiteralValue::Boolean(_) => Known::Bool,
            LiteralValue::Bytes(_) => Known::Bytes,
            LiteralValue::Double(_) => Known::Fraction,
            LiteralValue::Int(_) | LiteralValue::UInt(_) => Known::Whole,
            LiteralValue::Null => Known::Null,
            LiteralValue::String(_) => Known::Text,
        }),
        Expr::List(_) => Some(Known::List),
        Expr::Map(_) => Some(Known::Map),
        Expr::Select(select) => select.test.then_some(Known::Bool),
        Expr::Comprehension(comprehension) => match known(&comprehension.accu_init) {
            // exists_one counts, and compares at the end.
            Some(Known::Whole) => known(&comprehension.result),
            found => found,
        },
        Expr::Call(call) => of_call(call),
        Expr::Ident(_) | Expr::Struct(_) | Expr::Unspecified => None,
    }
}

fn of_call(call: &CallExpr) -> Option<Known> {
    match call.func_name.as_str() {
        op::LOGICAL_AND
        | op::LOGICAL_OR
        | op::LOGICAL_NOT
        | op::EQUALS
        | op::NOT_EQUALS
        | op::LESS
        | op::LESS_EQUALS
        | op::GREATER
        | op::GREATER_EQUALS
        | op::IN
        | "bool"
        | "contains"
        | "endsWith"
        | "startsWith"
        | "matches" => Some(Known::Bool),
        "string" => Some(Known::Text),
        "int" | "uint" | "size" => Some(Known::Whole),
        "double" => Some(Known::Fraction),
        "bytes" => Some(Known::Bytes),
        "type" => Some(Known::Type),
        op::CONDITIONAL => match call.args.as_slice() {
            [_, one, other] => known(one).filter(|found| known(other) == Some(*found)),
            _ => None,
        },
        // Both sides are of one kind, or evaluating fails.
        op::ADD | op::SUBSTRACT | op::MULTIPLY | op::DIVIDE | op::MODULO => call.args.iter().find_map(known),
        op::NEGATE => call.args.first().and_then(known),
        _ => None,
    }
}

/// Has the range of each macro counted before it is walked through.
pub(crate) fn wrap_ranges(node: &mut IdedExpr) {
    match &mut node.expr {
        Expr::Comprehension(comprehension) => {
            let comprehension = comprehension.as_mut();
            for inner in [
                &mut comprehension.iter_range,
                &mut comprehension.accu_init,
                &mut comprehension.loop_cond,
                &mut comprehension.loop_step,
                &mut comprehension.result,
            ] {
                wrap_ranges(inner);
            }
            let range = std::mem::take(&mut comprehension.iter_range);
            let charge = if copies(comprehension) { CHARGE_COPIES } else { CHARGE };
            let call = CallExpr { func_name: charge.to_owned(), target: None, args: vec![range] };
            comprehension.iter_range = IdedExpr { id: 0, expr: Expr::Call(call) };
        }
        Expr::Call(call) => {
            if let Some(target) = &mut call.target {
                wrap_ranges(target);
            }
            call.args.iter_mut().for_each(wrap_ranges);
        }
        Expr::List(list) => list.elements.iter_mut().for_each(wrap_ranges),
        Expr::Map(map) => {
            for entry in &mut map.entries {
                if let EntryExpr::MapEntry(entry) = &mut entry.expr {
                    wrap_ranges(&mut entry.key);
                    wrap_ranges(&mut entry.value);
                }
            }
        }
        Expr::Select(select) => wrap_ranges(&mut select.operand),
        Expr::Literal(_) | Expr::Ident(_) | Expr::Struct(_) | Expr::Unspecified => {}
    }
}

/// Whether each visit adds something of its own making to a list, as `map` does. What `filter` keeps was there before.
fn copies(comprehension: &ComprehensionExpr) -> bool {
    fn makes(node: &IdedExpr, variable: &str) -> bool {
        match &node.expr {
            Expr::List(list) => {
                list.elements.iter().any(|item| !matches!(&item.expr, Expr::Ident(name) if name == variable))
            }
            Expr::Call(call) => {
                matches!(call.func_name.as_str(), op::ADD | op::CONDITIONAL)
                    && call.args.iter().any(|argument| makes(argument, variable))
            }
            Expr::Literal(_)
            | Expr::Ident(_)
            | Expr::Select(_)
            | Expr::Map(_)
            | Expr::Comprehension(_)
            | Expr::Struct(_)
            | Expr::Unspecified => false,
        }
    }
    matches!(comprehension.accu_init.expr, Expr::List(_))
        && makes(&comprehension.loop_step, &comprehension.iter_var)
}

/// What a parser's message says, without its list of everything that could have stood there.
pub(crate) fn syntax_words(message: &str) -> String {
    let message = message.trim().trim_start_matches("Syntax error: ");
    let short = message.split(" expecting ").next().unwrap_or(message);
    if short.ends_with("'<EOF>'") {
        return "ends too soon".to_owned();
    }
    let short: String = short.chars().filter(|c| !c.is_control()).take(120).collect();
    format!("is not understood: {short}")
}

/// Bytes of the place that a parser names by line and column.
pub(crate) fn place(source: &str, (line, column): (isize, isize)) -> Range<usize> {
    let (Ok(line), Ok(column)) = (usize::try_from(line - 1), usize::try_from(column - 1)) else {
        return 0..source.len();
    };
    let above: usize = source.split_inclusive('\n').take(line).map(str::len).sum();
    let here = source.get(above..).unwrap_or_default();
    let start = above + here.char_indices().nth(column).map_or(here.len(), |(at, _)| at);
    match source.get(start..).and_then(|rest| rest.chars().next()) {
        Some(c) => start..start + c.len_utf8(),
        // It ends too soon: the last character is where to look.
        None => source.char_indices().next_back().map_or(0..0, |(at, _)| at..source.len()),
    }
}
