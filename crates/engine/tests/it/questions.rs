//! Questions of the back, and people's answers.

use bytes::Bytes;
use taskgate_core::operation::Effect;
use taskgate_core::recovery::Survival;
use taskgate_core::task::{CancelRule, Ending, Fault, Question, QuestionKey, QuestionKind, State};
use taskgate_core::time::Millis;
use taskgate_engine::back::{Answer, BackEvent, Look, Reply, Stand};
use taskgate_engine::engine::Answered;
use taskgate_engine::limits::Limits;
use taskgate_engine::{Handle, Signal};
use tokio::sync::oneshot;

use crate::stage::{Puppet, Stage, call, form, look, me, returned, task, text};

fn yes() -> Reply {
    Reply::Result(Bytes::from_static(b"{\"action\":\"accept\"}"))
}

fn key(n: u32) -> QuestionKey {
    QuestionKey(format!("in-{n}"))
}

async fn asked(handle: &mut Handle, count: usize) {
    while handle.record().task.outstanding().map_or(0, |asked| asked.questions().len()) != count {
        handle.changed().await;
    }
}

#[tokio::test(start_paused = true)]
async fn g_011_a_parked_request_is_answered_once_by_whoever_is_first() {
    let stage = Stage::new(Puppet::new(Survival::DiedWithUs));
    let mut handle = stage.submit(call(Effect::Consequential)).await;
    let id = handle.record().id.clone();
    let heard = stage.back.hear().await;
    let (reply, replied) = oneshot::channel();
    heard.events.send(BackEvent::Asked { ask: 7, question: form("{\"message\":\"?\"}"), reply }).unwrap();
    asked(&mut handle, 1).await;
    let first = stage.engine.answer(&me(), &id, &key(1), yes()).await.unwrap();
    let second = stage.engine.answer(&me(), &id, &key(1), yes()).await.unwrap();
    assert_eq!((first, second), (Some(Answered::Taken), Some(Answered::NotOutstanding)));
    assert!(matches!(replied.await.unwrap(), Reply::Result(_)));
    heard.answer.send(text("{}")).unwrap();
    stage.over_by(&id).await;
    let late = stage.engine.answer(&me(), &id, &key(1), yes()).await.unwrap();
    assert_eq!(late, Some(Answered::NotOutstanding));
}

#[tokio::test(start_paused = true)]
async fn r6_5_an_answer_never_reaches_the_log() {
    let stage = Stage::new(Puppet::new(Survival::DiedWithUs));
    let mut handle = stage.submit(call(Effect::Consequential)).await;
    let id = handle.record().id.clone();
    let heard = stage.back.hear().await;
    let (reply, _replied) = oneshot::channel();
    heard.events.send(BackEvent::Asked { ask: 1, question: form("{\"message\":\"pin\"}"), reply }).unwrap();
    asked(&mut handle, 1).await;
    let secret =
        Reply::Result(Bytes::from_static(b"{\"action\":\"accept\",\"content\":{\"pin\":\"s3cret\"}}"));
    assert!(!format!("{secret:?}").contains("s3cret"));
    stage.engine.answer(&me(), &id, &key(1), secret).await.unwrap();
    let log = format!("{:?} {:?}", stage.store.events(&me(), &id), stage.read(&id).await);
    assert!(!log.contains("s3cret"));
}

#[tokio::test(start_paused = true)]
async fn a_request_that_the_back_gives_up_is_void() {
    let stage = Stage::new(Puppet::new(Survival::DiedWithUs));
    let mut handle = stage.submit(call(Effect::Consequential)).await;
    let id = handle.record().id.clone();
    let heard = stage.back.hear().await;
    let (reply, _replied) = oneshot::channel();
    heard.events.send(BackEvent::Asked { ask: 1, question: form("{}"), reply }).unwrap();
    asked(&mut handle, 1).await;
    heard.events.send(BackEvent::Unasked { ask: 1 }).unwrap();
    asked(&mut handle, 0).await;
    let answered = stage.engine.answer(&me(), &id, &key(1), yes()).await.unwrap();
    assert_eq!(answered, Some(Answered::NotOutstanding));
}

#[tokio::test(start_paused = true)]
async fn b_128_a_round_of_questions_is_gathered_and_the_call_repeated_with_its_state() {
    let stage = Stage::new(Puppet::new(Survival::DiedWithUs));
    let mut handle = stage.submit(call(Effect::Consequential)).await;
    let id = handle.record().id.clone();
    let heard = stage.back.hear().await;
    let questions = vec![("a".to_owned(), form("{\"q\":1}")), ("b".to_owned(), form("{\"q\":2}"))];
    let state = Some(Bytes::from_static(b"\"opaque\""));
    heard.answer.send(Answer::InputRequired { questions, state: state.clone() }).unwrap();
    asked(&mut handle, 2).await;
    stage.engine.answer(&me(), &id, &key(2), yes()).await.unwrap();
    asked(&mut handle, 1).await;
    let no = Reply::Error { code: -1, message: "no".to_owned() };
    stage.engine.answer(&me(), &id, &key(1), no).await.unwrap();
    let heard = stage.back.hear().await;
    let round = heard.outgoing.round.expect("a further round");
    assert_eq!(round.state, state);
    assert_eq!(
        round.responses,
        [
            ("b".to_owned(), "{\"action\":\"accept\"}".into()),
            ("a".to_owned(), "{\"action\":\"cancel\"}".into())
        ]
    );
    heard.answer.send(text("{\"r\":1}")).unwrap();
    assert_eq!(returned(&*stage.over_by(&id).await), b"{\"r\":1}");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_never_stops_asking_is_an_upstream_fault() {
    let stage = Stage::new(Puppet::new(Survival::DiedWithUs));
    let handle = stage.submit(call(Effect::Consequential)).await;
    let back = stage.back.clone();
    tokio::spawn(async move {
        loop {
            let heard = back.hear().await;
            let _ = heard.answer.send(Answer::InputRequired { questions: vec![], state: None });
        }
    });
    let record = stage.over_by(&handle.record().id).await;
    assert!(matches!(record.task.ending(), Some(Ending::Faulted(Fault::UpstreamFault(_)))));
}

#[tokio::test(start_paused = true)]
async fn b_089_b_091_b_093_a_listed_question_is_asked_once_answered_once_and_may_linger() {
    let stage = Stage::new(Puppet::new(Survival::Survives));
    let mut handle = stage.submit(call(Effect::Consequential)).await;
    let id = handle.record().id.clone();
    let questions = ["k1", "k2"].map(|key| (key.to_owned(), form("{}"))).to_vec();
    *stage.back.look.lock() = Ok(Look { questions, ..look(Stand::InputRequired) });
    stage.back.hear().await.answer.send(task()).unwrap();
    asked(&mut handle, 2).await;
    stage.engine.answer(&me(), &id, &key(1), yes()).await.unwrap();
    assert_eq!(stage.back.answers.lock().len(), 1);
    // The server still lists what was answered, for several looks.
    let looks = stage.back.looks.load(std::sync::atomic::Ordering::SeqCst);
    while stage.back.looks.load(std::sync::atomic::Ordering::SeqCst) < looks + 3 {
        tokio::time::advance(std::time::Duration::from_secs(1)).await;
    }
    assert_eq!(stage.read(&id).await.task.keys_issued, 2);
    // One that it no longer lists is void.
    *stage.back.look.lock() = Ok(look(Stand::Working));
    asked(&mut handle, 0).await;
    let late = stage.engine.answer(&me(), &id, &key(2), yes()).await.unwrap();
    assert_eq!(late, Some(Answered::NotOutstanding));
    assert_eq!(stage.back.answers.lock().len(), 1, "nothing is answered that is not open there");
    stage.back.stands(Stand::Ended(Box::new(text("{}"))));
    stage.over_by(&id).await;
}

#[tokio::test(start_paused = true)]
async fn a_070_a_task_works_again_once_all_is_answered() {
    let stage = Stage::new(Puppet::new(Survival::DiedWithUs));
    let mut handle = stage.submit(call(Effect::Consequential)).await;
    let id = handle.record().id.clone();
    let heard = stage.back.hear().await;
    let mut replies = Vec::new();
    for ask in 1..=2 {
        let (reply, replied) = oneshot::channel();
        heard.events.send(BackEvent::Asked { ask, question: form("{}"), reply }).unwrap();
        replies.push(replied);
    }
    asked(&mut handle, 2).await;
    stage.engine.answer(&me(), &id, &key(1), yes()).await.unwrap();
    assert!(matches!(stage.read(&id).await.task.state, State::InputRequired(_)), "one is still open");
    stage.engine.answer(&me(), &id, &key(2), yes()).await.unwrap();
    assert_eq!(stage.read(&id).await.task.state, State::Working);
    heard.answer.send(text("{}")).unwrap();
    stage.over_by(&id).await;
}

#[tokio::test(start_paused = true)]
async fn b_127_b_145_a_question_that_nobody_answers_ends_with_its_task() {
    let limits = Limits { deadline: Millis::secs(5), ..Limits::default() };
    let stage = Stage::with(Puppet::new(Survival::DiedWithUs), limits);
    let mut handle = stage.submit(call(Effect::Consequential)).await;
    let id = handle.record().id.clone();
    let heard = stage.back.hear().await;
    let questions = vec![("a".to_owned(), form("{}"))];
    heard.answer.send(Answer::InputRequired { questions, state: None }).unwrap();
    asked(&mut handle, 1).await;
    let record = stage.over_by(&id).await;
    assert_eq!(record.task.ending(), Some(&Ending::Faulted(Fault::DeadlinePassed)));
    assert!(record.task.outstanding().is_none());
    assert_eq!(stage.engine.live(), 0, "nothing of it is left");
}

#[tokio::test(start_paused = true)]
async fn x_032_a_url_that_the_back_stops_listing_was_visited() {
    let stage = Stage::new(Puppet::new(Survival::Survives));
    let mut handle = stage.submit(call(Effect::Consequential)).await;
    let id = handle.record().id.clone();
    let mut signals = handle.signals();
    let url = Question { kind: QuestionKind::Url, ..form("{}") };
    let questions = vec![("u".to_owned(), url), ("f".to_owned(), form("{}"))];
    *stage.back.look.lock() = Ok(Look { questions, ..look(Stand::InputRequired) });
    stage.back.hear().await.answer.send(task()).unwrap();
    asked(&mut handle, 2).await;
    for n in [1, 2] {
        stage.engine.answer(&me(), &id, &key(n), yes()).await.unwrap();
    }
    let looks = stage.back.looks.load(std::sync::atomic::Ordering::SeqCst);
    while stage.back.looks.load(std::sync::atomic::Ordering::SeqCst) < looks + 3 {
        tokio::time::advance(std::time::Duration::from_secs(1)).await;
    }
    assert!(signals.try_recv().is_err(), "to agree is not to have been there");
    *stage.back.look.lock() = Ok(look(Stand::Working));
    let signal = signals.recv().await.unwrap();
    assert!(matches!(&signal, Signal::Visited(visited) if *visited == key(1)), "{signal:?}");
    stage.back.stands(Stand::Ended(Box::new(text("{}"))));
    stage.over_by(&id).await;
    assert!(signals.try_recv().is_err(), "a form is no URL");
}

#[tokio::test(start_paused = true)]
async fn b_147_e_013_q_025_x_029_a_refused_sampling_request_ends_the_task_in_words() {
    let stage = Stage::new(Puppet::new(Survival::Survives));
    let mut handle = stage.submit(call(Effect::Consequential)).await;
    let id = handle.record().id.clone();
    let question = Question { kind: QuestionKind::Sampling, ..form("{}") };
    *stage.back.look.lock() =
        Ok(Look { questions: vec![("k".to_owned(), question)], ..look(Stand::InputRequired) });
    stage.back.hear().await.answer.send(task()).unwrap();
    asked(&mut handle, 1).await;
    let no = Reply::Error { code: -1, message: "the user said no".to_owned() };
    stage.engine.answer(&me(), &id, &key(1), no).await.unwrap();
    let record = stage.over_by(&id).await;
    assert_eq!(record.task.ending(), Some(&Ending::Faulted(Fault::NoAnswer("the user said no".to_owned()))));
    assert_eq!(stage.back.cancels.load(std::sync::atomic::Ordering::SeqCst), 1);
    assert!(stage.back.answers.lock().is_empty(), "there is no form in which to refuse it");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waits_for_input_can_be_cancelled() {
    for rule in [CancelRule::Promise, CancelRule::Wish] {
        let stage = Stage::new(Puppet::new(Survival::DiedWithUs));
        let mut handle = stage.submit(call(Effect::Consequential)).await;
        let questions = vec![("a".to_owned(), form("{}"))];
        let heard = stage.back.hear().await;
        heard.answer.send(Answer::InputRequired { questions, state: None }).unwrap();
        asked(&mut handle, 1).await;
        stage.engine.cancel(&me(), &handle.record().id, rule).await.unwrap();
        let record = stage.over_by(&handle.record().id).await;
        assert_eq!(record.task.ending(), Some(&Ending::Cancelled));
    }
}
