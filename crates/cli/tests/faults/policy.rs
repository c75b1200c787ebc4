//! What the gateway is told of each tool that pays.

/// The lines of the configuration for a tool, in the table `[servers.NAME.tools]`.
pub(crate) fn lines(tool: &str) -> String {
    match tool {
        "pay_keyed" => format!("{tool}.replay = \"keyed\"\n{tool}.replay_window = \"1h\"\n"),
        _ => String::new(),
    }
}

/// The states of the ledger that a campaign must reach.
pub(crate) const STATES: [&str; 6] = [
    "Reported(Applied)",
    "Reported(NotApplied)",
    "Unknown(AnswerLost)",
    "Unknown(ToolError)",
    "Unknown(PeerError)",
    "Unknown(UpstreamLost)",
];
