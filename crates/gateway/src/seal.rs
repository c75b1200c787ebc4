//! What clients carry for us, made so that they can neither read anything new into it nor change it (G-013, A-082).

use data_encoding::{BASE32HEX_NOPAD, BASE64URL_NOPAD};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use taskgate_core::time::UnixMillis;

/// Bytes of a store's name: two stores rarely meet in one client.
const TAG_BYTES: usize = 5;

/// Seals with the store's secret, so that every process on the store can open it.
#[derive(Clone)]
pub(crate) struct Sealer {
    secret: [u8; 32],
}

/// Something that is not ours, was changed, is someone else's, or is too old: all alike.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Broken;

impl Sealer {
    pub(crate) fn new(secret: [u8; 32]) -> Sealer {
        Sealer { secret }
    }

    /// Seals `payload` until `expires`. It opens only for the same `purpose` and `bound` parts.
    pub(crate) fn seal(&self, purpose: &str, bound: &[&[u8]], expires: UnixMillis, payload: &[u8]) -> String {
        let mut open = expires.0.to_be_bytes().to_vec();
        open.extend_from_slice(payload);
        let tag = self.mac(purpose, bound, &open).finalize().into_bytes();
        format!("{}.{}", BASE64URL_NOPAD.encode(&open), BASE64URL_NOPAD.encode(&tag))
    }

    /// The payload.
    pub(crate) fn open(
        &self,
        purpose: &str,
        bound: &[&[u8]],
        now: UnixMillis,
        sealed: &str,
    ) -> Result<Vec<u8>, Broken> {
        let (open, tag) = sealed.split_once('.').ok_or(Broken)?;
        let open = BASE64URL_NOPAD.decode(open.as_bytes()).map_err(|_| Broken)?;
        let tag = BASE64URL_NOPAD.decode(tag.as_bytes()).map_err(|_| Broken)?;
        self.mac(purpose, bound, &open).verify_slice(&tag).map_err(|_| Broken)?;
        let (expires, payload) = open.split_first_chunk::<8>().ok_or(Broken)?;
        if UnixMillis(i64::from_be_bytes(*expires)) <= now {
            return Err(Broken);
        }
        Ok(payload.to_vec())
    }

    /// A short name that every process on the store has, and no other: it opens nothing.
    pub(crate) fn tag(&self, purpose: &str) -> String {
        let tag = self.mac(purpose, &[], &[]).finalize().into_bytes();
        BASE32HEX_NOPAD.encode(&tag[..TAG_BYTES]).to_ascii_lowercase()
    }

    fn mac(&self, purpose: &str, bound: &[&[u8]], open: &[u8]) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.secret).expect("HMAC takes a key of any length");
        // Each part with its length before it, so that no two ways of cutting give the same bytes.
        for part in [purpose.as_bytes()].iter().chain(bound).chain(&[open]) {
            mac.update(&(part.len() as u64).to_be_bytes());
            mac.update(part);
        }
        mac
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: UnixMillis = UnixMillis(1_000);
    const LATER: UnixMillis = UnixMillis(2_000);

    #[test]
    fn g_013_it_opens_for_the_same_caller_and_request_only() {
        let sealer = Sealer::new([7; 32]);
        let sealed = sealer.seal("state", &[b"alice", b"tool"], LATER, b"t1");
        assert_eq!(sealer.open("state", &[b"alice", b"tool"], NOW, &sealed), Ok(b"t1".to_vec()));
        assert_eq!(sealer.open("state", &[b"bob", b"tool"], NOW, &sealed), Err(Broken));
        assert_eq!(sealer.open("state", &[b"alicet", b"ool"], NOW, &sealed), Err(Broken));
        assert_eq!(sealer.open("cursor", &[b"alice", b"tool"], NOW, &sealed), Err(Broken));
        assert_eq!(Sealer::new([8; 32]).open("state", &[b"alice", b"tool"], NOW, &sealed), Err(Broken));
    }

    #[test]
    fn g_013_it_expires() {
        let sealer = Sealer::new([7; 32]);
        let sealed = sealer.seal("state", &[], LATER, b"t1");
        assert_eq!(sealer.open("state", &[], UnixMillis(1_999), &sealed), Ok(b"t1".to_vec()));
        assert_eq!(sealer.open("state", &[], LATER, &sealed), Err(Broken));
    }

    #[test]
    fn b_126_no_byte_of_it_can_be_changed() {
        let sealer = Sealer::new([7; 32]);
        let sealed = sealer.seal("state", &[], LATER, b"t1");
        for at in 0..sealed.len() {
            let mut bytes = sealed.clone().into_bytes();
            bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(bytes).unwrap();
            assert_eq!(sealer.open("state", &[], NOW, &changed), Err(Broken), "byte {at}");
        }
        for text in ["", ".", "a.b", "AAAA.", &sealed[..sealed.len() - 1]] {
            assert_eq!(sealer.open("state", &[], NOW, text), Err(Broken), "{text}");
        }
    }
}
