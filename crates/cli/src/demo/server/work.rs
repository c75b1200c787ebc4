//! What a call does.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::Shop;
use super::journal::Stage;
use super::tasks::Task;
use super::tools::{Call, Lose, approval};

/// How a call ended.
#[derive(Clone, Debug)]
pub(super) enum Outcome {
    /// With a tool result.
    Result {
        /// JSON.
        result: Arc<str>,
        is_error: bool,
    },
    /// With a broken connection.
    Cut,
}

/// The way back to the caller while a call runs.
pub(super) enum Caller {
    /// There is none.
    Nobody,
    /// A task of ours, where it will look.
    Task(Arc<Task>),
    /// The stream of its request.
    Stream {
        sender: mpsc::Sender<Bytes>,
        /// JSON of its progress token.
        token: Option<String>,
        /// Whether it can show a form.
        shows_forms: bool,
    },
    /// It has answered already.
    Answered(Value),
}

impl Caller {
    /// Asks, and waits for the answer; `None` if nobody can be asked.
    async fn ask(&self, shop: &Shop, question: Value) -> Option<Value> {
        match self {
            Caller::Nobody => None,
            Caller::Task(task) => task.ask(question).await,
            Caller::Stream { sender, shows_forms: true, .. } => {
                let (id, reply) = shop.tasks.expect_reply();
                let request =
                    json!({ "jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params": question });
                sender.send(request.to_string().into()).await.ok()?;
                reply.await.ok()
            }
            Caller::Stream { shows_forms: false, .. } => None,
            Caller::Answered(answer) => Some(answer.clone()),
        }
    }

    async fn progress(&self, done: u64, of: u64) {
        if let Caller::Stream { sender, token: Some(token), .. } = self {
            let message = format!(
                r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},"progress":{done},"total":{of}}}}}"#
            );
            // A caller that went away wants no progress.
            let _ = sender.send(message.into()).await;
        }
    }
}

/// Carries the call out.
pub(super) async fn perform(shop: &Shop, call: Call, caller: Caller) -> Outcome {
    match carry_out(shop, call, caller).await {
        Ok(outcome) => outcome,
        Err(error) => result(&format!("the journal could not be written: {error}"), true),
    }
}

async fn carry_out(shop: &Shop, call: Call, caller: Caller) -> std::io::Result<Outcome> {
    Ok(match call {
        Call::Echo { text } => result(&text, false),
        Call::Instant => Outcome::Result { result: INSTANT.into(), is_error: false },
        Call::SlowReport { title, time } => {
            shop.journal.record("slow_report", &title, Stage::Begun).await?;
            work(time.unwrap_or(shop.report), &caller).await;
            shop.journal.record("slow_report", &title, Stage::Done).await?;
            result(&format!("The report {title:?} is ready: 42 pages, all is well."), false)
        }
        Call::Deploy { version } => {
            let Some(answer) = caller.ask(shop, approval(&version)).await else {
                return Ok(result(
                    "a deployment needs the approval of a person, and nobody can be asked",
                    true,
                ));
            };
            let approved = answer["action"] == "accept" && answer["content"]["approve"] == true;
            if !approved {
                return Ok(result(
                    &format!("version {version} was not approved, so it was not deployed"),
                    true,
                ));
            }
            shop.journal.record("deploy", &version, Stage::Begun).await?;
            shop.journal.record("deploy", &version, Stage::Done).await?;
            result(&format!("Version {version} is deployed."), false)
        }
        Call::Payment { lose: Some(Lose::Request), .. } => Outcome::Cut,
        Call::Payment { order, to, amount, lose } => {
            let what = format!("{amount} to {to}");
            let key = order.as_deref().unwrap_or(&what);
            shop.journal.record(PAYMENT, key, Stage::Begun).await?;
            shop.journal.record(PAYMENT, key, Stage::Done).await?;
            match (lose, &order) {
                (Some(Lose::Answer | Lose::Request), _) => Outcome::Cut,
                (None, None) => result(&format!("Paid {what}."), false),
                (None, Some(order)) => structured(&json!({
                    "order": order, "status": "paid", "amount": amount, "transaction": format!("tx-{order}"),
                })),
            }
        }
        Call::PaymentStatus { order } => {
            let status = if shop.journal.is_done(PAYMENT, &order) { "paid" } else { "none" };
            structured(&json!({ "order": order, "status": status }))
        }
    })
}

/// The result of `instant`, ready to be sent.
pub(super) const INSTANT: &str = r#"{"content":[{"type":"text","text":"done"}],"isError":false}"#;

const PAYMENT: &str = "payment";

fn structured(value: &Value) -> Outcome {
    let content = json!([{ "type": "text", "text": value.to_string() }]);
    let result = json!({ "content": content, "structuredContent": value, "isError": false });
    Outcome::Result { result: result.to_string().into(), is_error: false }
}

fn result(text: &str, is_error: bool) -> Outcome {
    let result = json!({ "content": [{ "type": "text", "text": text }], "isError": is_error });
    Outcome::Result { result: result.to_string().into(), is_error }
}

/// Takes `time`, and says each second how far it is.
async fn work(time: Duration, caller: &Caller) {
    const TICK: Duration = Duration::from_secs(1);
    let begun = Instant::now();
    let total = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    loop {
        let left = time.saturating_sub(begun.elapsed());
        if left.is_zero() {
            return;
        }
        tokio::time::sleep(left.min(TICK)).await;
        let done = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX).min(total);
        caller.progress(done, total).await;
    }
}
