//! Event streams.

use bytes::Bytes;
use proptest::prelude::*;
use taskgate_wire::sse::{self, Decoder, Event, TooLarge};

fn read(stream: &[u8], limit: usize, cuts: &[usize]) -> (Vec<Event>, Result<(), TooLarge>) {
    let mut decoder = Decoder::new(limit);
    let mut events = Vec::new();
    let mut verdict = Ok(());
    let mut from = 0;
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (stream.len() + 1)).collect();
    cuts.push(stream.len());
    cuts.sort_unstable();
    for cut in cuts {
        verdict = verdict.and(decoder.feed(&stream[from..cut], &mut events));
        from = cut;
    }
    (events, verdict)
}

fn event(id: Option<&str>, data: &'static str) -> Event {
    Event { id: id.map(String::from), data: Bytes::from_static(data.as_bytes()), ..Event::default() }
}

#[test]
fn a_128_all_line_ends_comments_and_priming_events_are_read() {
    for end in ["\n", "\r", "\r\n"] {
        let stream = [
            "\u{FEFF}: hello",
            "id: r9-0",
            "retry: 500",
            "data:",
            "",
            ":keep-alive",
            "",
            "id:r9-1",
            "event: message",
            "data: {\"a\":",
            "data:1}",
            "unknown: x",
            "",
            "data: cut off",
        ]
        .join(end);
        let (events, verdict) = read(stream.as_bytes(), 1000, &[]);
        assert_eq!(verdict, Ok(()));
        let prime = Event { retry: Some(500), ..event(Some("r9-0"), "") };
        let whole = Event { event: Some("message".into()), ..event(Some("r9-1"), "{\"a\":\n1}") };
        assert_eq!(events, [prime, whole], "{end:?}");
    }
}

#[test]
fn an_event_over_the_limit_ends_the_reading() {
    let (events, verdict) = read(b"data: ok\n\ndata: 0123456789\n\ndata: ok\n\n", 12, &[]);
    assert_eq!(events, [event(None, "ok")]);
    assert_eq!(verdict, Err(TooLarge { limit: 12 }));
}

#[test]
fn what_is_written_is_read() {
    for written in
        [event(None, "{}"), event(Some("7"), ""), Event { retry: Some(9), ..event(Some("a"), "x\ny") }]
    {
        let (read, verdict) = read(&sse::encode(&written), 1000, &[]);
        assert_eq!((read, verdict), (vec![written], Ok(())));
    }
    assert_eq!(&sse::encode_message(Some("1"), &Bytes::from_static(b"{}"))[..], b"id: 1\ndata: {}\n\n");
    assert_eq!(read(sse::KEEP_ALIVE, 10, &[]).0, []);
}

#[test]
fn an_id_cannot_smuggle_a_line_in() {
    let written = Event { id: Some("1\ndata: evil".into()), ..event(None, "good") };
    let (read, _) = read(&sse::encode(&written), 1000, &[]);
    assert_eq!(read[0].data, "good");
}

proptest! {
    #[test]
    fn any_chunking_gives_the_same_events(
        stream in "(data|id|event|retry|:|x|\u{FEFF}|: ?|[0-9a]{1,5}|\n|\r|\r\n|\n\n){0,60}",
        cuts in prop::collection::vec(any::<usize>(), 0..8),
        limit in 1_usize..80,
    ) {
        prop_assert_eq!(read(stream.as_bytes(), limit, &cuts), read(stream.as_bytes(), limit, &[]));
    }

    #[test]
    fn arbitrary_bytes_never_break_the_decoder(stream: Vec<u8>, cuts in prop::collection::vec(any::<usize>(), 0..4)) {
        prop_assert_eq!(read(&stream, 50, &cuts), read(&stream, 50, &[]));
    }
}
