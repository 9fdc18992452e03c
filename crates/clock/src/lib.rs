//! The sources of time and identifiers. Callers pass them in, so that tests can control both.

pub mod rfc3339;
#[cfg(feature = "testing")]
pub mod testing;

use std::time::{Duration, Instant};

use time::OffsetDateTime;
use uuid::{NoContext, Timestamp, Uuid};

/// A source of wall-clock and monotonic time.
pub trait Clock: Send + Sync {
    /// Returns the current UTC time.
    fn now(&self) -> OffsetDateTime;

    /// Returns the time since an arbitrary fixed point. It never decreases.
    fn monotonic(&self) -> Duration;

    /// Creates a time-ordered identifier (UUID version 7).
    fn new_id(&self) -> Uuid {
        let now = self.now();
        let seconds = u64::try_from(now.unix_timestamp()).unwrap_or(0);
        Uuid::new_v7(Timestamp::from_unix(NoContext, seconds, now.nanosecond()))
    }
}

/// The machine's own clocks.
#[derive(Debug)]
pub struct SystemClock {
    started: Instant,
}

impl SystemClock {
    /// Creates a clock whose monotonic time starts at zero.
    pub fn start() -> Self {
        Self {
            started: Instant::now(),
        }
    }
}

impl Clock for SystemClock {
    fn now(&self) -> OffsetDateTime {
        OffsetDateTime::now_utc()
    }

    fn monotonic(&self) -> Duration {
        self.started.elapsed()
    }
}
