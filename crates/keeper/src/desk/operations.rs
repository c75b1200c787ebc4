//! Operations: listed, shown, asked after, and resolved by a person (R4.7, R4.9, design 7).

use taskgate_core::id::{OperationId, Principal};
use taskgate_core::operation::{Attestation, Inquiry, Outcome, Stage, TEXT_BYTES_MAX, Text, Verdict};
use taskgate_core::time::UnixMillis;
use taskgate_engine::ledger::ResolveError;
use taskgate_store::ledger::{After, LedgerEntry, Which};

use super::Desk;
use crate::control::PAGE_MAX;
use crate::control::ledger::{self, Happening, Operation, Page, Wanted, Word};

/// Operations that are looked through for one page.
const LOOKED_THROUGH: usize = 500;

/// A page with histories ends once they are this large.
const HISTORY_BYTES: usize = 1 << 20;

/// Those that wait for a person are counted up to here.
const COUNTED: usize = 1_000;

impl Desk {
    pub(super) async fn operations(&self, wanted: Wanted) -> Result<Page, String> {
        let Wanted { which, after, limit, since_ms, history } = wanted;
        let which = match which {
            ledger::Which::All => Which::All,
            ledger::Which::Open => Which::Open,
            ledger::Which::Waiting => Which::Waiting,
        };
        let limit = limit.clamp(1, PAGE_MAX).min(LOOKED_THROUGH);
        let begins = after.is_none();
        let after = after.map(|after| After {
            at: UnixMillis(after.at_ms),
            id: OperationId(after.id),
            principal: Principal::stored(after.scope),
        });
        let entries = self.engine.operations(which, after, limit).await.map_err(words)?;
        let is_last = entries.len() < limit;
        let mut page = Page { operations: Vec::new(), next: None, waiting: 0 };
        let (mut bytes, count) = (0, entries.len());
        for (number, entry) in entries.into_iter().enumerate() {
            let place = entry.after();
            if since_ms.is_none_or(|since| entry.updated.0 >= since) {
                let operation = if history { self.whole(&entry).await? } else { self.plain(&entry).await? };
                bytes += operation.history.iter().flatten().map(size).sum::<usize>();
                page.operations.push(operation);
            }
            let is_full = bytes > HISTORY_BYTES;
            if is_full || number + 1 == count {
                let is_end = is_last && number + 1 == count;
                let next = ledger::After {
                    at_ms: place.at.0,
                    id: place.id.0,
                    scope: place.principal.as_str().to_owned(),
                };
                page.next = (!is_end).then_some(next);
                break;
            }
        }
        if begins {
            page.waiting = self.engine.operations(Which::Waiting, None, COUNTED).await.map_err(words)?.len();
        }
        Ok(page)
    }

    pub(super) async fn operation(&self, id: &str) -> Result<Operation, String> {
        let entry = self.find_operation(id).await?;
        self.whole(&entry).await
    }

    pub(super) async fn reconcile(&self, id: &str) -> Result<Operation, String> {
        let entry = self.find_operation(id).await?;
        if let Some(intent) = &entry.intent
            && self.engine.awaits(&intent.workflow)
        {
            return Err(format!(
                "no host has started the server {:?}, and the rules of the workflow {:?} come with one: start the host, and its \
                 system of record is asked; or a person can resolve it: `taskgate resolve {}`",
                entry.server.0, intent.workflow.0, entry.id
            ));
        }
        match self.engine.reconcile_now(&entry.id).await {
            Ok(entry) => self.whole(&entry).await,
            Err(ResolveError::NoRule) => Err(match &entry.intent {
                Some(intent) => format!(
                    "the workflow {:?} says nobody who could be asked: it has no probe, or is no longer in the \
                     configuration; a person can resolve it: `taskgate resolve {}`",
                    intent.workflow.0, entry.id
                ),
                None => format!(
                    "its tool belongs to no workflow, so there is nobody to ask; a person can resolve it: \
                     `taskgate resolve {}`",
                    entry.id
                ),
            }),
            Err(ResolveError::OutOfStage(entry)) => {
                Err(format!("there is nothing to ask: {}", standing(&entry)))
            }
            Err(error @ (ResolveError::Unknown | ResolveError::NoReason | ResolveError::Store(_))) => {
                Err(error.to_string())
            }
        }
    }

    pub(super) async fn resolve(&self, word: Word) -> Result<Operation, String> {
        let Word { id, applied, name, reason, correct } = word;
        let cures =
            [("name", &name, "use a shorter one"), ("reason", &reason, "say where the full account is")];
        for (what, text, cure) in cures {
            // A cut text would stand as evidence for ever.
            if text.trim().len() > TEXT_BYTES_MAX {
                return Err(format!(
                    "the {what} has {} bytes, and at most {TEXT_BYTES_MAX} are kept; {cure}",
                    text.trim().len()
                ));
            }
        }
        let entry = self.find_operation(&id).await?;
        let attestation = Attestation {
            verdict: if applied { Verdict::Applied } else { Verdict::NotApplied },
            name: Text::new(&name),
            reason: Text::new(&reason),
        };
        let told = if correct {
            self.engine.correct(&entry.id, attestation).await
        } else {
            self.engine.attest(&entry.id, attestation).await
        };
        match told {
            Ok(entry) => self.whole(&entry).await,
            Err(ResolveError::OutOfStage(entry)) => {
                let cure = match &entry.operation.stage {
                    Stage::Settled(Outcome::Attested(_)) => {
                        "; if that was wrong, `--correct` puts another word in its place"
                    }
                    Stage::Prepared
                    | Stage::Dispatched { .. }
                    | Stage::Observing { .. }
                    | Stage::Settled(_)
                    | Stage::Unknown(_) => "",
                };
                Err(format!("a person's word is not taken: {}{cure}", standing(&entry)))
            }
            Err(
                error @ (ResolveError::Unknown
                | ResolveError::NoReason
                | ResolveError::NoRule
                | ResolveError::Store(_)),
            ) => Err(error.to_string()),
        }
    }

    /// Without its history.
    async fn plain(&self, entry: &LedgerEntry) -> Result<Operation, String> {
        let mut operation = Operation::of(entry);
        if let Some(intent) = &entry.intent {
            operation.owners = self.engine.owners(&intent.workflow);
            operation.can_be_asked = self.engine.can_ask(&intent.workflow);
            operation.awaits_host = self.engine.awaits(&intent.workflow);
        }
        // Only what is settled can have given its key free.
        if entry.key.is_some() && !entry.operation.is_open() {
            operation.key_given_to = self.engine.key_given_to(entry).await.map_err(words)?.map(|id| id.0);
        }
        Ok(operation)
    }

    async fn whole(&self, entry: &LedgerEntry) -> Result<Operation, String> {
        let history = self.engine.history(&entry.id).await.map_err(words)?;
        let mut operation = self.plain(entry).await?;
        operation.history = Some(history.into_iter().map(Happening::of).collect());
        Ok(operation)
    }

    /// Finds an operation by its id, or by the first characters of one.
    async fn find_operation(&self, id: &str) -> Result<LedgerEntry, String> {
        if let Some(entry) = self.engine.operation(&OperationId(id.to_owned())).await.map_err(words)? {
            return Ok(entry);
        }
        let mut found: Vec<LedgerEntry> = Vec::new();
        let mut after = None;
        loop {
            let page = self.engine.operations(Which::All, after, PAGE_MAX).await.map_err(words)?;
            after = page.last().map(LedgerEntry::after);
            let is_last = page.len() < PAGE_MAX;
            found.extend(page.into_iter().filter(|entry| !id.is_empty() && entry.id.0.starts_with(id)));
            if is_last || found.len() > 1 {
                break;
            }
        }
        match (found.pop(), found.is_empty()) {
            (Some(entry), true) => Ok(entry),
            (Some(_), false) => Err(format!("several operations begin with {id:?}; write more of the id")),
            (None, _) => Err(format!("{UNKNOWN} {id:?}; `taskgate ops --all` lists them")),
        }
    }
}

/// How the words begin when there is no such operation.
pub(crate) const UNKNOWN: &str = "there is no operation";

/// Why nothing more is taken, in words that say what is known.
fn standing(entry: &LedgerEntry) -> String {
    let made = |verdict| match verdict {
        Verdict::Applied => "its effect was made",
        Verdict::NotApplied => "its effect was not made",
    };
    match &entry.operation.stage {
        Stage::Prepared => "it has not been sent yet".to_owned(),
        Stage::Dispatched { .. } | Stage::Observing { .. } => {
            "it is under way, and its answer may still come; `taskgate tasks ID --cancel` asks for its end"
                .to_owned()
        }
        Stage::Settled(Outcome::NoneExpected) => "it only reads, and has no effect".to_owned(),
        Stage::Settled(Outcome::Confirmed(verdict)) => {
            format!("it is confirmed that {}, and that stands", made(*verdict))
        }
        Stage::Settled(Outcome::Attested(verdict)) => {
            format!("a person has said that {}", made(*verdict))
        }
        Stage::Settled(Outcome::Reported(verdict)) => format!("the server says that {}", made(*verdict)),
        Stage::Settled(Outcome::Assumed) => "it is assumed that its effect was not made".to_owned(),
        Stage::Unknown(_) => match entry.operation.inquiry {
            Inquiry::Reconciling { .. } => "its system of record is being asked".to_owned(),
            Inquiry::Idle | Inquiry::Person { .. } => "nobody knows whether its effect was made".to_owned(),
        },
    }
}

fn size(happening: &Happening) -> usize {
    happening.lines.iter().map(String::len).sum::<usize>() + 64
}

fn words(error: taskgate_store::Error) -> String {
    error.to_string()
}
