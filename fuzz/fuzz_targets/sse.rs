//! Any bytes as an event stream: the same events however it is cut.

#![no_main]

use libfuzzer_sys::fuzz_target;
use taskgate_wire::sse::Decoder;

fuzz_target!(|data: &[u8]| {
    let Some((&size, stream)) = data.split_first() else { return };
    let read = |chunk: usize| {
        let mut decoder = Decoder::new(256);
        let mut events = Vec::new();
        let verdict = stream.chunks(chunk).try_for_each(|chunk| decoder.feed(chunk, &mut events));
        (events, verdict)
    };
    assert_eq!(read(usize::from(size).max(1)), read(usize::MAX));
});
