//! Messages to other servers when a batch ends.

#![expect(missing_docs, reason = "configs/config.yaml describes every setting")]

use garde::Validate;
use serde::{Deserialize, Serialize};

/// Section `webhooks`.
#[derive(Debug, Clone, Serialize, Deserialize, Validate)]
pub struct Webhooks {
    #[garde(skip)]
    pub enabled: bool,
    #[garde(range(min = 1, max = 1000))]
    pub max_per_tenant: u32,
    #[garde(range(min = 1, max = 100_000))]
    pub max_pending_per_tenant: u32,
}
