use cel::Value;

use crate::expression::{Data, Expression, Failed, Want};
use crate::names::Scope;

fn data(text: &str) -> Data {
    let rows = vec![("args", crate::json::read(text).unwrap()), ("tool", Value::from("pay"))];
    Data { rows, bytes: text.len() }
}

fn compile(source: &str, want: Want) -> Expression {
    Expression::compile(source, Scope::Call, want).unwrap_or_else(|bad| panic!("{source}: {bad:?}"))
}

fn text(source: &str, args: &str) -> Result<String, Failed> {
    compile(source, Want::Text).text(data(args))
}

fn truth(source: &str, args: &str) -> Result<bool, Failed> {
    compile(source, Want::Bool).truth(data(args))
}

#[test]
fn texts_and_whole_numbers_make_texts_and_nothing_else_does() {
    let args = r#"{"id":"p-1","n":12,"big":100000000000000000001,"d":1.5,"x":null,"l":[1],"b":true}"#;
    assert_eq!(text("args.id", args), Ok("p-1".to_owned()));
    assert_eq!(text("args.n", args), Ok("12".to_owned()));
    assert_eq!(text("args.big", args), Ok("100000000000000000001".to_owned()));
    assert_eq!(text("tool + '/' + args.id", args), Ok("pay/p-1".to_owned()));
    for (member, got) in
        [("d", "a number with a fraction"), ("x", "null"), ("l", "a list"), ("b", "true or false")]
    {
        let want = "a text or a whole number";
        assert_eq!(text(&format!("args.{member}"), args), Err(Failed::Kind { got, want }));
    }
    assert_eq!(text("args.missing", args), Err(Failed::Missing("missing".to_owned())));
}

#[test]
fn a_failure_is_never_false() {
    assert_eq!(truth("args.a == 1", "{}"), Err(Failed::Missing("a".to_owned())));
    assert!(matches!(truth("args.a > 1", r#"{"a":"x"}"#), Err(Failed::Types { .. })));
    assert_eq!(truth("1 / args.a == 1", r#"{"a":0}"#), Err(Failed::Arithmetic));
    assert_eq!(truth("args.l[3] == 1", r#"{"l":[1]}"#), Err(Failed::Index));
    assert_eq!(truth("args[args.name] == 1", r#"{"name":"secret-9"}"#), Err(Failed::MissingOther));
    assert!(matches!(truth("args.a", r#"{"a":"secret-9"}"#), Err(Failed::Kind { .. })));
}

#[test]
fn failures_never_say_what_the_data_says() {
    let args = r#"{"name":"secret-9","n":424242,"l":["secret-9"]}"#;
    for source in [
        "args[args.name] == 1",
        "args.name > 3",
        "args.name",
        "args.name + 1 == 2",
        "int(args.name) == 1",
        "args.l[args.n] == 1",
        "args.name.size() / 0 == 1",
        "{args.l: 1} == {}",
        "-args.name == 1",
        "args.n.startsWith('x')",
        "args.l.all(x, x > 1)",
        "args.name in args.n",
        "uint(-args.n) == 1u",
        "args.name.matches('x') < 1",
    ] {
        let failed = truth(source, args).unwrap_err();
        let said = format!("{failed} {failed:?}");
        assert!(!said.contains("secret-9") && !said.contains("424242"), "{source}: {said}");
    }
}

#[test]
fn numbers_that_were_rounded_elsewhere_are_not_equal() {
    let args = r#"{"a":100000000000000000001,"b":100000000000000000002,"c":9007199254740993,"d":9007199254740992.0}"#;
    assert_eq!(truth("args.a == args.b", args), Ok(false));
    assert_eq!(truth("args.a == args.a", args), Ok(true));
    assert_eq!(truth("args.c == args.d", args), Ok(false));
}

#[test]
fn long_work_ends() {
    let many: Vec<_> = (0..3000).map(|n| n.to_string()).collect();
    let args = format!("{{\"l\":[{}]}}", many.join(","));
    assert_eq!(truth("args.l.exists(x, x == 2999)", &args), Ok(true));
    assert_eq!(truth("args.l.all(x, args.l.all(y, args.l.all(z, true)))", &args), Err(Failed::TooLong));
    // Not even where the outcome would not depend on it.
    assert_eq!(
        truth("args.l.all(x, args.l.all(y, args.l.all(z, true))) || true", &args),
        Err(Failed::TooLong)
    );
    assert_eq!(truth("size(args.l.map(x, args.l.map(y, args.l))) == 0", &args), Err(Failed::TooLong));
}

/// A runtime's worker has two MiB, and evaluating is not the first thing on it.
#[test]
fn the_deepest_expression_that_is_taken_fits_a_workers_stack() {
    let deep = |depth: usize| format!("{}1{} == 1", "-(".repeat(depth / 2), ")".repeat(depth / 2));
    let deepest =
        (1..100).rev().map(deep).find(|source| Expression::compile(source, Scope::Call, Want::Bool).is_ok());
    let chain = (1..120)
        .rev()
        .map(|n| format!("{}1 == 1", "1 + ".repeat(n)))
        .find(|source| Expression::compile(source, Scope::Call, Want::Bool).is_ok());
    let loops = (1..20)
        .rev()
        .map(|n| format!("{}true{}", "[1].all(x, ".repeat(n), ")".repeat(n)))
        .find(|source| Expression::compile(source, Scope::Call, Want::Bool).is_ok());
    for source in [deepest, chain, loops] {
        let source = source.unwrap();
        let run = move || {
            let expression = Expression::compile(&source, Scope::Call, Want::Bool).unwrap();
            expression.truth(data("{}")).unwrap()
        };
        let worker = std::thread::Builder::new().stack_size(3 << 19).spawn(run).unwrap();
        assert!(worker.join().is_ok());
    }
}

#[test]
fn hostile_nesting_is_refused() {
    for source in [
        "(".repeat(4000),
        "[".repeat(2000) + &"]".repeat(2000),
        "!".repeat(4000) + "'x'",
        "-".repeat(4000) + "1",
        "1+".repeat(2000) + "1",
        "true?".repeat(700) + "1",
        "true?1:".repeat(500) + "1",
        "a.".repeat(2000) + "a",
        "args.x".to_owned() + &".f()".repeat(900),
        "{".repeat(63) + "?[" + &"(".repeat(11) + &"{".repeat(26) + "l\0?(-",
        "x".repeat(5000),
        String::new(),
        "\u{0}".to_owned(),
        "'".to_owned(),
        "é + ö".to_owned(),
    ] {
        let Err(bad) = Expression::compile(&source, Scope::Call, Want::Bool) else {
            panic!("taken: {source}")
        };
        assert!(source.get(bad.at.clone()).is_some(), "{bad:?}");
    }
}

#[test]
fn what_is_not_known_is_found_when_it_is_loaded() {
    let mut out = String::new();
    for (source, scope, want) in [
        ("arg.amount > 1", Scope::Call, Want::Bool),
        ("args.amount > 1 && amount < 2", Scope::Call, Want::Bool),
        ("'é' + amount", Scope::Call, Want::Text),
        ("result.id", Scope::Receipt, Want::Text),
        ("key", Scope::Call, Want::Text),
        ("args.items.sum() > 2", Scope::Call, Want::Bool),
        ("lowercase(args.id)", Scope::Call, Want::Text),
        ("args.items.map(x)", Scope::Call, Want::Json),
        ("args.a == 1", Scope::Call, Want::Text),
        ("'paid'", Scope::Receipt, Want::Bool),
        ("data.status", Scope::Receipt, Want::Bool),
        ("args.amount * 1.5", Scope::Call, Want::Text),
        ("args.id.matches('(')", Scope::Call, Want::Bool),
        ("args.id.matches(args.id)", Scope::Call, Want::Bool),
        ("args.ids.all(x, x.matches('a'))", Scope::Call, Want::Bool),
        ("args.id ==", Scope::Call, Want::Bool),
        ("args.id = 'x'", Scope::Call, Want::Bool),
        ("args.id == 'x", Scope::Call, Want::Bool),
        ("Payment{id: 1}", Scope::Call, Want::Json),
        ("args.?id", Scope::Call, Want::Json),
        ("args.l.all(a, a.all(b, b.all(c, c.all(d, d))))", Scope::Call, Want::Bool),
        ("math.greatest(1, 2)", Scope::Call, Want::Json),
    ] {
        match Expression::compile(source, scope, want) {
            Ok(_) => out.push_str(&format!("{source}\n    taken\n")),
            Err(bad) => {
                let at = &source[bad.at.clone()];
                out.push_str(&format!("{source}\n    {} [{at}]\n    {}\n", bad.what, bad.help));
            }
        }
    }
    insta::assert_snapshot!(out);
}

mod any {
    use proptest::prelude::*;

    use super::*;

    fn piece() -> impl Strategy<Value = String> {
        prop_oneof![
            Just("args".to_owned()),
            Just("args.a".to_owned()),
            Just("args.l".to_owned()),
            Just("tool".to_owned()),
            Just("x".to_owned()),
            "[-+*/%<>=!&|?:.,(){}\\[\\]'\" ]{1,3}",
            "[0-9]{1,21}(\\.[0-9]{1,20})?(u|e[0-9]{1,3})?",
            "'[a-z\\\\]{0,4}'",
            "(size|has|map|filter|all|exists|exists_one|string|int|uint|double|bytes|type|matches|contains)\\(",
            "\\PC{0,3}",
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]
        #[test]
        fn no_text_makes_the_library_panic_or_hang(pieces in prop::collection::vec(piece(), 0..14)) {
            let source = pieces.concat();
            for want in [Want::Bool, Want::Text, Want::Json] {
                match Expression::compile(&source, Scope::Call, want) {
                    Ok(expression) => {
                        let args = r#"{"a":"secret-9","l":[1,2.5,"x",null,{"a":18446744073709551615}]}"#;
                        let _ = expression.json(data(args));
                    }
                    Err(bad) => prop_assert!(source.get(bad.at.clone()).is_some()),
                }
            }
        }
    }
}
