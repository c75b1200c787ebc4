//! `kill -9` of the gateway while questions are open.

use serde_json::json;

use crate::call::{Asked, Call, Kind};
use crate::client::{Client, Front};
use crate::plays::{able, is_answer, is_question};
use crate::stage::{Back, Over, Stage, mark};

/// One call over both lives.
struct Open {
    client: Client,
    back: Back,
    over: Over,
    kind: Kind,
    mark: String,
    task: Option<String>,
    key: String,
}

impl Open {
    async fn ask(stage: &Stage, front: Front, back: Back, over: Over, kind: Kind) -> Open {
        let client = Client::http(stage.url(back, over), front, able()).await;
        let mark = mark();
        let mut call = Call::make(&client, kind, &mark).await;
        let asked = call.asked().await.expect("a question");
        is_question(stage, (front, back), over, kind, &mark, &asked);
        let (task, key) = (call.task.clone(), Call::key(&asked).to_owned());
        Open { client, back, over, kind, mark, task, key }
    }

    /// What became of it in the second life.
    async fn after(self, stage: &Stage) {
        let Open { back, over, kind, mark, .. } = &self;
        let client = self.client.moved(stage.url(*back, *over));
        let cell = format!("{:?} {back:?} {over:?} {kind:?}", client.front);
        let survives = *over == Over::Http && matches!(back, Back::A | Back::B);
        let mut call = match &self.task {
            Some(task) => Call::of(&client, *kind, mark, task),
            // Its host calls again, which is the same call, whoever carries it out now.
            None => Call::make(&client, *kind, mark).await,
        };
        if survives {
            let again = call.asked_but(std::slice::from_ref(&self.key)).await;
            let again = again.unwrap_or_else(|| panic!("{cell}: it is asked again"));
            assert_ne!(Call::key(&again), self.key, "{cell}: G-012");
            is_question(stage, (client.front, *back), *over, *kind, mark, &again);
            self.late(stage, &mut call).await;
            call.answer(&again, kind.answer()).await;
            let end = call.end().await;
            assert!(end.starts_with("heard "), "{cell}: {end}");
            is_answer(stage, *back, *kind, mark);
        } else {
            let asked: Option<Asked> = call.asked().await;
            assert!(asked.is_none(), "{cell}: nobody asks any more");
            let end = call.end().await;
            assert!(
                end.contains("outcome is unknown") || end.contains("\"outcome\":\"unknown\""),
                "{cell}: {end}"
            );
            assert_eq!(stage.times(mark, "answered"), 0, "{cell}");
        }
        assert_eq!(stage.times(mark, "called"), 1, "{cell}: R4.5");
    }

    /// An answer to the question of before is acknowledged or dropped, and never reaches the server (X-031, B-096).
    async fn late(&self, stage: &Stage, call: &mut Call<'_>) {
        let answer = match self.kind {
            Kind::Form | Kind::Url => json!({ "action": "decline" }),
            Kind::Sampling | Kind::Tools | Kind::Roots => serde_json::from_str(self.kind.answer()).unwrap(),
        };
        let status = call.late(&self.key, &answer.to_string()).await;
        assert!(matches!(status, 200 | 202), "{status}");
        assert_eq!(stage.times(&self.mark, "answered"), 0);
    }
}

/// Every pair of a client that comes back, over both kinds of line.
pub(crate) async fn all() {
    let mut stage = Stage::set("");
    let mut opening = Vec::new();
    for front in [Front::A, Front::B, Front::Plain] {
        for back in Back::ALL {
            for (over, kinds) in [(Over::Http, &Kind::ALL[..]), (Over::Stdio, &[Kind::Form][..])] {
                // A stateless call that is asked before it has a task is nowhere but with its client.
                if front == Front::B && back == Back::Rounds {
                    continue;
                }
                // Calls of a legacy server on a pipe take turns where callers cannot be told apart (design 5), and an open
                // question holds up the next one.
                let takes_turns = matches!(back, Back::A | Back::Plain) && front != Front::A;
                if over == Over::Stdio && takes_turns {
                    continue;
                }
                for kind in kinds {
                    opening.push(Open::ask(&stage, front, back, over, *kind));
                }
            }
        }
    }
    let open = futures_util::future::join_all(opening).await;
    stage.crash();
    futures_util::future::join_all(open.into_iter().map(|open| open.after(&stage))).await;
}
