//! The play itself, act by act.

use anyhow::Context;
use serde_json::{Value, json};

use super::clients::{Legacy, Modern, is_over, text};
use super::stage::Stage;
use super::tell::Tell;
use super::wire::Wire;

/// What is under way when the gateway is killed.
struct Ids {
    plain: String,
    a: String,
    b: String,
}

/// Plays it.
pub(super) async fn play(stage: &mut Stage, tell: &mut Tell) -> anyhow::Result<()> {
    tell.act("1  Two processes");
    tell.say(&format!(
        "a demo server with slow tools runs as process {}: {}",
        stage.server_id(),
        stage.server_url()?
    ));
    tell.say(&format!("the gateway runs before it as process {}: {}", stage.gateway_id(), stage.url()?));
    let ids = begin(stage, tell).await?;

    tell.act("3  The gateway is killed");
    tell.say(&format!("kill -9 {}", stage.gateway_id()));
    stage.kill().await?;
    stage.open().await?;
    tell.say(&format!(
        "started again as process {}; the demo server worked on meanwhile",
        stage.gateway_id()
    ));

    let wire = stage.wire()?;
    approve(&wire, tell).await?;
    lose(stage, &wire, tell).await?;
    finish(&wire, &ids, tell).await?;
    count(stage, tell).await
}

fn report(client: &str) -> Value {
    json!({ "title": format!("for the {client} client") })
}

/// Starts the same slow report in three ways.
async fn begin(stage: &Stage, tell: &mut Tell) -> anyhow::Result<Ids> {
    tell.act("2  A slow report, called in three ways");
    let wire = stage.wire()?;
    let legacy = Legacy::open(&wire).await?;

    tell.sent("plain call of slow_report, by a client that knows no tasks");
    let result = legacy.call("slow_report", report("plain")).await??;
    let plain = handle(&result)?;
    tell.heard(&format!("after 3 s an ordinary tool result that says: it goes on as {}", short(&plain)));
    tell.more("(45 s by default, under the 60 s after which hosts give up)");

    tell.sent("the same call once more, as a host does that gave up");
    let again = handle(&legacy.call("slow_report", report("plain")).await??)?;
    tell.check(again == plain, "the second call joined the first and started nothing", &short(&again));

    tell.sent("call as a task of dialect A (MCP 2025-11-25)");
    let params = json!({ "name": "slow_report", "arguments": report("dialect A"), "task": {} });
    let result = legacy.request("tools/call", params).await??;
    let a = member(&result["task"], "taskId")?;
    tell.heard(&format!("at once: task {} is {}", short(&a), result["task"]["status"]));

    tell.sent("call by a client of dialect B (MCP 2026-07-28 with the tasks extension)");
    let result = Modern::new(&wire).call("slow_report", report("dialect B")).await??;
    let b = member(&result, "taskId")?;
    tell.heard(&format!("task {} is {}", short(&b), result["status"]));
    Ok(Ids { plain, a, b })
}

/// A deployment that asks a person.
async fn approve(wire: &Wire, tell: &mut Tell) -> anyhow::Result<()> {
    tell.act("4  A deployment asks for approval");
    let client = Modern::new(wire);
    tell.sent("call of deploy, dialect B");
    let result = client.call("deploy", json!({ "version": "1.4.2" })).await??;
    let id = member(&result, "taskId")?;
    let asked = client.watch(&id, |status| status == "input_required" || is_over(status)).await?;
    let (key, question) = asked["inputRequests"]
        .as_object()
        .and_then(|questions| questions.iter().next())
        .context("the deployment asked nothing")?;
    tell.heard(&format!("task {} waits for input: {}", short(&id), question["params"]["message"]));
    tell.sent("answer: approved");
    let answer = json!({ "action": "accept", "content": { "approve": true } });
    let update = json!({ "taskId": id, "inputResponses": { key.as_str(): answer } });
    client.request("tasks/update", &id, update).await??;
    let over = client.watch(&id, is_over).await?;
    let said = text(&over["result"]);
    tell.heard(said);
    tell.check(over["status"] == "completed", "the approval reached the server", &over.to_string());
    Ok(())
}

/// A payment whose answer is lost.
async fn lose(stage: &Stage, wire: &Wire, tell: &mut Tell) -> anyhow::Result<()> {
    tell.act("5  A payment whose answer is lost");
    let legacy = Legacy::open(wire).await?;
    let payment = json!({ "to": "ACME", "amount": 99.5, "lose_answer": true });
    tell.sent("plain call of payment; the server pays, then the connection breaks");
    let refused = match legacy.call("payment", payment.clone()).await? {
        Err(refused) => refused,
        Ok(result) => {
            tell.check(false, "a lost answer is not called a success", &result.to_string());
            return Ok(());
        }
    };
    tell.heard(&format!("{refused}"));
    tell.check(
        refused.data["outcome"] == "unknown",
        "the outcome is called unknown: neither done nor not done",
        &refused.data.to_string(),
    );
    tell.sent("the same call once more, as a client does that met an error");
    let again = legacy.call("payment", payment).await?;
    tell.heard(&match &again {
        Ok(result) => text(result).to_owned(),
        Err(refused) => refused.to_string(),
    });
    let paid = times(&Wire::read(stage.effects_url()?).await?, "payment", "99.5 to ACME", "begun");
    tell.check(paid == 1, "the payment was not sent again", &format!("{paid} payments"));
    Ok(())
}

/// Reads the three reports under the ids that were given before the kill.
async fn finish(wire: &Wire, ids: &Ids, tell: &mut Tell) -> anyhow::Result<()> {
    tell.act("6  The same ids, read to their results");
    let legacy = Legacy::open(wire).await?;

    tell.sent(&format!("taskgate_task {{\"action\":\"wait\",\"taskId\":\"{}\"}}, plain", short(&ids.plain)));
    let wait = json!({ "action": "wait", "taskId": ids.plain });
    let result = loop {
        let result = legacy.call("taskgate_task", wait.clone()).await??;
        let status = &result["structuredContent"]["taskgate"]["status"];
        if status.as_str().is_none_or(is_over) {
            break result;
        }
    };
    got(tell, "plain", &result);

    tell.sent(&format!("tasks/result of {}, dialect A", short(&ids.a)));
    let result = legacy.request("tasks/result", json!({ "taskId": ids.a })).await??;
    got(tell, "dialect A", &result);

    tell.sent(&format!("tasks/get of {}, dialect B", short(&ids.b)));
    let task = Modern::new(wire).watch(&ids.b, is_over).await?;
    got(tell, "dialect B", &task["result"]);
    Ok(())
}

fn got(tell: &mut Tell, client: &str, result: &Value) {
    tell.heard(text(result));
    let held = text(result).contains(&format!("for the {client} client")) && result["isError"] != true;
    tell.check(
        held,
        &format!("the {client} client has its result, over the death of the gateway"),
        &result.to_string(),
    );
}

/// Counts effects where they happened.
async fn count(stage: &Stage, tell: &mut Tell) -> anyhow::Result<()> {
    tell.act("7  The demo server's own journal");
    let effects = Wire::read(stage.effects_url()?).await?;
    let all = effects.as_array().context("the journal is no list")?;
    for effect in all {
        tell.more(&format!(
            "{:12} {:24} begun {}, done {}",
            effect["effect"].as_str().unwrap_or_default(),
            effect["key"].as_str().unwrap_or_default(),
            effect["begun"],
            effect["done"]
        ));
    }
    let once = all.iter().all(|effect| effect["begun"] == 1 && effect["done"] == 1);
    tell.check(once && all.len() == 5, "each of the five effects happened once", &effects.to_string());
    Ok(())
}

fn times(effects: &Value, effect: &str, key: &str, stage: &str) -> u64 {
    let is_meant = |entry: &&Value| entry["effect"] == effect && entry["key"] == key;
    effects
        .as_array()
        .and_then(|all| all.iter().find(is_meant))
        .and_then(|entry| entry[stage].as_u64())
        .unwrap_or(0)
}

/// The id that a stand-in result names.
fn handle(result: &Value) -> anyhow::Result<String> {
    member(&result["structuredContent"]["taskgate"], "taskId")
}

fn member(value: &Value, name: &str) -> anyhow::Result<String> {
    value[name].as_str().map(str::to_owned).with_context(|| format!("there is no {name} in {value}"))
}

/// An id works like a password, so even the demo does not show it whole.
fn short(id: &str) -> String {
    let begin: String = id.chars().take(12).collect();
    format!("{begin}…")
}
