//! Workflows that come to the keeper with its hosts, and go when nothing of their servers lives.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::RwLock;
use taskgate_core::id::{ServerName, WorkflowName};
use taskgate_keeper::workflows::{Bringing, Equipment, Workflows as Keeping};
use taskgate_store::ledger::Held;
use taskgate_workflow::Workflow;

use super::notes::Notes;
use super::{Here, Workflows};
use crate::commands::renamed::{self, amount};
use crate::config::Named;
use crate::config::handed::{self, Names, Understood, recorded};
use crate::failure::Words;

impl Workflows {
    /// Those of a keeper, which remembers in `file` what it needs of workflows that are not here.
    pub(crate) fn kept(file: PathBuf) -> Workflows {
        Workflows { here: RwLock::default(), notes: Some(Notes::read(file)) }
    }

    fn hold(&self, server: &ServerName, file: &str, workflows: &[Arc<Workflow>]) {
        if let Some(notes) = &self.notes {
            notes.put(file, workflows);
        }
        let mut here = self.here.write();
        let was_open = remove(&mut here, server);
        for workflow in workflows {
            here.entry(workflow.name.clone()).or_default().push(Here {
                server: server.clone(),
                workflow: workflow.clone(),
                is_open: was_open,
            });
        }
    }

    /// The same name under another file may be another's business: whoever has it is asked.
    fn is_anothers(&self, base: &str, file: &str, named: &[Named], held: &[Held]) -> Result<(), String> {
        for named in named.iter().filter(|named| !named.is_said) {
            let name = recorded(base, &named.recorded_as);
            let before =
                self.notes.as_ref().and_then(|notes| notes.file_of(&name)).filter(|before| before != file);
            let holds = held.iter().find(|held| held.workflow.0 == named.recorded_as);
            let (Some(before), Some(holds)) = (before, holds) else { continue };
            if holds.open == 0 && holds.keys == 0 {
                continue;
            }
            let (section, said) = (&named.section, &named.recorded_as);
            let line = named.at.as_ref().map(|(_, line)| format!(", line {line}")).unwrap_or_default();
            return Err(format!(
                "the workflow {section:?} of the server {base:?} was declared by {before}, and {} are held of it; {file}{line} has one of the same name. If it is the same, write `recorded_as = {said:?}` under [workflows.{section}], and it goes on; if it is another one, give its server another --name",
                amount(holds)
            ));
        }
        Ok(())
    }
}

/// The same, as the keeper uses them.
#[derive(Clone, Debug)]
pub(crate) struct Kept(pub(crate) Arc<Workflows>);

fn remove(here: &mut BTreeMap<String, Vec<Here>>, server: &ServerName) -> bool {
    let mut was_open = false;
    here.retain(|_, of_name| {
        of_name.retain(|one| {
            was_open |= one.server == *server && one.is_open;
            one.server != *server
        });
        !of_name.is_empty()
    });
    was_open
}

/// What is held of the workflows of one name of a server, under their own names. Processes that hosts have for themselves
/// count as that server.
fn of_base(base: &str, server: &ServerName, held: &[Held]) -> Vec<Held> {
    let start = recorded(base, "");
    held.iter()
        .filter_map(|held| {
            let workflow = WorkflowName(held.workflow.0.strip_prefix(&start)?.to_owned());
            let tools = held.tools.iter().map(|(_, tool)| (server.clone(), tool.clone())).collect();
            Some(Held { workflow, tools, ..held.clone() })
        })
        .collect()
}

fn words(failure: &crate::failure::Failure) -> String {
    match &failure.words {
        Words::Plain { what, help: Some(help) } => format!("{what}; {help}"),
        Words::Plain { .. } | Words::Config(_) | Words::Said => failure.to_string(),
    }
}

impl Keeping for Kept {
    fn bring(&self, brought: &Bringing<'_>) -> Result<Equipment, String> {
        let Bringing { declared, server, base, asked, .. } = *brought;
        let held = of_base(base, server, brought.held);
        let file =
            declared.map(|declared| declared.file.0.to_string_lossy().into_owned()).unwrap_or_default();
        let understood = match declared {
            Some(declared) => handed::read(&declared.sheet.0, &Names { server, base, asked, file: &file })?,
            None => Understood::default(),
        };
        self.0.is_anothers(base, &file, &understood.named, &held)?;
        let gone = renamed::check(&held, &understood.named).map_err(|failure| words(&failure))?;
        let notices = gone.into_iter().map(|gone| {
            format!(
                "the configuration of this host has no workflow {:?} of {base:?}, of which {} are held: nothing is looked up \
                 for them, and its tools are not held to its keys; start it with the --config that has it, or resolve them: \
                 taskgate ops --open",
                gone.workflow.0,
                amount(gone)
            )
        });
        let notices = notices.collect();
        let Understood { workflows, by_tool, key_headers, own, named: _ } = understood;
        let (rules, holder) = (self.0.clone(), server.clone());
        Ok(Equipment {
            equip: Box::new(move |policy, config| {
                policy.workflows = by_tool;
                config.key_headers = key_headers;
            }),
            hold: Box::new(move || rules.hold(&holder, &file, &workflows)),
            own,
            notices,
        })
    }

    fn open(&self, server: &ServerName) -> Vec<WorkflowName> {
        for one in self.0.here.write().values_mut().flatten().filter(|one| one.server == *server) {
            one.is_open = true;
        }
        self.of(server)
    }

    fn of(&self, server: &ServerName) -> Vec<WorkflowName> {
        let here = self.0.here.read();
        let theirs = here.iter().filter(|(_, here)| here.iter().any(|one| one.server == *server));
        theirs.map(|(name, _)| WorkflowName(name.clone())).collect()
    }

    fn knows(&self, base: &str) -> bool {
        self.0.notes.as_ref().is_some_and(|notes| notes.has(&recorded(base, "")))
    }

    fn missing(&self, server: &ServerName, has: &dyn Fn(&str) -> bool) -> Vec<String> {
        let missing = self.0.missing(server, has);
        let words = |(workflow, rule, tool): (String, &str, String)| {
            format!(
                "the {rule} of the workflow {workflow:?} asks the tool {tool:?}, which the server does not have: what becomes \
                 of its effects cannot be looked up"
            )
        };
        missing.into_iter().map(words).collect()
    }

    fn leave(&self, server: &ServerName) {
        remove(&mut self.0.here.write(), server);
    }
}
