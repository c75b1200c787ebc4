//! A tool of 150 s and a client that gives up after 60.

use serde_json::json;

use crate::home::{Home, Launch, mark};
use crate::host::Client;
use crate::pace::pace;

/// Against the bare server every call times out, and the model's repetition does the work once more.
pub(crate) fn gives_up(client: Client) -> String {
    let home = Home::new();
    let mark = mark();
    // Inspector's command line knows no other timeout than its SDK's.
    let seconds = if client == Client::Inspector { 150 } else { pace().tool().as_secs() };
    let args = json!({ "seconds": seconds, "order": mark }).to_string();
    let options = ["--tool", "charge", "--args", &args, "--turns", "2"];
    let report = home.host(client, &options, &home.server(Launch::Node)).report();
    assert_eq!(report.0["ok"], false, "{}", report.summary());
    assert_eq!(report.0["timeouts"], 2, "{}", report.summary());
    assert_eq!(home.times(&mark, "start"), 2, "it was charged as often as it was called");
    format!("{}, each given up; charged {} times", report.figures(), home.times(&mark, "start"))
}

/// With taskgate it ends with its result in at most four turns of the model.
pub(crate) fn ends(client: Client, launch: Launch) -> String {
    let home = Home::new();
    let mark = mark();
    let args = json!({ "seconds": pace().tool().as_secs(), "order": mark }).to_string();
    assert!(home.crowd().is_empty());
    let host = home.host(client, &["--tool", "charge", "--args", &args], &home.run(&[], launch));
    home.until(&mark, "start", 1);
    home.has_one_of_each();
    let report = host.report();
    let figures = report.ends(&format!("charged {mark}"), 4);
    assert_eq!((home.times(&mark, "start"), home.times(&mark, "end")), (1, 1));
    leaves_soon(&report.0);
    format!("{figures}; {}", home.empties())
}

/// A call that is made once more after its result was read is a new call, however soon it comes.
pub(crate) fn is_made_anew(client: Client, launch: Launch) -> String {
    const AGAIN: &str = "10";
    let home = Home::new();
    let mark = mark();
    let args = json!({ "seconds": 0, "order": mark }).to_string();
    let options = ["--tool", "charge", "--args", &args, "--again", AGAIN, "--turns", "20"];
    let report = home.host(client, &options, &home.run(&[], launch)).report();
    let figures = report.ends(&format!("charged {mark}"), 11);
    for turn in report.turns() {
        assert_eq!(turn["text"], format!("charged {mark}"), "{}", report.summary());
    }
    assert_eq!((home.times(&mark, "start"), home.times(&mark, "end")), (11, 11));
    format!("{figures}; {}", home.empties())
}

/// The SDKs wait two seconds before they kill a server that does not end with its stdin. On a machine that takes longer than
/// that to start one, it may take longer to end, too.
fn leaves_soon(report: &serde_json::Value) {
    if let Some(took) = report["closed_ms"].as_u64() {
        let may_take = report["opened_ms"].as_u64().unwrap_or_default().max(1_900);
        assert!(took < may_take, "leaving took {took} ms, and coming {}", report["opened_ms"]);
    }
}
