//! Batches that workers process in the background.

#![expect(missing_docs, reason = "configs/config.yaml describes every setting")]

use std::time::Duration;

use garde::Validate;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use url::Url;

use super::{
    checks::must,
    masks::{hidden, masked, masked_url},
    milliseconds::Milliseconds,
    traces::is_header,
};

/// Section `batches`.
#[derive(Debug, Clone, Serialize, Deserialize, Validate)]
pub struct Batches {
    #[garde(range(max = 256))]
    pub workers: usize,
    #[garde(range(min = 1, max = 4096))]
    pub chunk_size: u32,
    #[garde(range(min = 1, max = 1024))]
    pub in_flight: usize,
    #[garde(range(min = 100, max = 3_600_000))]
    pub lease_ms: Milliseconds,
    #[garde(range(min = 1, max = 3_600_000))]
    pub item_timeout_ms: Milliseconds,
    #[garde(range(min = 1, max = 100))]
    pub max_attempts: u32,
    #[garde(range(max = 600_000))]
    pub retry_ms: Milliseconds,
    #[garde(range(min = 10, max = 600_000))]
    pub poll_ms: Milliseconds,
    #[garde(range(min = 1, max = 1 << 20))]
    pub max_event_streams: usize,
    #[garde(range(max = 87_600))]
    pub ttl_hours: u32,
    /// `None` means no message queue. Serialization masks the password.
    #[garde(inner(custom(must(is_queue_url))))]
    #[serde(serialize_with = "masked")]
    pub queue: Option<SecretString>,
    #[garde(inner(custom(must(is_header))))]
    #[serde(serialize_with = "hidden")]
    pub queue_token: Option<SecretString>,
    #[garde(inner(custom(must(is_payload_url))))]
    #[serde(serialize_with = "masked_url")]
    pub payloads: Option<Url>,
}

impl Batches {
    /// Returns how long a batch is kept. `None` means forever.
    pub fn ttl(&self) -> Option<Duration> {
        let hours = u64::from(self.ttl_hours);
        (hours > 0).then(|| Duration::from_secs(hours * 3600))
    }
}

fn is_queue_url(url: &SecretString) -> bool {
    ["nats://", "tls://"].iter().any(|scheme| {
        url.expose_secret()
            .strip_prefix(scheme)
            .is_some_and(|rest| !rest.is_empty())
    })
}

fn is_payload_url(url: &Url) -> bool {
    ["s3", "gs", "az", "file"].contains(&url.scheme())
}
