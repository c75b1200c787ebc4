//! Batches of 2025-03-26: what both transports have in common (D-005).

use bytes::Bytes;
use taskgate_wire::rpc_error::RpcError;

/// Messages in one batch; 2025-03-26 sets no bound, so we do.
pub(crate) const BATCH_MAX: u8 = 100;

/// The answers to a batch in one array, each as it is; `None` if there is none, and then nothing is said.
pub(crate) fn gathered(answers: &[Bytes]) -> Option<Bytes> {
    if answers.is_empty() {
        return None;
    }
    let mut array = vec![b'['];
    for (at, answer) in answers.iter().enumerate() {
        if at > 0 {
            array.push(b',');
        }
        array.extend_from_slice(answer);
    }
    array.push(b']');
    Some(Bytes::from(array))
}

/// 2025-03-26, Lifecycle, Initialization: nothing else can be said before it was answered.
pub(crate) fn no_initialize() -> RpcError {
    RpcError::invalid_request("initialize cannot be part of a batch")
}

pub(crate) fn too_long() -> RpcError {
    RpcError::invalid_request(format!("A batch has at most {BATCH_MAX} messages"))
}
