//! The signature of Standard Webhooks: HMAC-SHA256 over the id, the time and the body.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use hmac::{Hmac, KeyInit as _, Mac as _};
use secrecy::{ExposeSecret, SecretString};
use sha2::Sha256;

/// Signs messages with one secret.
pub(super) struct Signer(Hmac<Sha256>);

impl Signer {
    /// Reads a secret: `whsec_` and the base64 of 24 to 64 bytes. Returns `None` if it has another format.
    pub(super) fn new(secret: &SecretString) -> Option<Self> {
        let encoded = secret.expose_secret().strip_prefix("whsec_")?;
        let key = BASE64_STANDARD.decode(encoded).ok()?;
        if !(24..=64).contains(&key.len()) {
            return None;
        }
        Hmac::new_from_slice(&key).ok().map(Self)
    }

    /// Returns the value of the header `webhook-signature`.
    pub(super) fn sign(self, id: &str, timestamp: &str, body: &[u8]) -> String {
        let mut mac = self.0;
        for part in [id.as_bytes(), b".", timestamp.as_bytes(), b".", body] {
            mac.update(part);
        }
        let signature = BASE64_STANDARD.encode(mac.finalize().into_bytes());
        format!("v1,{signature}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the libraries of Standard Webhooks.
    #[test]
    fn the_signature_is_that_of_the_reference() {
        let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".into();
        let signer = Signer::new(&secret).unwrap();
        let signature = signer.sign(
            "msg_p5jXN8AQM9LWM0D4loKWxJek",
            "1614265330",
            br#"{"test": 2432232314}"#,
        );
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn a_secret_of_another_format_is_refused() {
        for secret in ["", "secret", "whsec_", "whsec_aGk=", "whsec_!"] {
            assert!(Signer::new(&secret.into()).is_none(), "{secret}");
        }
    }
}
