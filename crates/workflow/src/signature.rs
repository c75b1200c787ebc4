//! Signatures of receipts.

use data_encoding::{BASE64, BASE64_NOPAD, BASE64URL, BASE64URL_NOPAD, HEXLOWER_PERMISSIVE};
use hmac::{Hmac, KeyInit, Mac};
use ring::signature::{ED25519, UnparsedPublicKey};
use sha2::Sha256;

use crate::expression::Expression;
use crate::facts::Table;
use crate::rule::{Hidden, RuleError};

/// Bytes of an Ed25519 public key.
pub const ED25519_KEY_BYTES: usize = 32;

/// What a receipt's signature is checked with.
#[derive(Debug)]
pub struct Signature {
    /// How, and with which key.
    pub scheme: Scheme,
    /// The text that was signed.
    pub over: Expression,
    /// The signature, in hexadecimal or base64.
    pub given: Expression,
}

/// How receipts are signed.
#[derive(Clone, Debug)]
pub enum Scheme {
    /// HMAC with SHA-256 and a secret that both sides hold.
    HmacSha256(Hidden),
    /// Ed25519; only the signer can make one.
    Ed25519([u8; ED25519_KEY_BYTES]),
}

impl Scheme {
    /// Reads an Ed25519 public key: 32 bytes in hexadecimal or base64.
    #[must_use]
    pub fn ed25519(text: &str) -> Option<Scheme> {
        decode(text)?.try_into().ok().map(Scheme::Ed25519)
    }
}

/// Reads hexadecimal or base64, in either alphabet, padded or not.
fn decode(text: &str) -> Option<Vec<u8>> {
    let text = text.trim();
    let bytes = text.as_bytes();
    // 64 hexadecimal digits are also base64, and never meant to be.
    if text.len().is_multiple_of(2)
        && let Ok(decoded) = HEXLOWER_PERMISSIVE.decode(bytes)
    {
        return Some(decoded);
    }
    [BASE64, BASE64_NOPAD, BASE64URL, BASE64URL_NOPAD].iter().find_map(|encoding| encoding.decode(bytes).ok())
}

impl Signature {
    /// Whether the signature that was given fits the text.
    ///
    /// # Errors
    /// [`RuleError`] if either cannot be computed.
    pub(crate) fn verify(&self, table: &Table<'_>) -> Result<bool, RuleError> {
        let over = table.text(&self.over).map_err(RuleError::of("receipt.signature.over"))?;
        let given = table.text(&self.given).map_err(RuleError::of("receipt.signature.given"))?;
        let Some(given) = decode(&given) else { return Ok(false) };
        Ok(match &self.scheme {
            Scheme::HmacSha256(secret) => match Hmac::<Sha256>::new_from_slice(secret.expose().as_bytes()) {
                Ok(mut mac) => {
                    mac.update(over.as_bytes());
                    mac.verify_slice(&given).is_ok()
                }
                Err(_) => false,
            },
            Scheme::Ed25519(key) => {
                UnparsedPublicKey::new(&ED25519, key).verify(over.as_bytes(), &given).is_ok()
            }
        })
    }
}
