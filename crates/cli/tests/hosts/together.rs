//! Two hosts of different kinds at once.

use serde_json::json;

use crate::home::{Home, Launch, mark};
use crate::host::Client;
use crate::pace::pace;

/// Each makes a call of its own; one server process serves both.
pub(crate) fn two_calls(one: Client, other: Client, launch: Launch) -> String {
    let home = Home::new();
    let marks = [mark(), mark()];
    let server = home.run(&[], launch);
    let hosts: Vec<_> = [one, other]
        .into_iter()
        .zip(&marks)
        .map(|(client, mark)| {
            let args = json!({ "seconds": pace().tool().as_secs(), "order": mark }).to_string();
            home.host(client, &["--tool", "charge", "--args", &args], &server)
        })
        .collect();
    for mark in &marks {
        home.until(mark, "start", 1);
    }
    home.has_one_of_each();
    let mut figures = Vec::new();
    for (host, mark) in hosts.into_iter().zip(&marks) {
        figures.push(host.report().ends(&format!("charged {mark}"), 4));
        assert_eq!((home.times(mark, "start"), home.times(mark, "end")), (1, 1));
    }
    format!("{}; {}", figures.join(", "), home.empties())
}

/// Both make the same call: it happens once, and both get its result.
pub(crate) fn one_call(one: Client, other: Client, launch: Launch) -> String {
    let home = Home::new();
    let mark = mark();
    let args = json!({ "seconds": pace().tool().as_secs(), "order": mark }).to_string();
    let server = home.run(&[], launch);
    let hosts = [one, other].map(|client| home.host(client, &["--tool", "charge", "--args", &args], &server));
    home.until(&mark, "start", 1);
    let figures = hosts.map(|host| host.report().ends(&format!("charged {mark}"), 4));
    assert_eq!((home.times(&mark, "start"), home.times(&mark, "end")), (1, 1));
    format!("{}; {}", figures.join(", "), home.empties())
}
