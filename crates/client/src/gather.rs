//! The replies to a batch of a server's requests, sent together (D-005).

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

type Sending = Box<dyn FnOnce(Bytes) + Send>;

/// Collects replies until everybody who may give one has done so, or has gone without.
pub(crate) struct Gathering {
    replies: Mutex<Vec<Bytes>>,
    send: Mutex<Option<Sending>>,
}

impl Gathering {
    /// `send` is given the replies as one JSON array, once the last slot is used or dropped; it is not called if there
    /// are none.
    pub(crate) fn new(send: impl FnOnce(Bytes) + Send + 'static) -> Arc<Gathering> {
        Arc::new(Gathering { replies: Mutex::new(Vec::new()), send: Mutex::new(Some(Box::new(send))) })
    }

    /// Where the reply to one request goes.
    pub(crate) fn slot(self: &Arc<Self>) -> impl FnOnce(Bytes) + Send + 'static {
        let gathering = self.clone();
        move |reply| gathering.replies.lock().push(reply)
    }
}

impl Drop for Gathering {
    fn drop(&mut self) {
        let replies = std::mem::take(self.replies.get_mut());
        let Some(send) = self.send.get_mut().take().filter(|_| !replies.is_empty()) else { return };
        let mut array = vec![b'['];
        for (at, reply) in replies.iter().enumerate() {
            if at > 0 {
                array.push(b',');
            }
            array.extend_from_slice(reply);
        }
        array.push(b']');
        send(Bytes::from(array));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d_005_replies_to_a_batch_are_sent_together_when_the_last_is_there_or_given_up() {
        let sent = Arc::new(Mutex::new(Vec::new()));
        let log = sent.clone();
        let gathering = Gathering::new(move |array| log.lock().push(array));
        let (first, second, third) = (gathering.slot(), gathering.slot(), gathering.slot());
        drop(gathering);
        third(Bytes::from_static(b"3"));
        drop(second);
        assert!(sent.lock().is_empty());
        first(Bytes::from_static(b"1"));
        assert_eq!(*sent.lock(), [Bytes::from_static(b"[3,1]")]);

        let log = sent.clone();
        drop(Gathering::new(move |array| log.lock().push(array)).slot());
        assert_eq!(sent.lock().len(), 1, "nobody replied, so nothing is said");
    }
}
