//! Deaths in the middle of a long call: the host's, and the keeper's.

use std::thread;

use serde_json::json;
use tokio::time::Instant;

use crate::crowd::Crowd;
use crate::home::{Home, Launch, PATIENCE, mark, until};
use crate::host::Client;
use crate::pace::pace;

/// Words of the outcome that nobody knows.
const UNKNOWN: &str = "outcome is unknown";

/// Its model repeats the call: it joins the one that goes on, and four turns are enough for both lives.
pub(crate) fn host_repeats(client: Client, launch: Launch) -> String {
    let home = Home::new();
    let mark = mark();
    let args = json!({ "seconds": pace().tool().as_secs(), "order": mark }).to_string();
    let call = ["--tool", "charge", "--args", &args];
    let server = home.run(&[], launch);
    let die = at(2, 20);
    let dead = home.host(client, &[&call[..], &["--die", &die]].concat(), &server).dies();
    only_the_host_is_gone(&home);
    let report = home.host(client, &call, &server).report();
    let figures = report.ends(&format!("charged {mark}"), 4 - dead);
    assert!(report.last_words().contains("nothing was started a second time") || report.turns().len() > 1);
    assert_eq!((home.times(&mark, "start"), home.times(&mark, "end")), (1, 1));
    format!("killed in turn {dead}, then {figures}; {}", home.empties())
}

/// It comes back when the call is over: it is told of the result, and its model fetches it.
pub(crate) fn host_comes_back(client: Client, launch: Launch) -> String {
    let home = Home::new();
    let mark = mark();
    let args = json!({ "seconds": pace().tool().as_secs(), "order": mark }).to_string();
    let call = ["--tool", "charge", "--args", &args];
    let server = home.run(&[], launch);
    let die = at(1, 30);
    let dead = home.host(client, &[&call[..], &["--die", &die]].concat(), &server).dies();
    only_the_host_is_gone(&home);
    home.until(&mark, "end", 1);
    let report = home.host(client, &[&call[..], &["--begin", "list"]].concat(), &server).report();
    let instructions = report.0["instructions"].as_str().unwrap_or_default();
    assert!(instructions.contains("{\"action\":\"list\"}"), "{instructions:?}");
    let figures = report.ends(&format!("charged {mark}"), 4 - dead);
    assert_eq!((home.times(&mark, "start"), home.times(&mark, "end")), (1, 1));
    // Once it was fetched, nobody is told of it again.
    let report = home.host(client, &[], &server).report();
    let instructions = report.0["instructions"].as_str().unwrap_or_default();
    assert!(!instructions.contains("{\"action\":\"list\"}"), "{instructions:?}");
    format!("killed in turn {dead}, then {figures}; {}", home.empties())
}

/// It comes back at once, and its model begins with the list. Its turns are counted from there: what the dead one saw
/// is lost to it.
pub(crate) fn host_lists(client: Client, launch: Launch) -> String {
    let home = Home::new();
    let mark = mark();
    let args = json!({ "seconds": pace().tool().as_secs(), "order": mark }).to_string();
    let call = ["--tool", "charge", "--args", &args];
    let server = home.run(&[], launch);
    let die = at(1, 30);
    let dead = home.host(client, &[&call[..], &["--die", &die]].concat(), &server).dies();
    only_the_host_is_gone(&home);
    let report = home.host(client, &[&call[..], &["--begin", "list"]].concat(), &server).report();
    let instructions = report.0["instructions"].as_str().unwrap_or_default();
    assert!(instructions.contains("{\"action\":\"list\"}"), "{instructions:?}");
    let figures = report.ends(&format!("charged {mark}"), 4);
    assert_eq!((home.times(&mark, "start"), home.times(&mark, "end")), (1, 1));
    format!("killed in turn {dead}, then {figures}; {}", home.empties())
}

/// The keeper is killed while a read-only call is waited for: the call is made again, and the host notices nothing
/// but time.
pub(crate) fn keeper_rereads(client: Client, launch: Launch) -> String {
    let home = Home::new();
    let mark = mark();
    let args = json!({ "seconds": pace().tool().as_secs(), "label": mark }).to_string();
    let call = ["--tool", "slow_report", "--args", &args];
    let mut host = home.host(client, &call, &home.run(&["--trust-annotations"], launch));
    host.until_turn(1);
    let begun = Instant::now();
    home.until(&mark, "start", 1);
    // Late enough that an answer after its whole time, counted from here, would come too late for the client.
    thread::sleep(pace().seconds(20));
    let before = kill_the_keeper(&home);
    home.until(&mark, "start", 2);
    let needs = pace().turns(begun.elapsed() + pace().tool());
    until("a new keeper and a new server", PATIENCE, || {
        let crowd = home.crowd();
        let (keepers, servers) = (crowd.keepers(), crowd.servers());
        let is_new = keepers.len() == 1 && servers.len() == 1 && keepers[0].pid != before;
        is_new.then_some(())
    });
    home.has_one_of_each();
    // Four, unless processes are slow to start. Played in short, that takes as much of a turn as in real time would be half
    // a minute.
    let most = if pace().is_real() { needs.max(4) } else { needs.max(6) };
    let figures = host.report().ends(&format!("report {mark} ready"), most);
    assert_eq!((home.times(&mark, "start"), home.times(&mark, "end")), (2, 1));
    format!("{figures}; {}", home.empties())
}

/// The keeper is killed while a call that may not happen twice is waited for: the model is told that nobody knows what
/// became of it, and its repetition is told the same. The call is not made again.
pub(crate) fn keeper_charges_once(client: Client, launch: Launch, turn: usize) -> String {
    let home = Home::new();
    let mark = mark();
    let args = json!({ "seconds": pace().tool().as_secs(), "order": mark }).to_string();
    let call = ["--tool", "charge", "--args", &args, "--again", "1"];
    let mut host = home.host(client, &call, &home.run(&[], launch));
    host.until_turn(1);
    home.until(&mark, "start", 1);
    host.until_turn(turn);
    thread::sleep(pace().seconds(if turn == 1 { 25 } else { 10 }));
    kill_the_keeper(&home);
    let report = host.report();
    report.is_patient();
    let told: Vec<_> = report.turns().iter().map(|turn| [&turn["text"], &turn["error"]]).collect();
    let says = |at: usize| told[at].iter().any(|said| said.as_str().unwrap_or_default().contains(UNKNOWN));
    assert_eq!(told.len(), turn + 1, "{}", report.summary());
    assert!(says(turn - 1) && says(turn), "{}", report.summary());
    assert_eq!((home.times(&mark, "start"), home.times(&mark, "end")), (1, 0));
    format!("{}, twice told: {:?}; {}", report.figures(), report.last_words(), home.empties())
}

/// `N:S` of a host's `--die`.
fn at(turn: usize, seconds: u32) -> String {
    format!("{turn}:{}", pace().seconds(seconds).as_secs_f64())
}

fn only_the_host_is_gone(home: &Home) -> Crowd {
    until("the pipe goes with its host", PATIENCE, || home.crowd().pipes().is_empty().then_some(()));
    home.has_one_of_each()
}

/// The id of the one that was.
fn kill_the_keeper(home: &Home) -> i32 {
    let crowd = home.has_one_of_each();
    let keeper = crowd.keepers()[0].clone();
    keeper.kill();
    keeper.pid
}
