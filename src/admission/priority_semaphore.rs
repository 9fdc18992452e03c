//! A semaphore with priorities. Interactive images go first. A bulk image that has waited long enough goes before them.
//!
//! An image that is being processed cannot be interrupted. So bulk images get only a part of the permits for a while after
//! an interactive image: the next one then finds a free permit, and few runs of models before its own.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::sync::oneshot;

use super::Priority;
use facescan_clock::Clock;

/// How long bulk images leave permits for the next interactive image.
const INTERACTIVE_WINDOW: Duration = Duration::from_secs(1);

/// The part of the permits that bulk images get in that time: one of so many.
const BULK_SHARE: usize = 4;

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
    total: usize,
    free: usize,
    /// The permits that bulk images hold.
    bulk_held: usize,
    /// When an interactive image came last.
    last_interactive: Option<Duration>,
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
    priority: Priority,
}

impl PrioritySemaphore {
    /// Creates a semaphore with `permits` permits, at least one. A bulk image that has waited for `max_wait` goes
    /// before interactive images.
    pub fn new(permits: usize, max_wait: Duration, clock: Arc<dyn Clock>) -> Self {
        let state = State {
            total: permits.max(1),
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
                let since = self.shared.clock.monotonic();
                if priority == Priority::Interactive {
                    state.last_interactive = Some(since);
                }
                if state.may_take(priority, since) {
                    state.take(priority);
                    return self.shared.permit(priority);
                }
                let (admit, admitted) = oneshot::channel();
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

    /// Returns whether a bulk image holds a permit.
    pub fn has_bulk(&self) -> bool {
        self.shared.state().bulk_held > 0
    }
}

impl State {
    /// Returns whether an image of this priority can have a permit now.
    fn may_take(&self, priority: Priority, now: Duration) -> bool {
        let is_allowed = match priority {
            Priority::Interactive => true,
            Priority::Bulk => self.bulk_held < self.bulk_limit(now),
        };
        self.free > 0 && is_allowed
    }

    /// Returns how many permits bulk images can hold. It is at least one, so the end of a bulk image always lets the next
    /// one in.
    fn bulk_limit(&self, now: Duration) -> usize {
        let is_interactive = self
            .last_interactive
            .is_some_and(|last| now.saturating_sub(last) < INTERACTIVE_WINDOW);
        match is_interactive {
            true => (self.total / BULK_SHARE).max(1),
            false => self.total,
        }
    }

    fn take(&mut self, priority: Priority) {
        self.free -= 1;
        self.bulk_held += usize::from(priority == Priority::Bulk);
    }

    fn give_back(&mut self, priority: Priority) {
        self.free += 1;
        self.bulk_held -= usize::from(priority == Priority::Bulk);
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes and returns the waiter that goes next, if it can have a permit now.
    fn next(&self, state: &mut State) -> Option<(Waiter, Priority)> {
        let now = self.clock.monotonic();
        let due = |waiter: &Waiter| now.saturating_sub(waiter.since) >= self.max_wait;
        let is_bulk_due = state.bulk.front().is_some_and(due);
        let order = match is_bulk_due {
            true => [Priority::Bulk, Priority::Interactive],
            false => [Priority::Interactive, Priority::Bulk],
        };
        order.into_iter().find_map(|priority| {
            if !state.may_take(priority, now) {
                return None;
            }
            let waiter = match priority {
                Priority::Interactive => state.interactive.pop_front(),
                Priority::Bulk => state.bulk.pop_front(),
            };
            waiter.map(|waiter| (waiter, priority))
        })
    }

    fn permit(self: &Arc<Self>, priority: Priority) -> DecodePermit {
        DecodePermit {
            shared: Arc::clone(self),
            priority,
        }
    }

    /// Gives free permits to waiters.
    fn admit_waiters(self: &Arc<Self>) {
        loop {
            let mut state = self.state();
            let Some((waiter, priority)) = self.next(&mut state) else {
                return;
            };
            if waiter.admit.is_closed() {
                continue;
            }
            state.take(priority);
            drop(state);
            // If the waiter has just left, `send` returns the permit, and dropping it finds the next waiter.
            drop(waiter.admit.send(self.permit(priority)));
        }
    }
}

impl Drop for DecodePermit {
    fn drop(&mut self) {
        self.shared.state().give_back(self.priority);
        self.shared.admit_waiters();
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

    /// One of four permits is for bulk images while interactive images come.
    #[tokio::test]
    async fn bulk_images_leave_permits_for_the_next_interactive_one() {
        let (semaphore, clock) = semaphore(4);
        drop(semaphore.acquire(Priority::Interactive).await);
        let bulk = semaphore.acquire(Priority::Bulk).await;
        let mut second = Box::pin(semaphore.acquire(Priority::Bulk));
        let mut third = Box::pin(semaphore.acquire(Priority::Bulk));
        assert!(poll!(second.as_mut()).is_pending());
        assert!(poll!(third.as_mut()).is_pending());
        let interactive = semaphore.acquire(Priority::Interactive).await;
        assert!(semaphore.has_bulk());
        clock.0.store(2000, Ordering::Relaxed);
        // The end of a bulk image lets all in that have a permit now.
        drop(bulk);
        let (second, third) = (second.await, third.await);
        drop((interactive, second, third));
        assert!(!semaphore.has_bulk());
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
