//! Who may use the server.

#![expect(missing_docs, reason = "configs/config.yaml describes every setting")]

use std::{collections::HashSet, net::IpAddr, path::PathBuf, time::Duration};

use garde::Validate;
use secrecy::SecretString;
use serde::{Deserialize, Serialize, Serializer, de};
use time::OffsetDateTime;

use super::{
    checks::{is_path, must},
    masks::hidden,
    scope::Scope,
    storage::is_tenant,
};

/// Section `access`.
#[derive(Debug, Clone, Serialize, Deserialize, Validate)]
pub struct Access {
    #[garde(skip)]
    pub mode: AccessMode,
    #[garde(dive, custom(must(have_own_ids)))]
    pub keys: Vec<ConfiguredKey>,
    #[garde(skip)]
    #[serde(serialize_with = "hidden")]
    pub first_key: Option<SecretString>,
    #[garde(inner(custom(must(is_path))))]
    pub first_key_file: Option<PathBuf>,
    #[garde(range(max = 3600))]
    pub key_cache_s: u64,
}

impl Access {
    /// Returns how long a key of the database is not read again.
    pub fn key_cache(&self) -> Duration {
        Duration::from_secs(self.key_cache_s)
    }
}

/// Section `rate_limits`. A limit of 0 is none.
#[derive(Debug, Clone, Serialize, Deserialize, Validate)]
pub struct RateLimits {
    #[garde(range(max = 1_000_000))]
    pub key_requests_per_s: u32,
    #[garde(range(max = 1_000_000))]
    pub key_megabytes_per_s: u32,
    #[garde(range(max = 1_000_000))]
    pub key_megapixels_per_s: u32,
    #[garde(range(max = 1_000_000))]
    pub tenant_requests_per_s: u32,
    #[garde(range(max = 1_000_000))]
    pub tenant_megabytes_per_s: u32,
    #[garde(range(max = 1_000_000))]
    pub tenant_megapixels_per_s: u32,
    #[garde(range(max = 1 << 40))]
    pub tenant_waiting_items: u64,
    #[garde(range(min = 1, max = 3600))]
    pub burst_s: u32,
}

/// Whether callers need a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AccessMode {
    /// Callers need a key unless the server listens on a loopback address.
    Auto,
    /// Callers need a key.
    Required,
    /// Every caller may do everything.
    Off,
}

/// A key in the settings, by the digest of its secret.
#[derive(Debug, Clone, Serialize, Deserialize, Validate)]
#[serde(deny_unknown_fields)]
pub struct ConfiguredKey {
    #[garde(length(min = 16, max = 16))]
    pub id: String,
    #[garde(skip)]
    pub sha256: KeyDigest,
    #[garde(length(min = 1, max = 64), custom(must(is_tenant)))]
    pub tenant: String,
    #[garde(length(min = 1))]
    pub scopes: Vec<Scope>,
    #[garde(skip)]
    #[serde(default, with = "time::serde::rfc3339::option")]
    pub expires_at: Option<OffsetDateTime>,
}

/// Returns whether no two keys have the same id. One of them would silently replace the other.
fn have_own_ids(keys: &[ConfiguredKey]) -> bool {
    let ids: HashSet<&str> = keys.iter().map(|key| key.id.as_str()).collect();
    ids.len() == keys.len()
}

/// A SHA-256, in hex in the settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyDigest(pub [u8; 32]);

impl Serialize for KeyDigest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let hex: String = self.0.iter().map(|byte| format!("{byte:02x}")).collect();
        serializer.serialize_str(&hex)
    }
}

impl<'de> Deserialize<'de> for KeyDigest {
    fn deserialize<D: de::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let refuse = || de::Error::custom("a sha256 has 64 hex digits");
        if text.len() != 64 || !text.is_ascii() {
            return Err(refuse());
        }
        let mut digest = [0; 32];
        for (byte, at) in digest.iter_mut().zip((0..64).step_by(2)) {
            *byte = u8::from_str_radix(&text[at..at + 2], 16).map_err(|_| refuse())?;
        }
        Ok(Self(digest))
    }
}

/// Returns whether only this machine can reach a host. A name other than `localhost` can have any address.
pub fn is_loopback(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']');
    match address.parse::<IpAddr>() {
        Ok(address) => address.is_loopback(),
        Err(_) => host.eq_ignore_ascii_case("localhost"),
    }
}

#[cfg(test)]
mod tests {
    use super::is_loopback;

    #[test]
    fn only_loopback_addresses_are_private_to_the_machine() {
        for host in ["127.0.0.1", "127.8.8.8", "::1", "[::1]", "localhost"] {
            assert!(is_loopback(host), "{host}");
        }
        for host in [
            "0.0.0.0",
            "::",
            "192.168.1.2",
            "localhost.example.com",
            "facescan",
        ] {
            assert!(!is_loopback(host), "{host}");
        }
    }
}
