//! The format of API keys: `fsk_<id>_<secret>`.
//!
//! The id finds the key, and the secret proves it. Only the SHA-256 of the secret is stored. The secret has 256 random bits, so
//! nobody can find it from its digest, and a slow hash would add nothing.

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use facescan_pipeline::core::image_file::hex;
use secrecy::SecretString;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// The first part of every key. Scanners for leaked secrets can search for it.
const PREFIX: &str = "fsk_";

/// The number of random bytes of an id.
const ID_BYTES: usize = 8;

/// The number of random bytes of a secret.
const SECRET_BYTES: usize = 32;

/// The length of the shortest secret that somebody else made. As hex digits, it has 128 bits.
const MIN_SECRET_LENGTH: usize = 32;

/// A new key.
pub struct NewSecret {
    /// The part that is not secret.
    pub id: String,
    /// The whole key, which is shown once.
    pub key: SecretString,
    /// The SHA-256 of the secret.
    pub digest: [u8; 32],
}

impl NewSecret {
    /// Creates a key.
    ///
    /// # Errors
    /// Returns an error if the operating system gives no random bytes.
    pub fn generate() -> Result<Self, getrandom::Error> {
        let (mut id, mut secret) = ([0; ID_BYTES], [0; SECRET_BYTES]);
        getrandom::fill(&mut id)?;
        getrandom::fill(&mut secret)?;
        Ok(Self::new(&hex(&id), &BASE64_URL_SAFE_NO_PAD.encode(secret)))
    }

    /// Takes a key that somebody else made. Returns `None` if the text has another format, or a secret that could be guessed.
    pub fn parse(text: &str) -> Option<Self> {
        let sent = SentKey::parse(text)?;
        let is_random = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        let is_safe = sent.secret.len() >= MIN_SECRET_LENGTH && sent.secret.bytes().all(is_random);
        is_safe.then(|| Self::new(sent.id, sent.secret))
    }

    fn new(id: &str, secret: &str) -> Self {
        Self {
            id: id.to_owned(),
            key: format!("{PREFIX}{id}_{secret}").into(),
            digest: Sha256::digest(secret).into(),
        }
    }
}

/// Returns whether a text can be the id of a key.
pub fn is_id(text: &str) -> bool {
    let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    text.len() == 2 * ID_BYTES && text.bytes().all(is_hex)
}

/// A key that a caller sent.
pub struct SentKey<'a> {
    /// The id.
    pub id: &'a str,
    secret: &'a str,
}

impl<'a> SentKey<'a> {
    /// Reads a key. Returns `None` if the text has another format.
    pub fn parse(text: &'a str) -> Option<Self> {
        let (id, secret) = text.strip_prefix(PREFIX)?.split_once('_')?;
        (is_id(id) && !secret.is_empty()).then_some(Self { id, secret })
    }

    /// Returns whether the secret has this digest. The time does not depend on where two digests differ.
    pub fn has_digest(&self, digest: &[u8; 32]) -> bool {
        let own: [u8; 32] = Sha256::digest(self.secret).into();
        own.ct_eq(digest).into()
    }
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret;

    use super::*;

    #[test]
    fn a_key_is_read_back_and_only_its_own_secret_has_its_digest() {
        let [first, second] = [(); 2].map(|()| NewSecret::generate().unwrap());
        let sent = SentKey::parse(first.key.expose_secret()).unwrap();
        assert_eq!(sent.id, first.id);
        assert!(sent.has_digest(&first.digest));
        assert!(!sent.has_digest(&second.digest));
        // 32 bytes are 43 characters of base64.
        assert_eq!(first.key.expose_secret().len(), "fsk_".len() + 16 + 1 + 43);
    }

    #[test]
    fn a_key_of_somebody_else_is_taken_if_its_secret_is_long() {
        let id = "fsk_0123456789abcdef";
        let text = format!("{id}_{}", "5f".repeat(16));
        let taken = NewSecret::parse(&text).unwrap();
        assert_eq!(taken.key.expose_secret(), text);
        assert!(SentKey::parse(&text).unwrap().has_digest(&taken.digest));
        for secret in ["5f".repeat(15), "a b".repeat(20), String::new()] {
            assert!(
                NewSecret::parse(&format!("{id}_{secret}")).is_none(),
                "{secret:?}"
            );
        }
    }

    #[test]
    fn other_texts_are_no_keys() {
        for text in [
            "",
            "fsk_",
            "fsk_0123456789abcdef_",
            "fsk_0123_secret",
            "sk_0123456789abcdef_a",
            "fsk_0123456789abcdeG_a",
        ] {
            assert!(SentKey::parse(text).is_none(), "{text:?}");
        }
    }
}
