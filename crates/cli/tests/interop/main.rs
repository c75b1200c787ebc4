//! Every kind of client against every kind of server, with the gateway in between: real peers, real processes.
//!
//! `tests/peers` has the peers, and its README says what each gets wrong. A cell is one client driver run to its end;
//! the servers' own journals say how often each call arrived. The peers must be installed (`tests/peers/install`): a
//! cell whose peer is missing fails.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test that meets what it does not expect fails"
)]

mod stage;

use stage::{Client, Scenario, Server, Via, stage};

/// All cells of one pair: a long tool to its end, an input round, a cancel, a tool error; over HTTP on both sides and
/// over stdio on both sides.
fn pair(client: Client, server: Server) {
    let mut wrong = Vec::new();
    for scenario in [Scenario::Run, Scenario::Input, Scenario::Cancel, Scenario::Error] {
        for via in vias(client, scenario) {
            if let Err(why) = stage().play(client, server, scenario, *via) {
                wrong.push(format!("{client:?} x {server:?}, {scenario:?}, {via:?}: {why}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn vias(client: Client, scenario: Scenario) -> &'static [Via] {
    match (client, scenario) {
        // Inspector never tells the id of its task, so another client starts what it cancels; that needs a gateway
        // which both reach, and over stdio each has its own.
        (Client::InspectorA | Client::InspectorB, Scenario::Cancel) => &[Via::Http, Via::HttpToStdio],
        (
            Client::InspectorA | Client::InspectorB | Client::PythonA | Client::PlainTs | Client::FastmcpB,
            _,
        ) => &[Via::Http, Via::Stdio],
    }
}

macro_rules! pairs {
    ($($name:ident: $client:ident, $server:ident;)*) => {
        $(#[test]
        fn $name() {
            pair(Client::$client, Server::$server);
        })*
    };
}

pairs! {
    python_a_client_with_everything_server: PythonA, Everything;
    python_a_client_with_python_a_server: PythonA, PythonA;
    python_a_client_with_fastmcp_b_server: PythonA, FastmcpB;
    python_a_client_with_python_plain_server: PythonA, PythonPlain;
    inspector_a_client_with_everything_server: InspectorA, Everything;
    inspector_a_client_with_python_a_server: InspectorA, PythonA;
    inspector_a_client_with_fastmcp_b_server: InspectorA, FastmcpB;
    inspector_a_client_with_python_plain_server: InspectorA, PythonPlain;
    inspector_b_client_with_everything_server: InspectorB, Everything;
    inspector_b_client_with_python_a_server: InspectorB, PythonA;
    inspector_b_client_with_fastmcp_b_server: InspectorB, FastmcpB;
    inspector_b_client_with_python_plain_server: InspectorB, PythonPlain;
    plain_ts_client_with_everything_server: PlainTs, Everything;
    plain_ts_client_with_python_a_server: PlainTs, PythonA;
    plain_ts_client_with_fastmcp_b_server: PlainTs, FastmcpB;
    plain_ts_client_with_python_plain_server: PlainTs, PythonPlain;
    fastmcp_b_client_with_everything_server: FastmcpB, Everything;
    fastmcp_b_client_with_python_a_server: FastmcpB, PythonA;
    fastmcp_b_client_with_fastmcp_b_server: FastmcpB, FastmcpB;
}
