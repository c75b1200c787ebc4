//! Workflows whose names were changed in the configuration. Keys, objects and rules are found by the name, so under another
//! one a call that was made before would be made again.

use std::collections::BTreeSet;

use taskgate_core::id::ServerName;
use taskgate_store::ledger::Held;

use crate::config::Named;
use crate::exit;
use crate::failure::Failure;

/// What is to be done about a workflow that is not there any more.
pub(crate) const GONE: &str = "the configuration has no workflow of this name any more: nothing can be looked up for its \
     operations, and its tools are not held to its keys and objects; give it back, write `recorded_as` in the workflow that \
     follows it, or resolve them: taskgate ops --open, taskgate ops --waiting";

/// Compares what the store holds with what the configuration names. Of those that are there no
/// more and hold something, somebody is to be told: they are given back.
///
/// # Errors
/// A tool is in another workflow now, and nothing says whether that goes on under the old name.
pub(crate) fn check<'a>(all: &'a [Held], named: &[Named]) -> Result<Vec<&'a Held>, Failure> {
    let mut gone = Vec::new();
    for held in all {
        let old = &held.workflow.0;
        let now = |(server, tool): &(ServerName, String)| {
            named.iter().find(|named| named.server == server.0 && named.tools.contains(tool))
        };
        let mut others = held.tools.iter().filter_map(now).filter(|named| named.recorded_as != *old);
        if let Some(other) = others.find(|named| !named.is_said) {
            return Err(refused(held, other, named));
        }
        let is_there = named.iter().any(|named| named.recorded_as == *old);
        if is_there {
            continue;
        }
        // Its server may have been renamed with it, or its tools have moved to another one: then a tool's name is all that
        // is left of it. A workflow of which something is held was there before.
        let is_new = |named: &&Named| !all.iter().any(|held| held.workflow.0 == named.recorded_as);
        let has_tool = |named: &&Named| held.tools.iter().any(|(_, tool)| named.tools.contains(tool));
        if let Some(other) = named.iter().filter(is_new).filter(has_tool).find(|named| !named.is_said) {
            return Err(refused(held, other, named));
        }
        if held.open > 0 || held.keys > 0 {
            gone.push(held);
        }
    }
    Ok(gone)
}

fn refused(held: &Held, other: &Named, named: &[Named]) -> Failure {
    let old = &held.workflow.0;
    let new = &other.section;
    let place = other.at.as_ref().map(|(file, line)| format!(" ({file}, line {line})")).unwrap_or_default();
    let tools: Vec<&str> = held
        .tools
        .iter()
        .filter(|(_, tool)| other.tools.contains(tool))
        .map(|(_, tool)| tool.as_str())
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect();
    let what = format!(
        "the workflow {new:?}{place} has tools that belonged to {old:?}: {}; the database holds {} under {old:?}, which {new:?} \
         would not find, so that a call made before would be made again",
        tools.join(", "),
        amount(held)
    );
    let is_taken = named.iter().any(|named| named.recorded_as == *old);
    let go_on = if is_taken {
        format!("put the tools back into {old:?}")
    } else {
        format!(
            "if it was renamed, write `recorded_as = {old:?}` under [workflows.{new}], and it goes on under the old name"
        )
    };
    let help = format!("{go_on}; if it is meant as a new one, write `recorded_as = {new:?}` there");
    Failure::new(exit::CONFIG, what, help)
}

pub(crate) fn amount(held: &Held) -> String {
    let many = |count: usize, one: &str, more: &str| {
        let mark = if count >= Held::KEYS_MAX { " or more" } else { "" };
        format!("{count}{mark} {}", if count == 1 { one } else { more })
    };
    let open = many(held.open, "operation that is not settled", "operations that are not settled");
    let keys = many(held.keys, "key", "keys");
    format!("{open} and {keys}")
}

#[cfg(test)]
mod tests {
    use taskgate_core::id::WorkflowName;

    use super::*;
    use crate::failure::Words;

    fn held(workflow: &str, tools: &[&str], open: usize) -> Held {
        let tools = tools.iter().map(|tool| (ServerName("shop".into()), (*tool).to_owned())).collect();
        Held { workflow: WorkflowName(workflow.into()), tools, open, keys: 2 }
    }

    fn named(section: &str, recorded_as: Option<&str>, tools: &[&str]) -> Named {
        Named {
            section: section.into(),
            recorded_as: recorded_as.unwrap_or(section).into(),
            is_said: recorded_as.is_some(),
            server: "shop".into(),
            tools: tools.iter().map(|tool| (*tool).to_owned()).collect(),
            at: Some(("taskgate.toml".into(), 12)),
        }
    }

    fn words(checked: Result<Vec<&Held>, Failure>) -> String {
        match checked.unwrap_err().words {
            Words::Plain { what, help } => format!("{what}\n{}", help.unwrap_or_default()),
            Words::Config(_) | Words::Said => panic!("it has words of its own"),
        }
    }

    #[test]
    fn r4_6_a_renamed_workflow_is_refused_until_somebody_says_what_is_meant() {
        let before = [held("old", &["pay"], 1)];
        assert!(check(&before, &[named("old", None, &["pay"])]).is_ok());
        insta::assert_snapshot!(words(check(&before, &[named("new", None, &["pay"])])), @r#"
        the workflow "new" (taskgate.toml, line 12) has tools that belonged to "old": pay; the database holds 1 operation that is not settled and 2 keys under "old", which "new" would not find, so that a call made before would be made again
        if it was renamed, write `recorded_as = "old"` under [workflows.new], and it goes on under the old name; if it is meant as a new one, write `recorded_as = "new"` there
        "#);
        assert!(check(&before, &[named("new", Some("old"), &["pay"])]).is_ok());
        assert!(check(&before, &[named("new", Some("new"), &["pay"])]).is_ok());
        // Renamed with its server.
        let elsewhere = |named: Named| Named { server: "bank".into(), ..named };
        let words_of_both = words(check(&before, &[elsewhere(named("new", None, &["pay"]))]));
        assert!(words_of_both.contains("belonged to \"old\": pay;"), "{words_of_both}");
        assert!(check(&before, &[elsewhere(named("new", Some("old"), &["pay"]))]).is_ok());
        // One that was there before is no new name of it.
        let tools = [(ServerName("bank".into()), "pay".to_owned())].into();
        let bank = Held { tools, ..held("new", &[], 0) };
        let with_bank = [held("old", &["pay"], 1), bank];
        assert!(check(&with_bank, &[elsewhere(named("new", None, &["pay"]))]).is_ok());
        // Gone altogether: that is told, and no reason not to start.
        assert!(check(&before, &[named("new", None, &["mail"])]).is_ok());
        assert_eq!(check(&before, &[]).unwrap(), before.iter().collect::<Vec<_>>());
    }

    #[test]
    fn r4_6_a_tool_that_moves_to_another_workflow_is_refused_too() {
        let before = [held("old", &["pay", "refund"], 0)];
        let after = [named("old", None, &["pay"]), named("new", None, &["refund"])];
        let words = words(check(&before, &after));
        assert!(
            words.contains("belonged to \"old\": refund;") && words.contains("put the tools back"),
            "{words}"
        );
        let said = [named("old", None, &["pay"]), named("new", Some("new"), &["refund"])];
        assert!(check(&before, &said).is_ok());
    }
}
