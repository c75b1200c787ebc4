//! The ids of events on resumable streams.
//!
//! An id says everything that is needed to take the stream up again, so nothing has to be kept for replay, and a
//! stream can be resumed after our own restart as well (A-128, A-132).

use data_encoding::BASE64URL_NOPAD;
use taskgate_core::id::TaskId;
use taskgate_core::time::UnixMillis;
use taskgate_wire::id::RequestId;

/// What a resumable stream answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Answers {
    /// A `tools/call` without augmentation.
    Call,
    /// A `tasks/result`.
    Result,
}

/// The place of an event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct EventId {
    pub(crate) answers: Answers,
    /// The request that the stream answers; never used twice in a session (A-002), so ids are unique in one.
    pub(crate) request: RequestId,
    /// The task by which the answer is had.
    pub(crate) task: Option<TaskId>,
    /// Counts the events of the stream.
    pub(crate) count: u64,
    /// When the request came, whose client has been waiting since. Not in ids of earlier versions.
    pub(crate) since: Option<UnixMillis>,
}

impl EventId {
    pub(crate) fn template(answers: Answers, request: &RequestId, since: UnixMillis) -> EventId {
        EventId { answers, request: request.clone(), task: None, count: 0, since: Some(since) }
    }

    pub(crate) fn with_task(&self, task: &TaskId) -> EventId {
        EventId { task: Some(task.clone()), ..self.clone() }
    }

    /// The text of the next event's id.
    pub(crate) fn next(&mut self) -> String {
        self.count += 1;
        self.encode()
    }

    pub(crate) fn encode(&self) -> String {
        let kind = match self.answers {
            Answers::Call => 'c',
            Answers::Result => 'r',
        };
        let task = self.task.as_ref().map(TaskId::expose).unwrap_or_default();
        let since = self.since.map(|since| format!("-{}", since.0)).unwrap_or_default();
        let text = format!("{kind}{}{since}.{task}.{}", self.count, self.request.as_json());
        BASE64URL_NOPAD.encode(text.as_bytes())
    }

    /// Reads a `Last-Event-ID`. `None` for anything that we never wrote.
    pub(crate) fn parse(text: &str) -> Option<EventId> {
        let text = String::from_utf8(BASE64URL_NOPAD.decode(text.trim().as_bytes()).ok()?).ok()?;
        let mut parts = text.splitn(3, '.');
        let head = parts.next()?;
        let task = parts.next()?;
        let request = RequestId::from_text(parts.next()?)?;
        let answers = match head.get(..1)? {
            "c" => Answers::Call,
            "r" => Answers::Result,
            _ => return None,
        };
        let (count, since) = match head.get(1..)?.split_once('-') {
            Some((count, since)) => (count, Some(UnixMillis(since.parse().ok()?))),
            None => (head.get(1..)?, None),
        };
        let count = count.parse().ok()?;
        Some(EventId { answers, request, task: Some(TaskId::parse(task).ok()?), count, since })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_132_an_id_leads_back_to_its_stream() {
        let task = TaskId::parse("t1").unwrap();
        for request in ["7", "\"a.b\"", "\"ä\\n\""] {
            let request = RequestId::from_text(request).unwrap();
            let mut id = EventId::template(Answers::Result, &request, UnixMillis(9)).with_task(&task);
            let first = id.next();
            let second = id.next();
            assert_ne!(first, second);
            assert_eq!(EventId::parse(&second), Some(id));
        }
    }

    #[test]
    fn a_132_an_id_of_an_earlier_version_leads_back_too() {
        let id = EventId::parse(&BASE64URL_NOPAD.encode(b"c3.t1.7")).unwrap();
        assert_eq!((id.answers, id.count, id.since), (Answers::Call, 3, None));
    }

    #[test]
    fn a_128_what_we_never_wrote_leads_nowhere() {
        for text in ["", "x", "e-17", &BASE64URL_NOPAD.encode(b"c1..7"), &BASE64URL_NOPAD.encode(b"z1.t.7")] {
            assert_eq!(EventId::parse(text), None, "{text}");
        }
    }
}
