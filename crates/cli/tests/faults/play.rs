//! Plays an act.

use std::sync::Mutex;
use std::time::Duration;

use futures_util::future::join_all;
use nix::sys::signal::Signal;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use taskgate_faults::bank::Script;
use taskgate_faults::client::{self, Heard};
use taskgate_faults::proxy::{Armed, Fault, Progress, Rule, Side};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::sync::Notify;

use crate::act::{Act, Back, Blow, Break, How, Line, Over, Trial, Whom};
use crate::tally::Tally;
use crate::world::World;

/// How long a client follows its call.
const PATIENCE: u64 = 30_000;
/// How long a step is waited for.
const STEP: Duration = Duration::from_secs(5);

/// A call that was played, and what its client learned.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Played {
    pub(crate) trial: Trial,
    pub(crate) heard: Vec<Heard>,
    /// Its client was killed.
    pub(crate) killed: bool,
}

/// Plays it; what came of each call.
pub(crate) async fn act(world: &World, act: &Act, tally: &Tally) -> Vec<Played> {
    match act.blow {
        None => {
            let played = act.trials.iter().map(|trial| quiet(world, trial, tally));
            join_all(played).await
        }
        Some(blow) => struck(world, act, blow, tally).await,
    }
}

/// What a message needs for being recognised: on a line of lines an answer does not say to which method.
fn rule(back: Option<Back>, key: &str, method: &str, fault: Fault) -> Rule {
    match back {
        Some(back) if back.over == Over::Line && fault.side() == Side::Answer => {
            let nth = back.messages().iter().position(|message| *message == method).unwrap_or_default();
            Rule { skip: u32::try_from(nth).unwrap(), ..Rule::first(key, fault) }
        }
        _ => Rule::first(key, fault).and(format!("\"{method}\"")),
    }
}

fn arm(world: &World, trial: &Trial, line: Line, broken: &Break) -> Option<Armed> {
    match line {
        Line::Client => Some(world.front.arm(rule(None, &trial.key, &broken.method, broken.fault))),
        Line::Server => {
            let proxy = world.behind[&trial.back].proxy.as_ref()?;
            Some(proxy.arm(rule(Some(trial.back), &trial.key, &broken.method, broken.fault)))
        }
    }
}

/// The length of the request and of the answer of one message of a call that nothing happens to; `None` if there was
/// no such message.
pub(crate) async fn measure(world: &World, trial: &Trial, line: Line, method: &str) -> Option<Progress> {
    let watch = |fault| Break { method: method.to_owned(), fault, release: 0 };
    let mut request = arm(world, trial, line, &watch(Fault::Watch))?;
    // Lines show the answer only to a rule about answers.
    let is_of_lines = line == Line::Server && trial.back.over == Over::Line;
    let answered = watch(Fault::Delay { side: Side::Answer, after: usize::MAX, ms: 0 });
    let mut answer = if is_of_lines { Some(arm(world, trial, line, &answered)?) } else { None };
    quiet(world, trial, &Tally::default()).await;
    // What was passed on may be noted a moment later.
    let seen = async {
        let mut progress =
            request.until(|progress| progress.request > 0 && (is_of_lines || progress.answered)).await;
        if let Some(answer) = &mut answer {
            progress.answer = answer.until(|progress| progress.answered).await.answer;
        }
        progress
    };
    tokio::time::timeout(Duration::from_secs(2), seen).await.ok()
}

async fn script(world: &World, trial: &Trial, tally: &Tally) {
    tally.count(format!("policy: {}", trial.tool));
    if trial.script != Script::default() {
        world.bank("PUT", &format!("/script/{}", trial.key), &json!(trial.script)).await;
        for (of, turns) in [
            ("effect", &trial.script.effects),
            ("probe", &trial.script.probes),
            ("fence", &trial.script.fences),
        ] {
            for turn in turns {
                let name = json!(turn)["turn"].as_str().unwrap_or_default().to_owned();
                tally.count(format!("bank: {of} {name}"));
            }
        }
    }
}

fn call(world: &World, trial: &Trial) -> client::Call {
    let (to, path, session) = world.way(trial.back);
    let mut arguments = json!({ "key": trial.key, "object": format!("o-{}", trial.key), "amount": 3 });
    if let Some(word) = &trial.word {
        match word.as_str() {
            "not_understood" => arguments["amount"] = json!("much"),
            word => arguments["as"] = json!(word),
        }
    }
    client::Call {
        front: trial.front,
        to,
        path,
        session,
        tool: trial.tool.clone(),
        arguments,
        idempotency: trial.keyed.then(|| format!("id-{}", trial.key)),
        repeats: 1_000,
        patience: PATIENCE,
    }
}

/// One call, with what happens on its lines and at the bank.
async fn quiet(world: &World, trial: &Trial, tally: &Tally) -> Played {
    script(world, trial, tally).await;
    let breaks = [(Line::Server, &trial.behind), (Line::Client, &trial.before)];
    let mut armed = Vec::new();
    for (line, broken) in breaks {
        if let Some(broken) = broken
            && let Some(order) = arm(world, trial, line, broken)
        {
            armed.push((line, broken, order));
        }
    }
    let heard = Mutex::new(Vec::new());
    let call = call(world, trial);
    let playing = client::play(&call, |said| heard.lock().unwrap().push(said));
    let releasing = async {
        join_all(armed.iter_mut().map(async |(_, broken, order)| {
            if let Fault::Stall { .. } = broken.fault {
                order.until(|progress| progress.fired).await;
                tokio::time::sleep(Duration::from_millis(broken.release)).await;
                order.release();
            }
            std::future::pending::<()>().await;
        }))
        .await;
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = playing => {}
        () = releasing => {}
    }
    for (line, broken, order) in &armed {
        if order.progress().fired {
            tally.broke(*line, trial, broken);
        }
    }
    Played { trial: trial.clone(), heard: heard.into_inner().unwrap(), killed: false }
}

/// Calls, and a blow while the first of them is at its step.
async fn struck(world: &World, act: &Act, blow: Blow, tally: &Tally) -> Vec<Played> {
    let first = &act.trials[0];
    let (line, method, side, after) = blow.step.place();
    let stall = Break { method: method.to_owned(), fault: Fault::Stall { side, after }, release: 0 };
    let Some(mut armed) = arm(world, first, line, &stall) else { return Vec::new() };
    let (over, strikes) = (Notify::new(), Notify::new());
    let leading = async {
        let played = if blow.whom == Whom::Client {
            process(world, first, blow, &strikes, tally).await
        } else {
            quiet(world, first, tally).await
        };
        over.notify_one();
        played
    };
    let striking = async {
        tokio::select! {
            _ = armed.until(|progress| progress.fired) => {}
            () = over.notified() => return,
            () = tokio::time::sleep(STEP) => return,
        }
        tokio::time::sleep(Duration::from_micros(blow.delay)).await;
        tally.struck(blow, first);
        match (blow.whom, blow.how) {
            (Whom::Gateway, How::Kill) => {
                world.kill_gateway();
                drop(armed);
                if let Some(again) = blow.again {
                    world.start_and_kill_gateway(Duration::from_micros(again)).await;
                }
                world.start_gateway();
            }
            (Whom::Gateway, How::Stop { ms }) => {
                world.signal_gateway(Signal::SIGSTOP);
                armed.release();
                tokio::time::sleep(Duration::from_millis(ms)).await;
                world.signal_gateway(Signal::SIGCONT);
            }
            (Whom::Server, How::Kill) => {
                world.kill_server(first.back);
                drop(armed);
            }
            (Whom::Server, How::Stop { ms }) => {
                world.signal_server(first.back, Signal::SIGSTOP);
                armed.release();
                tokio::time::sleep(Duration::from_millis(ms)).await;
                world.signal_server(first.back, Signal::SIGCONT);
            }
            (Whom::Client, How::Kill | How::Stop { .. }) => {
                strikes.notify_one();
                // Whoever reads the line would otherwise wait for a dead client.
                tokio::time::sleep(Duration::from_millis(5)).await;
                armed.release();
            }
        }
    };
    let others = join_all(act.trials[1..].iter().map(|trial| quiet(world, trial, tally)));
    let (played, (), mut others) = tokio::join!(leading, striking, others);
    others.insert(0, played);
    others
}

/// A call by a process, which is struck when it is told.
async fn process(world: &World, trial: &Trial, blow: Blow, strikes: &Notify, tally: &Tally) -> Played {
    script(world, trial, tally).await;
    let mut child = world.client(&call(world, trial));
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let process = child.id().unwrap_or_default();
    let (mut heard, mut killed) = (Vec::new(), false);
    loop {
        tokio::select! {
            line = lines.next_line() => match line {
                Ok(Some(line)) => heard.push(serde_json::from_str(&line).unwrap()),
                Ok(None) | Err(_) => break,
            },
            () = strikes.notified() => match blow.how {
                How::Kill => {
                    child.start_kill().unwrap();
                    killed = true;
                }
                How::Stop { ms } => {
                    crate::world::signal(process, Signal::SIGSTOP);
                    tokio::time::sleep(Duration::from_millis(ms)).await;
                    crate::world::signal(process, Signal::SIGCONT);
                }
            },
        }
    }
    let _ = child.wait().await;
    Played { trial: trial.clone(), heard, killed }
}

/// Waits until the bank has done all that it accepted.
pub(crate) async fn until_bank_is_quiet(world: &World) {
    while world.bank("GET", "/pending", &Value::Null).await["pending"] != 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
