//! How much work is taken in at a time.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{
    Config,
    rule::{Kind, Rule},
};

/// Section `admission`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Admission {
    /// Images of interactive requests in the server at a time; 0 is eight for each worker.
    pub interactive_images: usize,
    /// Images of bulk requests in the server at a time; 0 is 64 for each worker.
    pub bulk_images: usize,
    /// Bytes of request bodies in the server at a time.
    pub max_bytes: usize,
    /// From how many images on a request that names no priority is bulk.
    pub bulk_from_images: usize,
    /// How long a bulk image waits before it is served like an interactive one, in milliseconds; see
    /// [`Admission::bulk_patience`].
    pub bulk_patience_ms: u64,
}

impl Admission {
    /// How long a bulk image waits before it is served like an interactive one.
    pub fn bulk_patience(&self) -> Duration {
        Duration::from_millis(self.bulk_patience_ms)
    }
}

impl Config {
    /// Images of interactive and of bulk requests in the server at a time.
    pub fn admitted_images(&self) -> (usize, usize) {
        let workers = self.imaging.worker_threads().get();
        let or = |limit: usize, each: usize| if limit == 0 { each * workers } else { limit };
        (
            or(self.admission.interactive_images, 8),
            or(self.admission.bulk_images, 64),
        )
    }
}

const MOST: usize = 1 << 20;

pub(super) const RULES: &[Rule] = &[
    Rule::checked(
        "admission.interactive_images",
        Kind::Yaml,
        "a whole number from 0 to 1048576 (0 = eight for each worker)",
        |c| c.admission.interactive_images <= MOST,
    ),
    Rule::checked(
        "admission.bulk_images",
        Kind::Yaml,
        "a whole number from 0 to 1048576 (0 = 64 for each worker)",
        |c| c.admission.bulk_images <= MOST,
    ),
    Rule::checked(
        "admission.max_bytes",
        Kind::Yaml,
        "a whole number from 1024 to 4398046511104",
        |c| (1024..=1 << 42).contains(&c.admission.max_bytes),
    ),
    Rule::checked(
        "admission.bulk_from_images",
        Kind::Yaml,
        "a whole number from 1 to 1048576",
        |c| (1..=MOST).contains(&c.admission.bulk_from_images),
    ),
    Rule::checked(
        "admission.bulk_patience_ms",
        Kind::Yaml,
        "a whole number from 0 to 3600000",
        |c| c.admission.bulk_patience_ms <= 3_600_000,
    ),
];
