//! How rows of many requests are grouped into runs.

use std::{num::NonZeroUsize, time::Duration};

use serde::{Deserialize, Serialize};

use super::rule::{Kind, Rule};

/// Section `batching`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Batching {
    /// How long a batch that is not full waits for more rows, in milliseconds; see [`Batching::max_queue_delay`].
    pub max_queue_delay_ms: f64,
    /// Most rows in one run on the CPU.
    pub cpu_batch_size: NonZeroUsize,
}

impl Batching {
    /// How long a batch that is not full waits for more rows.
    pub fn max_queue_delay(&self) -> Duration {
        Duration::from_secs_f64(self.max_queue_delay_ms / 1e3)
    }
}

pub(super) const RULES: &[Rule] = &[
    Rule::checked(
        "batching.max_queue_delay_ms",
        Kind::Yaml,
        "a number from 0 to 1000",
        |c| (0.0..=1000.0).contains(&c.batching.max_queue_delay_ms),
    ),
    Rule::checked(
        "batching.cpu_batch_size",
        Kind::Yaml,
        "a whole number from 1 to 1024",
        |c| c.batching.cpu_batch_size.get() <= 1024,
    ),
];
