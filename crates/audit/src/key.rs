//! The secret of the audit trail.
//!
//! Someone who can write to the database can compute a whole chain anew, but cannot sign without the secret, which is in the
//! settings only.

use hmac::{Hmac, KeyInit as _, Mac as _};
use secrecy::{ExposeSecret, SecretString};
use sha2::Sha256;

/// Signs heads of chains and deletions with HMAC-SHA256. Cheap to clone.
#[derive(Clone)]
pub struct AuditKey(Hmac<Sha256>);

impl AuditKey {
    /// Uses the secret of the settings. `None` if they have none.
    pub fn new(secret: Option<&SecretString>) -> Option<Self> {
        let secret = secret?.expose_secret().as_bytes();
        Hmac::new_from_slice(secret).ok().map(Self)
    }

    /// Returns the signature of a text.
    pub fn sign(&self, text: &str) -> [u8; 32] {
        self.mac(text).finalize().into_bytes().into()
    }

    /// Returns whether a signature is that of a text. The time does not depend on where the signatures differ.
    pub(crate) fn verifies(&self, text: &str, signature: &[u8]) -> bool {
        self.mac(text).verify_slice(signature).is_ok()
    }

    fn mac(&self, text: &str) -> Hmac<Sha256> {
        let mut mac = self.0.clone();
        mac.update(text.as_bytes());
        mac
    }
}
