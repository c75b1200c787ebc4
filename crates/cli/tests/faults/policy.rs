//! What the gateway is told of each tool that pays.

use std::net::SocketAddr;

use crate::dice::Dice;

/// How long after the end of an attempt its request may still come to the bank: longer than any part is stopped for, and
/// than the bank is ever late.
const SETTLE: &str = "settle = \"3s\"\n";

/// The workflow of a tool at one server, as the configuration has it; none for a tool that has no policy.
pub(crate) fn workflow(server: &str, tool: &str, bank: SocketAddr) -> String {
    let asks = |how: &str| {
        format!(
            "probe.{how}\nprobe.applied_when = \"data.applied == true\"\n\
             probe.not_applied_when = \"data.applied == false\"\nprobe.first = \"100ms\"\n\
             probe.every = \"1s\"\nprobe.budget_attempts = 8\nprobe.budget_time = \"10s\"\n"
        )
    };
    let by_tool = asks("tool = \"payment_status\"\nprobe.arguments = { key = \"args.key\" }");
    let rules = match tool {
        "pay_keyed" => {
            "replay = \"keyed\"\nreplay_window = \"1h\"\nidempotency.mode = \"required\"\n".to_owned()
        }
        // The bank's receipts begin so; what a server merely claims does not.
        "pay_receipt" => "receipt.when = \"data.paid == true && data.receipt.startsWith('r-' + args.key)\"\n\
             receipt.reference = \"data.receipt\"\nreceipt.issued_by = \"server\"\n"
            .to_owned(),
        "pay_probe" => by_tool,
        "pay_get" => format!("{SETTLE}{}", asks(&format!("get = \"http://{bank}/effects/{{args.key}}\""))),
        "pay_settle" => format!("{SETTLE}{by_tool}"),
        "pay_fence" => format!(
            "{by_tool}fence.tool = \"fence_payment\"\nfence.arguments = {{ key = \"args.key\" }}\n\
             fence.fenced_when = \"data.fenced == true\"\n"
        ),
        "pay_person" => "owners = [\"treasury\"]\n".to_owned(),
        _ => return String::new(),
    };
    format!("[workflows.{server}-{tool}]\nserver = \"{server}\"\ntools = [\"{tool}\"]\n{rules}")
}

/// The tool of a call, and with it the policy: most calls have none.
pub(crate) fn pick(keyed: bool, dice: &mut Dice) -> &'static str {
    match dice.below(12) {
        0..3 if keyed => "pay_keyed",
        3..5 => dice.pick(&["pay_receipt", "pay_probe", "pay_get", "pay_settle", "pay_fence", "pay_person"]),
        _ => "pay",
    }
}

/// The states of the ledger that a campaign must reach.
pub(crate) const STATES: [&str; 9] = [
    "Reported(Applied)",
    "Reported(NotApplied)",
    "Unknown(AnswerLost)",
    "Unknown(ToolError)",
    "Unknown(PeerError)",
    "Unknown(UpstreamLost)",
    "Confirmed(Applied)",
    "Confirmed(NotApplied)",
    "Assumed",
];
