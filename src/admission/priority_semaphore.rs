//! A semaphore with priorities. Interactive images go first. A bulk image that has waited long enough goes before them.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::sync::oneshot;

use super::Priority;
use facescan_clock::Clock;

/// Limits how many images are held decoded at a time. Cheap to clone.
#[derive(Clone)]
pub struct PrioritySemaphore {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    max_wait: Duration,
    clock: Arc<dyn Clock>,
}

#[derive(Default)]
struct State {
    free: usize,
    interactive: VecDeque<Waiter>,
    bulk: VecDeque<Waiter>,
}

struct Waiter {
    since: Duration,
    /// Sends the permit to the waiter. If the waiter has left, the permit is dropped and goes to the next waiter.
    admit: oneshot::Sender<DecodePermit>,
}

/// The right to hold one image decoded. Dropping it gives the permit to the next waiter.
pub struct DecodePermit {
    shared: Arc<Shared>,
}

impl PrioritySemaphore {
    /// Creates a semaphore with `permits` permits, at least one. A bulk image that has waited for `max_wait` goes
    /// before interactive images.
    pub fn new(permits: usize, max_wait: Duration, clock: Arc<dyn Clock>) -> Self {
        let state = State {
            free: permits.max(1),
            ..State::default()
        };
        Self {
            shared: Arc::new(Shared {
                state: Mutex::new(state),
                max_wait,
                clock,
            }),
        }
    }

    /// Waits for a permit.
    pub async fn acquire(&self, priority: Priority) -> DecodePermit {
        loop {
            let waiting = {
                let mut state = self.shared.state();
                if state.free > 0 {
                    state.free -= 1;
                    return self.permit();
                }
                let (admit, admitted) = oneshot::channel();
                let since = self.shared.clock.monotonic();
                let line = match priority {
                    Priority::Interactive => &mut state.interactive,
                    Priority::Bulk => &mut state.bulk,
                };
                line.push_back(Waiter { since, admit });
                admitted
            };
            // The sender is dropped only with the semaphore itself, and this future holds the semaphore.
            if let Ok(permit) = waiting.await {
                return permit;
            }
        }
    }

    /// Returns how many images wait at each priority.
    pub fn waiting(&self) -> [(Priority, usize); 2] {
        let state = self.shared.state();
        [
            (Priority::Interactive, state.interactive.len()),
            (Priority::Bulk, state.bulk.len()),
        ]
    }

    fn permit(&self) -> DecodePermit {
        DecodePermit {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes and returns the waiter that goes next.
    fn next(&self, state: &mut State) -> Option<Waiter> {
        let bulk = state.bulk.front().map(|waiter| waiter.since);
        let is_due =
            bulk.is_some_and(|since| self.clock.monotonic().saturating_sub(since) >= self.max_wait);
        if is_due {
            return state.bulk.pop_front();
        }
        state
            .interactive
            .pop_front()
            .or_else(|| state.bulk.pop_front())
    }
}

impl Drop for DecodePermit {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        while let Some(waiter) = self.shared.next(&mut state) {
            if waiter.admit.is_closed() {
                continue;
            }
            drop(state);
            let permit = Self {
                shared: Arc::clone(&self.shared),
            };
            // If the waiter has just left, `send` returns the permit. Dropping the permit then finds the next waiter.
            drop(waiter.admit.send(permit));
            return;
        }
        state.free += 1;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use futures::poll;
    use time::OffsetDateTime;

    use super::*;

    /// A clock that moves only when a test sets it.
    #[derive(Default)]
    struct Stopped(AtomicU64);

    impl Clock for Stopped {
        fn now(&self) -> OffsetDateTime {
            OffsetDateTime::UNIX_EPOCH
        }

        fn monotonic(&self) -> Duration {
            Duration::from_millis(self.0.load(Ordering::Relaxed))
        }
    }

    fn semaphore(permits: usize) -> (PrioritySemaphore, Arc<Stopped>) {
        let clock = Arc::new(Stopped::default());
        let semaphore =
            PrioritySemaphore::new(permits, Duration::from_millis(100), Arc::clone(&clock) as _);
        (semaphore, clock)
    }

    #[tokio::test]
    async fn interactive_images_go_first_and_each_queue_keeps_its_order() {
        let (semaphore, _) = semaphore(1);
        let first = semaphore.acquire(Priority::Interactive).await;
        let mut bulk = Box::pin(semaphore.acquire(Priority::Bulk));
        let mut second = Box::pin(semaphore.acquire(Priority::Interactive));
        let mut third = Box::pin(semaphore.acquire(Priority::Interactive));
        for waiting in [&mut bulk, &mut second, &mut third] {
            assert!(poll!(waiting.as_mut()).is_pending());
        }
        let waiting = semaphore.waiting();
        assert_eq!(waiting, [(Priority::Interactive, 2), (Priority::Bulk, 1)]);
        drop(first);
        assert!(poll!(bulk.as_mut()).is_pending());
        assert!(poll!(third.as_mut()).is_pending());
        drop(second.await);
        drop(third.await);
        drop(bulk.await);
    }

    #[tokio::test]
    async fn a_bulk_image_that_has_waited_long_enough_goes_before_interactive_ones() {
        let (semaphore, clock) = semaphore(1);
        let first = semaphore.acquire(Priority::Interactive).await;
        let mut bulk = Box::pin(semaphore.acquire(Priority::Bulk));
        assert!(poll!(bulk.as_mut()).is_pending());
        let mut second = Box::pin(semaphore.acquire(Priority::Interactive));
        assert!(poll!(second.as_mut()).is_pending());
        clock.0.store(100, Ordering::Relaxed);
        drop(first);
        assert!(poll!(second.as_mut()).is_pending());
        drop(bulk.await);
        drop(second.await);
    }

    #[tokio::test]
    async fn a_permit_is_not_lost_when_a_waiter_leaves() {
        let (semaphore, _) = semaphore(1);
        let first = semaphore.acquire(Priority::Interactive).await;
        let mut leaves = Box::pin(semaphore.acquire(Priority::Interactive));
        let mut leaves_late = Box::pin(semaphore.acquire(Priority::Interactive));
        let mut stays = Box::pin(semaphore.acquire(Priority::Bulk));
        for waiting in [&mut leaves, &mut leaves_late, &mut stays] {
            assert!(poll!(waiting.as_mut()).is_pending());
        }
        drop(leaves);
        drop(first);
        // This waiter has received the permit and leaves before it reads it.
        drop(leaves_late);
        drop(stays.await);
        drop(semaphore.acquire(Priority::Bulk).await);
    }
}
