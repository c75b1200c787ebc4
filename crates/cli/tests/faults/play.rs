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

use crate::act::{Act, Blow, Break, FENCE, How, LOOK, Line, Over, Trial, Whom};
use crate::tally::{Tally, fault_name};
use crate::world::World;

/// How long a client follows its call: longer than a virtual machine stands still when its host is busy, which was seen to
/// be a minute.
const PATIENCE: u64 = 150_000;
/// How long what comes after a call is waited for.
const AFTER: Duration = Duration::from_secs(3);
/// How long a step is waited for.
const STEP: Duration = Duration::from_secs(5);

/// A call that was played, and what its client learned.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Played {
    pub(crate) trial: Trial,
    pub(crate) heard: Vec<Heard>,
    /// Its client was killed.
    pub(crate) killed: bool,
    /// What a client learned that made the same call again, once a person had said that nothing was done.
    #[serde(default)]
    pub(crate) again: Vec<Heard>,
}

/// What came of an act.
pub(crate) struct Came {
    /// Call by call.
    pub(crate) played: Vec<Played>,
    /// Whether all that was to go wrong did. What a busy machine is late for may not.
    pub(crate) is_met: bool,
}

/// Plays it.
pub(crate) async fn act(world: &World, act: &Act, tally: &Tally) -> Came {
    if let Some(blow) = act.blow {
        return struck(world, act, blow, tally).await;
    }
    // Before the gateway starts, since it opens its servers at once.
    let armed: Vec<_> = act.trials.iter().map(|trial| arm_all(world, trial)).collect();
    if act.opening {
        world.kill_gateway();
        world.start_gateway();
    }
    let played = act.trials.iter().zip(armed).map(|(trial, armed)| quiet(world, trial, armed, tally));
    let (played, is_met): (Vec<_>, Vec<_>) = join_all(played).await.into_iter().unzip();
    Came { played, is_met: is_met.into_iter().all(|is_met| is_met) }
}

/// What a message needs for being recognised.
fn rule(trial: &Trial, broken: &Break) -> Rule {
    let (key, message) = (trial.key.as_str(), broken.message.as_str());
    let is_answer_of_lines = trial.back.over == Over::Line && broken.fault.side() == Side::Answer;
    let is_opening = trial.back.opening().contains(&message);
    match broken.line {
        Line::Client => Rule::first(key, broken.fault).and(format!("\"{message}\"")),
        Line::Books => Rule::first(format!("GET /effects/{key}"), broken.fault),
        Line::Hook => Rule::first(format!("o-{key}"), broken.fault).and("POST /notices"),
        // On a line of lines an answer does not say to which method.
        Line::Server if is_answer_of_lines && is_opening => {
            let in_it = match (message, trial.back.opening().len()) {
                ("tools/list", _) => "\"inputSchema\"",
                ("initialize", _) => "\"serverInfo\":",
                ("server/discover", 2) => "\"supportedVersions\"",
                _ => "no such method",
            };
            Rule::first(in_it, broken.fault)
        }
        Line::Server if is_answer_of_lines && message == LOOK => {
            Rule::first(key, broken.fault).and("\"the bank says\"")
        }
        Line::Server if is_answer_of_lines && message == FENCE => {
            Rule::first(key, broken.fault).and("\"the bank says of the fence\"")
        }
        Line::Server if is_answer_of_lines => {
            let nth = trial.back.messages().iter().position(|known| *known == message).unwrap_or_default();
            Rule { skip: u32::try_from(nth).unwrap(), ..Rule::first(key, broken.fault) }
        }
        Line::Server if is_opening => Rule::first(format!("\"{message}\""), broken.fault),
        Line::Server => Rule::first(key, broken.fault).and(format!("\"{message}\"")),
    }
}

fn arm(world: &World, trial: &Trial, broken: &Break) -> Option<Armed> {
    let proxy = match broken.line {
        Line::Client => &world.front,
        Line::Books => &world.books,
        Line::Hook => &world.hook,
        Line::Server => world.behind[&trial.back].proxy.as_ref()?,
    };
    Some(proxy.arm(rule(trial, broken)))
}

fn arm_all<'a>(world: &World, trial: &'a Trial) -> Vec<(&'a Break, Armed)> {
    trial.breaks.iter().filter_map(|broken| Some((broken, arm(world, trial, broken)?))).collect()
}

/// The length of the request and of the answer of one message of an act that nothing else happens to; `None` if there
/// was no such message.
pub(crate) async fn measure(world: &World, act: &Act, line: Line, message: &str) -> Option<Progress> {
    let trial = &act.trials[0];
    let watch = |fault| Break { line, message: message.to_owned(), fault, release: 0 };
    let mut request = arm(world, trial, &watch(Fault::Watch))?;
    // Lines show the answer only to a rule about answers.
    let is_of_lines = line == Line::Server && trial.back.over == Over::Line;
    let has_answer = crate::places::has_side(trial.back, message, Side::Answer);
    let answered = watch(Fault::Delay { side: Side::Answer, after: usize::MAX, ms: 0 });
    let mut answer = if is_of_lines && has_answer { Some(arm(world, trial, &answered)?) } else { None };
    crate::play::act(world, act, &Tally::default()).await;
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

/// What a call is made with.
pub(crate) fn arguments(trial: &Trial) -> Value {
    let mut arguments = json!({ "key": trial.key, "object": format!("o-{}", trial.key), "amount": 3 });
    if let Some(word) = &trial.word {
        match word.as_str() {
            "not_understood" => arguments["amount"] = json!("much"),
            word => arguments["as"] = json!(word),
        }
    }
    arguments
}

fn call(world: &World, trial: &Trial) -> client::Call {
    let (to, path, session) = world.way(trial.back);
    client::Call {
        front: trial.front,
        to,
        path,
        session: session.filter(|_| !trial.opens),
        tool: trial.tool.clone(),
        arguments: arguments(trial),
        idempotency: trial.keyed.then(|| format!("id-{}", trial.key)),
        repeats: 1_000,
        patience: PATIENCE,
    }
}

/// The same call once more, and nothing happens to it.
pub(crate) async fn again(world: &World, trial: &Trial) -> Vec<Heard> {
    // What the bank was told of the first one counts no more.
    let trial = Trial { script: Script::default(), breaks: Vec::new(), ..trial.clone() };
    world.bank("PUT", &format!("/script/{}", trial.key), &json!(trial.script)).await;
    quiet(world, &trial, Vec::new(), &Tally::default()).await.0.heard
}

/// One call, with what happens on its lines and at the bank; and whether all that was armed happened.
async fn quiet(
    world: &World,
    trial: &Trial,
    mut armed: Vec<(&Break, Armed)>,
    tally: &Tally,
) -> (Played, bool) {
    script(world, trial, tally).await;
    let heard = Mutex::new(Vec::new());
    let call = call(world, trial);
    let playing = client::play(&call, |said| heard.lock().unwrap().push(said));
    let releasing = async {
        join_all(armed.iter_mut().map(async |(broken, order)| {
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
    let mut is_met = true;
    for (broken, mut order) in armed {
        // What is done to find out, and to tell a person, may come after the client was answered.
        if [LOOK, FENCE, "GET", "POST"].contains(&broken.message.as_str()) {
            let _ = tokio::time::timeout(AFTER, order.until(|progress| progress.fired)).await;
            order.release();
        }
        if order.progress().fired {
            tally.broke(trial, broken);
        } else {
            is_met = false;
            tally.count(format!("not met: {}", fault_name(broken.line, broken.fault)));
        }
    }
    let heard = heard.into_inner().unwrap();
    if heard.iter().any(|heard| matches!(heard, Heard::GaveUp)) {
        eprintln!("faults: {} gave up; {}", trial.key, world.states());
    }
    (Played { trial: trial.clone(), heard, killed: false, again: Vec::new() }, is_met)
}

/// Calls, and a blow while the first of them is at its step.
async fn struck(world: &World, act: &Act, blow: Blow, tally: &Tally) -> Came {
    let first = &act.trials[0];
    let (line, method, side, after) = blow.step.place();
    let stall = Break { line, message: method.to_owned(), fault: Fault::Stall { side, after }, release: 0 };
    let Some(mut armed) = arm(world, first, &stall) else {
        return Came { played: Vec::new(), is_met: true };
    };
    let (over, strikes) = (Notify::new(), Notify::new());
    let leading = async {
        let played = if blow.whom == Whom::Client {
            process(world, first, blow, &strikes, tally).await
        } else {
            quiet(world, first, Vec::new(), tally).await.0
        };
        over.notify_one();
        played
    };
    let striking = async {
        tokio::select! {
            _ = armed.until(|progress| progress.fired) => {}
            () = over.notified() => return false,
            () = tokio::time::sleep(STEP) => return false,
        }
        tokio::time::sleep(Duration::from_micros(blow.delay)).await;
        tally.struck(blow, first);
        match (blow.whom, blow.how) {
            (Whom::Gateway, How::Kill) => {
                world.kill_gateway();
                drop(armed);
                if let Some(again) = blow.again {
                    let listened = world.start_and_kill_gateway(Duration::from_micros(again)).await;
                    tally.struck_again(listened);
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
                // The gateway may start another one meanwhile: this one is let go on.
                let stopped = world.server_process(first.back);
                stopped.iter().for_each(|process| crate::world::signal(*process, Signal::SIGSTOP));
                armed.release();
                tokio::time::sleep(Duration::from_millis(ms)).await;
                stopped.iter().for_each(|process| crate::world::signal(*process, Signal::SIGCONT));
            }
            (Whom::Client, How::Kill | How::Stop { .. }) => {
                strikes.notify_one();
                // Whoever reads the line would otherwise wait for a dead client.
                tokio::time::sleep(Duration::from_millis(5)).await;
                armed.release();
            }
        }
        true
    };
    let others = join_all(act.trials[1..].iter().map(|trial| quiet(world, trial, Vec::new(), tally)));
    let (first, is_met, others) = tokio::join!(leading, striking, others);
    let mut played = vec![first];
    played.extend(others.into_iter().map(|(played, _)| played));
    Came { played, is_met }
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
    Played { trial: trial.clone(), heard, killed, again: Vec::new() }
}

/// Waits until the bank has done all that it accepted, and nobody asks it anything.
pub(crate) async fn until_bank_is_quiet(world: &World) {
    let mut quiet = 0;
    // What came in before is taken up before what comes in now, but not at once.
    while quiet < 3 {
        let said = world.bank("GET", "/pending", &Value::Null).await;
        quiet = if said["pending"] == 0 && said["open"] == 0 { quiet + 1 } else { 0 };
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
