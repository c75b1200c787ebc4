//! `keeper status`.

use serde::Serialize;
use taskgate_core::time::UnixMillis;
use taskgate_engine::clock::{Clock, SystemClock};
use taskgate_keeper::control::{self, Ask, Status};
use taskgate_keeper::hello::Kind;
use taskgate_keeper::reach::{Surroundings, Unreached};
use taskgate_wire::text::SafeText;

use super::{refused, unreached};
use crate::failure::Failure;
use crate::ui::{Tone, Ui};

/// What programs read. Members may be added.
#[derive(Serialize)]
struct Report {
    running: bool,
    #[serde(flatten)]
    status: Option<Status>,
}

pub(super) fn main(surroundings: &Surroundings, json: bool, ui: Ui) -> Result<(), Failure> {
    let status = match surroundings.find(Kind::Control) {
        Ok(mut reached) => Some(control::ask::<Status>(&mut reached.stream, &Ask::Status).map_err(refused)?),
        Err(Unreached::NotRunning) => None,
        Err(error) => return Err(unreached(error)),
    };
    if json {
        ui.json(&Report { running: status.is_some(), status });
        return Ok(());
    }
    match status {
        None => ui.out("no keeper is running; the first `taskgate run` starts it"),
        Some(status) => show(&status, ui),
    }
    Ok(())
}

fn show(status: &Status, ui: Ui) {
    let now = SystemClock.now();
    let draining = if status.draining { ", giving way to a newer version" } else { "" };
    ui.out(&format!(
        "{} process {}, version {}, for {}{draining}",
        ui.tone(Tone::Good, "running:"),
        status.pid,
        status.version,
        ago(now, status.since_ms)
    ));
    ui.out(&format!("folder:  {}", status.folder));
    if status.is_fallback {
        ui.out(
            "         the state folder cannot be written: tasks are kept here, and perhaps survive no reboot",
        );
    }
    ui.out(&format!("calls:   {} under way or waiting for their turn", status.live));
    if status.parked > 0 {
        ui.out(&format!("         {} wait until a host starts their server again", status.parked));
    }
    if !status.servers.is_empty() {
        ui.out("servers:");
    }
    for server in &status.servers {
        let process = match (server.pid, server.since_ms) {
            (Some(pid), Some(since)) => format!("process {pid} for {}", ago(now, since)),
            (Some(pid), None) => format!("process {pid}"),
            (None, Some(since)) => format!("connected for {}", ago(now, since)),
            (None, None) => "not started".to_owned(),
        };
        let name = server.name.as_deref().map(|name| format!(" ({})", SafeText::new(name, 60).as_str()));
        ui.out(&format!(
            "  {}{}  {process}, {} hosts, {} calls",
            ui.tone(Tone::Strong, &server.server),
            name.unwrap_or_default(),
            server.hosts,
            server.calls
        ));
    }
    if !status.hosts.is_empty() {
        ui.out("hosts:");
    }
    for host in &status.hosts {
        let client = host.client.as_deref().map_or("a host that did not say who it is", |client| client);
        ui.out(&format!(
            "  {} (process {}) at {} for {}",
            SafeText::new(client, 60).as_str(),
            host.pid,
            host.server,
            ago(now, host.since_ms)
        ));
    }
}

/// A span of time as people say it, in its largest unit.
pub(crate) fn ago(now: UnixMillis, then: i64) -> String {
    let seconds = (now.0 - then).max(0) / 1_000;
    match seconds {
        0..=119 => format!("{seconds} s"),
        120..=7_199 => format!("{} min", seconds / 60),
        7_200..=172_799 => format!("{} h", seconds / 3_600),
        _ => format!("{} days", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_in_their_largest_unit() {
        let told = |seconds: i64| ago(UnixMillis(seconds * 1_000), 0);
        assert_eq!(told(5), "5 s");
        assert_eq!(told(150), "2 min");
        assert_eq!(told(7_200), "2 h");
        assert_eq!(told(200_000), "2 days");
        assert_eq!(ago(UnixMillis(0), 5_000), "0 s");
    }
}
