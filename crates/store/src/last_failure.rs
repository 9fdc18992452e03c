//! When Postgres was last unavailable.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// When a call last found the server unavailable.
#[derive(Clone, Default)]
pub(crate) struct LastFailure(Arc<Mutex<Option<Instant>>>);

impl LastFailure {
    /// Records that a call fails now, so that connections from before are tested.
    pub(crate) fn note(&self) {
        *self.time() = Some(Instant::now());
    }

    /// Returns whether a call failed within a time until now.
    pub(crate) fn is_within(&self, time: Duration) -> bool {
        self.time().is_some_and(|failed| failed.elapsed() <= time)
    }

    fn time(&self) -> MutexGuard<'_, Option<Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
