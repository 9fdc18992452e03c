//! Times in milliseconds.

use std::time::Duration;

use garde::rules::range::{Bounds, OutOfBounds};
use serde::{Deserialize, Serialize};

/// A time in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Milliseconds(pub u64);

impl Milliseconds {
    /// Returns the time.
    pub fn duration(self) -> Duration {
        Duration::from_millis(self.0)
    }
}

impl Bounds for Milliseconds {
    type Size = u64;

    const MIN: u64 = u64::MIN;
    const MAX: u64 = u64::MAX;

    fn validate_bounds(&self, lowest: u64, highest: u64) -> Result<(), OutOfBounds> {
        self.0.validate_bounds(lowest, highest)
    }
}
