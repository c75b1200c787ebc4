//! What the gateway is told of each tool that pays.

use std::net::SocketAddr;

use crate::dice::Dice;

/// How long after the end of an attempt its request may still come to the bank: longer than any part is stopped for, and
/// than the bank is ever late.
const SETTLE: &str = "settle = \"3s\"\n";

/// Where the gateway finds the bank itself, and those who are told that a person is to decide.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Places {
    pub(crate) books: SocketAddr,
    pub(crate) hook: SocketAddr,
}

/// How the bank is asked, and how often it may be.
fn asks(how: &str, attempts: u32) -> String {
    format!(
        "probe.{how}\nprobe.applied_when = \"data.applied == true\"\n\
         probe.not_applied_when = \"data.applied == false\"\nprobe.first = \"50ms\"\n\
         probe.every = \"1s\"\nprobe.budget_attempts = {attempts}\nprobe.budget_time = \"10s\"\n"
    )
}

/// The workflow of a tool at one server, as the configuration has it; none for a tool that has no policy.
pub(crate) fn workflow(server: &str, tool: &str, places: Places) -> String {
    let Places { books, hook } = places;
    let by_tool = "tool = \"payment_status\"\nprobe.arguments = { key = \"args.key\" }";
    let rules = match tool {
        "pay_keyed" => {
            "replay = \"keyed\"\nreplay_window = \"1h\"\nidempotency.mode = \"required\"\n".to_owned()
        }
        // The bank's receipts begin so; what a server merely claims does not.
        "pay_receipt" => "receipt.when = \"data.paid == true && data.receipt.startsWith('r-' + args.key)\"\n\
             receipt.reference = \"data.receipt\"\nreceipt.issued_by = \"server\"\n"
            .to_owned(),
        "pay_probe" => asks(by_tool, 4),
        "pay_get" => {
            let got = format!("get = \"http://{books}/effects/{{args.key}}\"");
            format!("{SETTLE}{}", asks(&got, 8))
        }
        "pay_settle" => format!("{SETTLE}{}", asks(by_tool, 8)),
        "pay_fence" => format!(
            "{}fence.tool = \"fence_payment\"\nfence.arguments = {{ key = \"args.key\" }}\n\
             fence.fenced_when = \"data.fenced == true\"\n",
            asks(by_tool, 6)
        ),
        "pay_person" => {
            format!(
                "owners = [\"treasury\"]\nobject = \"args.object\"\nwebhook.url = \"http://{hook}/notices\"\n"
            )
        }
        // It asks once, so that all that is not clear at once is for a person, who can have it asked again.
        "pay_hand" => format!("settle = \"500ms\"\n{}", asks(by_tool, 1)),
        _ => return String::new(),
    };
    format!("[workflows.{server}-{tool}]\nserver = \"{server}\"\ntools = [\"{tool}\"]\n{rules}")
}

/// The tool of a call, and with it the policy: most calls have none.
pub(crate) fn pick(keyed: bool, dice: &mut Dice) -> &'static str {
    match dice.below(12) {
        0..3 if keyed => "pay_keyed",
        3..6 => dice.pick(&[
            "pay_receipt",
            "pay_probe",
            "pay_get",
            "pay_settle",
            "pay_fence",
            "pay_person",
            "pay_hand",
        ]),
        _ => "pay",
    }
}

/// The states of the ledger that a campaign must reach, in the words of `taskgate ops export`.
pub(crate) const STATES: [&str; 11] = [
    "reported: applied",
    "reported: not_applied",
    "unknown: answer_lost",
    "unknown: tool_error",
    "unknown: peer_error",
    "unknown: upstream_lost",
    "confirmed: applied",
    "confirmed: not_applied",
    "assumed: not_applied",
    "attested: applied",
    "attested: not_applied",
];
