//! Who answers what a server asks outside of any call.

use async_trait::async_trait;
use taskgate_core::task::Question;
use taskgate_engine::back::Reply;

/// Answers a server's requests that belong to no call: `roots/list` after the handshake, or whatever comes on the
/// stream that hangs on no request. Without one, such requests are refused by `-32601` after a moment.
#[async_trait]
pub trait Asker: Send + Sync + 'static {
    /// Whether somebody can be asked this now who is no caller.
    fn reaches(&self, question: &Question) -> bool;

    /// Answers one. Its kind is one that the session offers.
    async fn ask(&self, question: Question) -> Reply;
}
