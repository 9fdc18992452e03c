//! Time and identifiers, passed in so that tests can fix both.

use std::time::{Duration, Instant};

use time::OffsetDateTime;
use uuid::{NoContext, Timestamp, Uuid};

/// A source of wall-clock and monotonic time.
pub trait Clock: Send + Sync {
    /// The current UTC time.
    fn now(&self) -> OffsetDateTime;

    /// Time since an arbitrary fixed point; never goes back.
    fn monotonic(&self) -> Duration;

    /// A new time-ordered identifier (UUID version 7).
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
    /// A clock whose monotonic time starts at zero now.
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
