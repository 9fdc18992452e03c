//! A clock that tests move.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use time::OffsetDateTime;

use crate::Clock;

/// A clock that stands still until a test moves it.
#[derive(Debug, Default)]
pub struct TestClock(Mutex<Duration>);

impl TestClock {
    /// Moves the clock forward.
    pub fn advance(&self, by: Duration) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) += by;
    }
}

impl Clock for TestClock {
    fn now(&self) -> OffsetDateTime {
        OffsetDateTime::UNIX_EPOCH + self.monotonic()
    }

    fn monotonic(&self) -> Duration {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
