//! Opens a session with a server, prints what it announced, and may call one of its tools and follow it to its end.
//!
//! `probe URL [TOOL ARGUMENTS]` or `probe --stdio 'COMMAND ARG…' [TOOL ARGUMENTS]`; questions are accepted.

#![expect(clippy::print_stdout, reason = "printing is what it is for")]

use std::error::Error;
use std::time::Duration;

use bytes::Bytes;
use taskgate_client::{InheritEnv, Options, ServerConfig, Servers, Transport};
use taskgate_core::gate::{Asking, BackTasks, TaskSupport};
use taskgate_core::id::{Principal, ServerName};
use taskgate_core::task::QuestionKind;
use taskgate_core::time::Millis;
use taskgate_engine::back::{Answer, Back, BackEvent, BackKey, Outgoing, Reply, Stand};
use tokio::time::sleep;

const OFFERS: &str = "{\"elicitation\":{\"form\":{},\"url\":{}},\"sampling\":{},\"roots\":{}}";

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let first = args.next().ok_or("probe URL | --stdio COMMAND")?;
    let transport = if first == "--stdio" {
        let line = args.next().ok_or("--stdio needs a command")?;
        let mut words = line.split_whitespace().map(Into::into);
        let command = words.next().ok_or("an empty command")?;
        Transport::Stdio {
            command,
            args: words.collect(),
            env: vec![],
            cwd: None,
            inherit_env: InheritEnv::All,
        }
    } else {
        Transport::Http { url: first, headers: vec![] }
    };
    let servers = Servers::new(vec![ServerConfig::new("peer", transport)], Options::default());
    let key =
        BackKey { server: ServerName("peer".into()), principal: Principal::local(), offers: OFFERS.into() };
    let session = servers.session(&key).await?;
    let manifest = session.manifest();
    println!(
        "version {}, tasks {:?}, info {:?}",
        manifest.protocol_version, manifest.tasks, manifest.back.server_info
    );
    let tools = session.tools().await?;
    for (name, facts) in tools.iter() {
        println!("  {name}: {:?}, read-only {:?}", facts.support, facts.read_only_hint);
    }
    if let Some(tool) = args.next() {
        let arguments = args.next().unwrap_or_else(|| "{}".into());
        let asking = match (manifest.tasks, tools.get(&tool).map(|facts| facts.support)) {
            (BackTasks::A, Some(TaskSupport::Required | TaskSupport::Optional)) => Asking::Augmented,
            (BackTasks::B, _) => Asking::Directed,
            (BackTasks::A | BackTasks::None, _) => Asking::Held,
        };
        follow(&*session, tool, &arguments, asking).await?;
    }
    servers.shutdown().await;
    Ok(())
}

async fn follow(
    session: &dyn Back,
    tool: String,
    arguments: &str,
    asking: Asking,
) -> Result<(), Box<dyn Error>> {
    let params = Bytes::from(format!("{{\"name\":\"{tool}\",\"arguments\":{arguments}}}"));
    let call = Outgoing {
        tool,
        params,
        asking,
        ttl: Millis::hours(1),
        key: None,
        offers: String::new(),
        round: None,
    };
    let mut flight = session.call(call);
    let answer = run(&mut flight).await;
    println!("{asking:?} -> {answer:?}");
    let Answer::Task(accepted) = answer else { return Ok(()) };
    let upstream = accepted.upstream;
    let mut attending = session.attend(&upstream);
    loop {
        if let Some(flight) = &mut attending {
            let poll = sleep(Duration::from_millis(300));
            tokio::select! {
                answer = &mut flight.answer => {
                    println!("attending ended: {answer:?}");
                    attending = None;
                    continue;
                }
                Some(event) = flight.events.recv() => reply(event),
                () = poll => {}
            }
        } else {
            sleep(Duration::from_millis(300)).await;
        }
        let look = session.look(&upstream).await;
        println!("look: {look:?}");
        let look = look?;
        for (key, _) in &look.questions {
            let yes = Reply::Result(accept(QuestionKind::Form));
            println!("answer: {:?}", session.answer(&upstream, key, &yes).await);
        }
        match look.stand {
            Stand::Working | Stand::InputRequired => {}
            Stand::Over => {
                println!("result: {:?}", session.result(&upstream).await);
                break;
            }
            Stand::Ended(_) | Stand::Cancelled => break,
        }
    }
    println!("cancel of what is over: {:?}", session.cancel(&upstream).await);
    Ok(())
}

async fn run(flight: &mut taskgate_engine::back::InFlight) -> Answer {
    loop {
        tokio::select! {
            answer = &mut flight.answer => return answer,
            Some(event) = flight.events.recv() => reply(event),
        }
    }
}

fn reply(event: BackEvent) {
    println!("event: {event:?}");
    if let BackEvent::Asked { question, reply, .. } = event {
        let _ = reply.send(Reply::Result(accept(question.kind)));
    }
}

fn accept(kind: QuestionKind) -> Bytes {
    Bytes::from_static(match kind {
        QuestionKind::Form => b"{\"action\":\"accept\",\"content\":{\"confirm\":true,\"interpretation\":\"technical\",\"name\":\"Ada\"}}",
        QuestionKind::Url => b"{\"action\":\"accept\"}",
        QuestionKind::Sampling => {
            b"{\"role\":\"assistant\",\"model\":\"m\",\"content\":{\"type\":\"text\",\"text\":\"a haiku\"}}"
        }
        QuestionKind::Roots => b"{\"roots\":[]}",
    })
}
