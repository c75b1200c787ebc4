mod admit;
mod expressions;
mod probes;
mod receipts;

use taskgate_core::time::UnixMillis;

use crate::{Expression, Facts, Scope, Want};

fn bool(source: &str, scope: Scope) -> Expression {
    Expression::compile(source, scope, Want::Bool).unwrap()
}

fn text(source: &str, scope: Scope) -> Expression {
    Expression::compile(source, scope, Want::Text).unwrap()
}

fn facts(arguments: &str) -> Facts<'_> {
    Facts {
        tool: "pay",
        arguments: Some(arguments),
        key: Some("order-7"),
        object: Some("account/1"),
        version: None,
        operation: "op-1",
        created: UnixMillis(1_000),
    }
}
