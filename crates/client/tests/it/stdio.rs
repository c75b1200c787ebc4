//! Servers that are child processes.

use std::time::Duration;

use taskgate_client::{Asker, Notice, RawAnswer, Session};
use taskgate_core::gate::{Asking, BackTasks, TaskSupport};
use taskgate_core::id::Principal;
use taskgate_core::recovery::Survival;
use taskgate_core::task::Question;
use taskgate_engine::back::{Answer, Back, BackEvent, BackKey, Backs, LookError, Reply, Stand};
use taskgate_wire::Era;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

use crate::support::{ELICITS, answer, key, legacy, open, python, returned, servers, tool, upstream};

#[tokio::test]
async fn b_026_b_027_d_022_any_other_error_to_discover_means_initialize_on_the_same_process() {
    for code in ["-32601", "-32602", "-32000"] {
        let (_servers, session) = open(python(&[&format!("discover={code}")]), "{}").await;
        let manifest = session.manifest();
        assert_eq!(manifest.era(), Era::Legacy);
        assert_eq!(manifest.protocol_version, "2025-11-25");
        assert_eq!(manifest.back.instructions.as_deref(), Some("be kind"));
        assert_eq!(manifest.evidence.len(), 1);
        assert_eq!(manifest.tasks, BackTasks::None);
    }
}

#[tokio::test]
async fn d_022_silence_means_initialize() {
    let mut config = python(&["discover-silent"]);
    config.probe_timeout = Duration::from_millis(50);
    let (_servers, session) = open(config, "{}").await;
    assert_eq!(session.manifest().era(), Era::Legacy);
}

#[tokio::test]
async fn d_023_a_process_that_exits_over_discover_is_started_once_more() {
    let (_servers, session) = open(python(&["discover-exits"]), "{}").await;
    assert_eq!(session.manifest().era(), Era::Legacy);
}

#[tokio::test]
async fn b_003_b_004_b_055_b_141_d_021_a_discover_result_means_modern() {
    let (_servers, session) = open(python(&["modern"]), ELICITS).await;
    assert_eq!(session.manifest().era(), Era::Modern);
    assert_eq!(session.tasks(), BackTasks::B);
    let said = returned(session.call(tool("echo", Asking::Directed)).answer.await);
    assert!(said.contains("\"io.modelcontextprotocol/protocolVersion\": \"2026-07-28\""), "{said}");
    assert!(said.contains("\"extensions\": {\"io.modelcontextprotocol/tasks\": {}}"), "{said}");
    assert!(said.contains("\"elicitation\": {}"), "{said}");
    assert!(said.contains("\"name\": \"taskgate\""), "{said}");
    // B-058: not declared for a call that must not become a task.
    let said = returned(session.call(tool("echo", Asking::Held)).answer.await);
    assert!(!said.contains("extensions"), "{said}");
}

#[tokio::test]
async fn a_009_older_versions_are_accepted_and_unknown_ones_refused() {
    for version in ["2025-06-18", "2025-03-26", "2024-11-05"] {
        let (_servers, session) = open(legacy(python(&[&format!("version={version}")])), "{}").await;
        assert_eq!(session.manifest().protocol_version, version);
    }
    let servers = servers(legacy(python(&["version=1999-01-01"])));
    let error = servers.session(&key("{}")).await.unwrap_err();
    assert!(error.to_string().contains("1999-01-01"), "{error}");
}

#[tokio::test]
async fn a_006_a_101_a_116_x_036_initialize_offers_what_the_client_has_and_no_tasks() {
    let (_servers, session) = open(legacy(python(&["tasks"])), ELICITS).await;
    let said = &session.manifest().evidence[0].said;
    assert!(said.contains("\"capabilities\": {\"elicitation\": {}}"), "{said}");
    assert!(said.contains("\"protocolVersion\": \"2025-11-25\""), "{said}");
    assert!(said.contains("\"clientInfo\": {\"name\": \"taskgate\""), "{said}");
}

#[tokio::test]
async fn b_155_x_004_tools_are_read_page_by_page_and_again_after_a_change() {
    let (_servers, session) = open(legacy(python(&[])), "{}").await;
    let table = session.tools().await.unwrap();
    assert_eq!(table.len(), 3);
    assert_eq!(table.get("must").unwrap().support, TaskSupport::Required);
    assert_eq!(table.get("echo").unwrap().read_only_hint, Some(true));
    assert_eq!(table.get("echo").unwrap().digest.len(), 64);
    assert!(std::sync::Arc::ptr_eq(&table, &session.tools().await.unwrap()));
    let mut notices = session.notices();
    let RawAnswer::Result(_) = session.request("announce", None).answer.await else { panic!("no result") };
    assert_eq!(notices.recv().await.unwrap(), Notice::ToolsChanged);
    let again = session.tools().await.unwrap();
    assert!(!std::sync::Arc::ptr_eq(&table, &again));
    assert_eq!(table, again);
}

#[tokio::test]
async fn a_079_progress_comes_without_our_token() {
    let (_servers, session) = open(legacy(python(&[])), "{}").await;
    let mut call = session.call(tool("progress", Asking::Held));
    assert_eq!(returned(call.answer.await), "done");
    let mut seen = 0;
    while let Some(event) = call.events.recv().await {
        let BackEvent::Progress(params) = event else { panic!("{event:?}") };
        let params = String::from_utf8(params.to_vec()).unwrap();
        assert!(params.contains("step") && !params.contains("progressToken"), "{params}");
        seen += 1;
    }
    assert_eq!(seen, 3);
}

#[tokio::test]
async fn a_server_that_exits_at_once_is_named_with_its_last_words() {
    let servers = servers(python(&["exit"]));
    let error = servers.session(&key("{}")).await.unwrap_err();
    assert_eq!(error.server, "fake");
    assert!(error.reason.contains("exited with status 3"), "{error}");
    assert!(error.reason.contains("missing API key"), "{error}");
}

#[tokio::test]
async fn a_server_that_ends_at_once_is_quoted_whoever_is_faster() {
    for _ in 0..20 {
        let mut config = python(&[]);
        let taskgate_client::Transport::Stdio { command, args, .. } = &mut config.transport else {
            unreachable!()
        };
        *command = "sh".into();
        *args = vec!["-c".into(), "echo 'no licence' >&2; exit 3".into()];
        let error = servers(config).session(&key("{}")).await.unwrap_err();
        assert!(
            error.reason.contains("exited with status 3") && error.reason.contains("no licence"),
            "{error}"
        );
    }
}

#[tokio::test]
async fn a_server_that_does_not_start_is_named() {
    let mut config = python(&[]);
    let taskgate_client::Transport::Stdio { command, .. } = &mut config.transport else { unreachable!() };
    *command = "/nonexistent/server".into();
    let error = servers(config).session(&key("{}")).await.unwrap_err();
    assert!(error.to_string().contains("/nonexistent/server does not start"), "{error}");
}

#[tokio::test]
async fn a_call_in_flight_at_a_crash_is_lost_and_the_next_one_never_sent() {
    let (servers, session) = open(legacy(python(&[])), "{}").await;
    let answer = session.call(tool("crash", Asking::Held)).answer.await;
    let Answer::Lost(why) = answer else { panic!("{answer:?}") };
    assert!(why.contains("\"fake\"") && why.contains("status 7") && why.contains("about to die"), "{why}");
    assert!(session.over().is_some());
    let answer = session.call(tool("echo", Asking::Held)).answer.await;
    assert!(matches!(answer, Answer::NeverSent(_)), "{answer:?}");
    // Another process takes its place.
    let session = servers.session(&key("{}")).await.unwrap();
    assert!(matches!(session.call(tool("echo", Asking::Held)).answer.await, Answer::Returned { .. }));
}

#[tokio::test]
async fn restarts_after_failures_wait_longer_and_longer() {
    let mut config = legacy(python(&["exit"]));
    config.restart.max = Duration::from_secs(60);
    let servers = servers(config);
    let begun = Instant::now();
    for _ in 0..5 {
        servers.session(&key("{}")).await.unwrap_err();
    }
    // At once, at once, after 50, 100 and 200 ms.
    assert!(begun.elapsed() >= Duration::from_millis(350), "{:?}", begun.elapsed());
    let mut config = legacy(python(&["exit"]));
    config.restart.first = Duration::from_secs(50);
    config.restart.max = Duration::from_secs(50);
    let servers = crate::support::servers(config);
    servers.session(&key("{}")).await.unwrap_err();
    servers.session(&key("{}")).await.unwrap_err();
    let error = servers.session(&key("{}")).await.unwrap_err();
    assert!(error.reason.contains("status 3") && error.reason.contains("tried again in"), "{error}");
}

#[tokio::test]
async fn sessions_for_many_principals_are_no_failures() {
    let mut config = legacy(python(&[]));
    config.restart.first = Duration::from_secs(3600);
    let servers = servers(config);
    for principal in ["a", "b", "c", "d"] {
        let mut key = key("{}");
        key.principal = taskgate_core::id::Principal::stored(principal.to_owned());
        servers.session(&key).await.unwrap();
    }
}

#[tokio::test]
async fn concurrent_callers_share_one_opening() {
    let servers = servers(legacy(python(&[])));
    let key = key("{}");
    let (one, two) = tokio::join!(servers.session(&key), servers.session(&key));
    let pid = async |session: &taskgate_client::Session| match session.request("announce", None).answer.await
    {
        RawAnswer::Result(result) => String::from_utf8(result.to_vec()).unwrap(),
        other => panic!("{other:?}"),
    };
    assert_eq!(pid(&one.unwrap()).await, pid(&two.unwrap()).await);
}

#[tokio::test]
async fn rubbish_between_messages_is_skipped() {
    let (_servers, session) = open(legacy(python(&[])), "{}").await;
    assert_eq!(returned(session.call(tool("rubbish", Asking::Held)).answer.await), "fine");
}

#[tokio::test]
async fn a_server_that_floods_is_given_up_and_named() {
    let (_servers, session) = open(legacy(python(&[])), "{}").await;
    let answer = session.call(tool("flood", Asking::Held)).answer.await;
    let Answer::Lost(why) = answer else { panic!("{answer:?}") };
    assert!(why.contains("floods"), "{why}");
}

#[tokio::test]
async fn an_answer_beyond_the_limit_ends_its_call_only() {
    let (_servers, session) = open(legacy(python(&[])), "{}").await;
    let hanging = session.call(tool("hang", Asking::Held));
    let hanging = tokio::spawn(hanging.answer);
    let answer = session.call(tool("huge", Asking::Held)).answer.await;
    let Answer::Nonsense(why) = answer else { panic!("{answer:?}") };
    assert!(why.contains("longer than the limit"), "{why}");
    assert!(matches!(session.call(tool("echo", Asking::Held)).answer.await, Answer::Returned { .. }));
    assert!(!hanging.is_finished());
    hanging.abort();
}

#[tokio::test]
async fn a_092_stopping_a_call_tells_the_server_and_dropping_it_does_not() {
    let (_servers, session) = open(legacy(python(&[])), "{}").await;
    let stopped = session.call(tool("hang", Asking::Held));
    let stop = stopped.stop.clone();
    let stopped = tokio::spawn(stopped.answer);
    let dropped = session.call(tool("hang", Asking::Held));
    let dropped = tokio::spawn(dropped.answer);
    // An answered call proves that both were written before it.
    tokio::task::yield_now().await;
    session.call(tool("echo", Asking::Held)).answer.await;
    dropped.abort();
    stop.cancel();
    tokio::task::yield_now().await;
    let RawAnswer::Result(said) = session.request("announce", None).answer.await else { panic!("no result") };
    let said: serde_json::Value = serde_json::from_slice(&said).unwrap();
    assert_eq!(said["cancelled"].as_array().unwrap().len(), 1, "{said}");
    stopped.abort();
}

#[tokio::test]
async fn design_5_calls_that_may_ask_take_turns() {
    let (_servers, session) = open(legacy(python(&[])), ELICITS).await;
    let mut first = session.call(tool("elicit", Asking::Held));
    let mut second = session.call(tool("elicit", Asking::Held));
    let one = tokio::spawn(first.answer);
    let Some(BackEvent::Asked { reply, .. }) = first.events.recv().await else { panic!("no question") };
    let two = tokio::spawn(second.answer);
    // What was sent before this round trip has been read by the server.
    session.request("announce", None).answer.await;
    assert!(second.events.try_recv().is_err(), "it waits for its turn");
    reply.send(Reply::Result(bytes::Bytes::from_static(b"{\"action\":\"accept\"}"))).unwrap();
    assert!(returned(one.await.unwrap()).contains("accept"));
    answer(&mut second.events, "{\"action\":\"decline\"}").await;
    assert!(returned(two.await.unwrap()).contains("decline"));
}

type Events = mpsc::UnboundedReceiver<BackEvent>;

/// Begins a call of a tool that announces how far it has come, and waits for that.
async fn begun(session: &Session, name: &str) -> (JoinHandle<Answer>, Events) {
    let mut notices = session.notices();
    let call = session.call(tool(name, Asking::Held));
    let answer = tokio::spawn(call.answer);
    while !matches!(notices.recv().await.unwrap(), Notice::ToolsChanged) {}
    (answer, call.events)
}

async fn release(session: &Session) {
    let RawAnswer::Result(_) = session.request("release", None).answer.await else { panic!("no result") };
}

#[tokio::test]
async fn design_5_a_tool_that_never_asked_holds_up_no_other_call() {
    let (_servers, session) = open(legacy(python(&[])), ELICITS).await;
    let (held, _) = begun(&session, "held").await;
    assert_eq!(returned(session.call(tool("release", Asking::Held)).answer.await), "fine");
    assert_eq!(returned(held.await.unwrap()), "released");
}

#[tokio::test]
async fn design_5_a_first_question_waits_until_it_is_clear_which_call_asks() {
    let (_servers, session) = open(legacy(python(&[])), ELICITS).await;
    let (held, mut quiet) = begun(&session, "held").await;
    let (asks, mut asked) = begun(&session, "elicit-and-announce").await;
    assert!(asked.try_recv().is_err() && quiet.try_recv().is_err(), "nobody is asked by a guess");
    // A further call would make it less clear, so it waits.
    let mut echo = session.call(tool("echo", Asking::Held));
    tokio::select! {
        biased;
        _ = &mut echo.answer => panic!("it was sent meanwhile"),
        _ = session.request("announce", None).answer => {}
    }
    release(&session).await;
    assert_eq!(returned(held.await.unwrap()), "released");
    answer(&mut asked, "{\"action\":\"accept\"}").await;
    assert!(returned(asks.await.unwrap()).contains("accept"));
    assert!(returned(echo.answer.await).contains("echo"));
}

#[tokio::test]
async fn design_5_a_tool_that_is_known_to_ask_is_asked_for_at_once() {
    let (_servers, session) = open(legacy(python(&[])), ELICITS).await;
    let mut first = session.call(tool("elicit", Asking::Held));
    let one = tokio::spawn(first.answer);
    answer(&mut first.events, "{\"action\":\"accept\"}").await;
    one.await.unwrap();
    let (held, _) = begun(&session, "held").await;
    let mut second = session.call(tool("elicit", Asking::Held));
    let two = tokio::spawn(second.answer);
    answer(&mut second.events, "{\"action\":\"decline\"}").await;
    assert!(returned(two.await.unwrap()).contains("decline"));
    release(&session).await;
    held.await.unwrap();
}

#[tokio::test]
async fn design_5_where_all_calls_ask_at_once_the_client_is_asked_as_a_whole() {
    let (_servers, session) = open(legacy(python(&[])), ELICITS).await;
    session.set_asker(Box::new(Accepts));
    let one = tokio::spawn(session.call(tool("elicit-together", Asking::Held)).answer);
    let two = tokio::spawn(session.call(tool("elicit-together", Asking::Held)).answer);
    assert!(returned(one.await.unwrap()).contains("accept"));
    assert!(returned(two.await.unwrap()).contains("accept"));
}

#[tokio::test]
async fn design_5_calls_of_callers_who_cannot_be_told_apart_take_turns_all() {
    let servers = servers(legacy(python(&[])));
    let key = BackKey { principal: Principal::anonymous(), ..key(ELICITS) };
    let session = servers.session(&key).await.unwrap();
    let (held, _) = begun(&session, "held").await;
    let mut other = session.call(tool("release", Asking::Held));
    tokio::select! {
        biased;
        _ = &mut other.answer => panic!("it was sent beside the first"),
        _ = session.request("announce", None).answer => {}
    }
    release(&session).await;
    held.await.unwrap();
    assert_eq!(returned(other.answer.await), "fine");
}

struct Accepts;

#[async_trait::async_trait]
impl Asker for Accepts {
    fn reaches(&self, _: &Question) -> bool {
        true
    }

    async fn ask(&self, _question: Question) -> Reply {
        Reply::Result(bytes::Bytes::from_static(b"{\"action\":\"accept\"}"))
    }
}

#[tokio::test]
async fn b_099_b_125_x_030_what_was_not_offered_is_refused_at_once() {
    let (_servers, session) = open(legacy(python(&[])), "{}").await;
    let said = returned(session.call(tool("elicit", Asking::Held)).answer.await);
    assert!(said.contains("-32601"), "{said}");
}

struct OneRoot;

#[async_trait::async_trait]
impl Asker for OneRoot {
    fn reaches(&self, _: &Question) -> bool {
        true
    }

    async fn ask(&self, _question: Question) -> Reply {
        Reply::Result(bytes::Bytes::from_static(b"{\"roots\":[{\"uri\":\"file:///w\"}]}"))
    }
}

async fn roots_heard(session: &taskgate_client::Session) -> serde_json::Value {
    let RawAnswer::Result(said) = session.request("announce", None).answer.await else { panic!("no result") };
    serde_json::from_slice::<serde_json::Value>(&said).unwrap()["roots"].clone()
}

#[tokio::test]
async fn requests_outside_of_calls_go_to_the_asker_even_if_it_comes_late() {
    let (_servers, session) = open(legacy(python(&["roots"])), "{\"roots\":{}}").await;
    tokio::task::yield_now().await;
    session.set_asker(Box::new(OneRoot));
    assert_eq!(roots_heard(&session).await["roots"][0]["uri"], "file:///w");
}

#[tokio::test]
async fn requests_outside_of_calls_are_refused_without_an_asker() {
    let (_servers, session) = open(legacy(python(&["roots"])), "{\"roots\":{}}").await;
    assert_eq!(roots_heard(&session).await["code"], -32601);
}

async fn attended(behaviour: &str) -> (Answer, Events) {
    let (_servers, session) = open(legacy(python(&["tasks", behaviour])), ELICITS).await;
    let answered = session.call(tool("may", Asking::Augmented)).answer.await;
    let Answer::Task(accepted) = answered else { panic!("{answered:?}") };
    let mut attending = session.attend(&accepted.upstream).unwrap();
    let result = tokio::spawn(attending.answer);
    if behaviour == "unnamed" {
        answer(&mut attending.events, "{\"action\":\"accept\"}").await;
    }
    (result.await.unwrap(), attending.events)
}

#[tokio::test]
async fn a_058_a_failed_task_whose_server_kept_no_result_fails_with_the_words_of_its_status() {
    let (answer, _) = attended("bare-failure").await;
    let Answer::Raised { code, error } = answer else { panic!("{answer:?}") };
    assert_eq!(code, -32603);
    assert!(String::from_utf8_lossy(&error).contains("not today"), "{error:?}");
    // One that did not fail is a result all the same, and gets what every tool result has.
    let (answer, _) = attended("bare-result").await;
    let Answer::Returned { result, is_error: false } = answer else { panic!("{answer:?}") };
    let result: serde_json::Value = serde_json::from_slice(&result).unwrap();
    assert_eq!((&result["content"], &result["structuredContent"]["n"]), (&serde_json::json!([]), &1.into()));
}

#[tokio::test]
async fn a_066_a_question_that_names_no_task_is_that_of_the_only_one_that_is_watched() {
    let (answer, _) = attended("unnamed").await;
    assert!(returned(answer).contains("accept"));
}

#[tokio::test]
async fn x_026_a_task_is_followed_to_its_result_by_way_of_a_question() {
    let (_servers, session) = open(legacy(python(&["tasks"])), ELICITS).await;
    let answered = session.call(tool("may", Asking::Augmented)).answer.await;
    let Answer::Task(accepted) = answered else { panic!("{answered:?}") };
    assert_eq!(accepted.upstream, upstream("up:1"));
    assert!(matches!(accepted.look.stand, Stand::Working));
    assert_eq!(accepted.look.poll.unwrap().0, 40);
    let look = session.look(&accepted.upstream).await.unwrap();
    assert_eq!(look.last_updated_at.as_deref(), Some("2026-01-01T00:00:00Z"));

    let mut attending = session.attend(&accepted.upstream).unwrap();
    let result = tokio::spawn(attending.answer);
    let Some(BackEvent::Progress(progress)) = attending.events.recv().await else { panic!("no progress") };
    assert!(!String::from_utf8_lossy(&progress).contains("up:1"), "X-010: the id stays here");
    assert!(matches!(attending.events.recv().await, Some(BackEvent::Nudge)));
    let asked = answer(&mut attending.events, "{\"action\":\"accept\"}").await;
    assert!(asked.contains("sure?") && !asked.contains("up:1"), "{asked}");
    let Answer::Returned { result, is_error } = result.await.unwrap() else { panic!("no result") };
    assert!(!is_error);
    let result = String::from_utf8(result.to_vec()).unwrap();
    // the reply named the task; A-062: the result's own metadata stays, the task's goes.
    assert!(result.contains("related-task") && result.contains("\"_meta\": { \"own\": 1}"), "{result}");
    let look = session.look(&accepted.upstream).await.unwrap();
    assert!(matches!(look.stand, Stand::Over));
    session.cancel(&accepted.upstream).await.unwrap();
    let error = session.look(&upstream("other")).await.unwrap_err();
    assert!(matches!(error, LookError::UnknownTask), "{error:?}");
    let error = session.result(&upstream("other")).await.unwrap_err();
    assert!(matches!(error, LookError::UnknownTask), "{error:?}");
}

#[tokio::test]
async fn the_tasks_of_a_process_die_with_it() {
    let (_servers, session) = open(legacy(python(&["tasks"])), ELICITS).await;
    let answered = session.call(tool("may", Asking::Augmented)).answer.await;
    let Answer::Task(accepted) = answered else { panic!("{answered:?}") };
    let answer = session.call(tool("crash", Asking::Held)).answer.await;
    assert!(matches!(answer, Answer::Lost(_)), "{answer:?}");
    // Not something to be tried again: nobody knows that task any more.
    let error = session.look(&accepted.upstream).await.unwrap_err();
    assert!(matches!(error, LookError::UnknownTask), "{error:?}");
    let error = session.result(&accepted.upstream).await.unwrap_err();
    assert!(matches!(error, LookError::UnknownTask), "{error:?}");
}

#[tokio::test]
async fn peers_row_5_a_server_that_does_not_hold_results_back_is_polled() {
    let (servers, session) = open(legacy(python(&["tasks", "no-hold"])), ELICITS).await;
    let Answer::Task(accepted) = session.call(tool("must", Asking::Augmented)).answer.await else {
        panic!("no task")
    };
    let watching = tokio::spawn(session.attend(&accepted.upstream).unwrap().answer);
    let error = session.result(&accepted.upstream).await.unwrap_err();
    assert!(matches!(error, LookError::Transient(_)), "{error:?}");
    session.cancel(&accepted.upstream).await.unwrap();
    let look = session.look(&accepted.upstream).await.unwrap();
    assert!(matches!(look.stand, Stand::Cancelled));
    // What its server asks reaches the watch as long as there is a session.
    servers.shutdown().await;
    assert!(matches!(watching.await.unwrap(), Answer::Lost(_)));
}

#[tokio::test]
async fn a_060_a_failed_task_of_which_no_result_is_given_fails_too() {
    // pmcp says of a task that failed that it is not completed.
    let (_servers, session) = open(legacy(python(&["tasks", "hidden-failure"])), ELICITS).await;
    let Answer::Task(accepted) = session.call(tool("must", Asking::Augmented)).answer.await else {
        panic!("no task")
    };
    let answer = session.result(&accepted.upstream).await.unwrap();
    let Answer::Raised { code: -32603, error } = answer else { panic!("{answer:?}") };
    assert!(String::from_utf8_lossy(&error).contains("not today"), "{error:?}");
}

#[tokio::test]
async fn e_004_q_002_a_refused_form_is_repeated_in_the_other_once_and_remembered() {
    for behaviour in [&["tasks"][..], &["tasks", "refusal=-32600"], &["tasks", "text-refusal"]] {
        let (_servers, session) = open(legacy(python(behaviour)), "{}").await;
        for _ in 0..2 {
            let answered = session.call(tool("must", Asking::Held)).answer.await;
            assert!(matches!(answered, Answer::Task(_)), "{answered:?}");
        }
        let answered = session.call(tool("never", Asking::Augmented)).answer.await;
        assert_eq!(returned(answered), "plain");
    }
}

#[tokio::test]
async fn x_009_a_plain_result_to_an_augmented_call_is_a_result() {
    let (_servers, session) = open(legacy(python(&["tasks"])), "{}").await;
    assert_eq!(returned(session.call(tool("other", Asking::Augmented)).answer.await), "plain");
}

#[tokio::test]
async fn a_026_a_server_without_tasks_is_never_sent_one() {
    let (_servers, session) = open(legacy(python(&[])), "{}").await;
    let said = returned(session.call(tool("echo", Asking::Augmented)).answer.await);
    assert!(!said.contains("\"task\""), "{said}");
    // Whatever the tool says of itself.
    let refused = session.call(tool("must", Asking::Augmented)).answer.await;
    assert!(matches!(refused, Answer::Raised { code: -32601, .. }), "{refused:?}");
}

#[tokio::test]
async fn a_015_shutdown_ends_even_a_stubborn_process() {
    let mut config = legacy(python(&["stubborn"]));
    config.grace = Duration::from_millis(100);
    let (servers, session) = open(config, "{}").await;
    assert_eq!(servers.survival(&key("{}").server), Survival::DiedWithUs);
    let hanging = session.call(tool("hang", Asking::Held));
    let hanging = tokio::spawn(hanging.answer);
    session.call(tool("echo", Asking::Held)).answer.await;
    timeout(Duration::from_secs(20), servers.shutdown()).await.unwrap();
    let answer = hanging.await.unwrap();
    assert!(matches!(answer, Answer::Lost(_) | Answer::NeverSent(_)), "{answer:?}");
    servers.session(&key("{}")).await.unwrap_err();
}
