//! What a server announces to nobody in particular.

use bytes::Bytes;

/// One announcement.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Notice {
    /// `notifications/tools/list_changed`.
    ToolsChanged,
    /// `notifications/prompts/list_changed`.
    PromptsChanged,
    /// `notifications/resources/list_changed`.
    ResourcesChanged,
    /// `notifications/resources/updated`: its `params`.
    ResourceUpdated(Bytes),
    /// `notifications/message` that is tied to no call: its `params`.
    Log(Bytes),
    /// `notifications/elicitation/complete`: its `params`.
    ElicitationComplete(Bytes),
}
