//! A semaphore with priorities. Interactive images go first. A bulk image that has waited long enough goes before them.
//!
//! A permit stands for an image and for the memory that the work on it needs. One tenant gets half of the images and three
//! quarters of the memory. Some permits and some memory are left for tenants that have none, so that the images of several tenants,
//! which can take long, do not keep those of others waiting.
//!
//! An image keeps its permit until its end. So bulk images get only a part of the permits for a while after an interactive
//! image: the next one then finds a free permit, and few runs of models before its own.

use std::{
    collections::{HashMap, VecDeque},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::sync::oneshot;

use super::priority::Priority;
use facescan_clock::Clock;

/// How long bulk images leave permits for the next interactive image.
const INTERACTIVE_WINDOW: Duration = Duration::from_secs(1);

/// The part of the permits that bulk images get in that time: one of so many.
const BULK_SHARE: usize = 4;

/// The part of the memory that is left for tenants that hold no image: one of so many.
const RESERVE: u64 = 8;

/// An image that needs at most this part of the memory may go before one that waits for memory: one of so many.
const SMALL_SHARE: u64 = 16;

/// Limits how many images are held decoded at a time. Cheap to clone.
#[derive(Clone)]
pub struct PrioritySemaphore {
    shared: Arc<Shared>,
}

/// The limits of the images that are held decoded.
#[derive(Clone, Copy, Debug)]
pub struct PermitLimits {
    /// The number of images of one tenant, at least one. All tenants have twice as many. As many again are for tenants that
    /// hold none, one for each.
    pub tenant_images: usize,
    /// The memory of all images in bytes. An image that needs more gets a permit when no other image has one.
    pub bytes: u64,
}

impl PermitLimits {
    /// Returns the limit for the images of all tenants together.
    fn shared(&self) -> Held {
        Held {
            images: self.tenant_images.saturating_mul(2),
            bytes: self.bytes - self.bytes / RESERVE,
        }
    }

    /// Returns the limit for all images, with the first one of a further tenant.
    fn total(&self) -> Held {
        Held {
            images: self.tenant_images.saturating_mul(4),
            bytes: self.bytes,
        }
    }

    /// Returns the limit for the images of one tenant.
    fn tenant(&self) -> Held {
        Held {
            images: self.tenant_images,
            bytes: self.bytes / 4 * 3,
        }
    }
}

struct Shared {
    state: Mutex<State>,
    max_wait: Duration,
    clock: Arc<dyn Clock>,
}

struct State {
    limits: PermitLimits,
    held: Held,
    /// The part of `held` of each tenant that has permits.
    tenants: HashMap<Arc<str>, Held>,
    bulk_held: usize,
    last_interactive: Option<Duration>,
    interactive: VecDeque<Waiter>,
    bulk: VecDeque<Waiter>,
}

#[derive(Clone, Copy, Default)]
struct Held {
    images: usize,
    bytes: u64,
}

/// What a permit is for.
#[derive(Clone)]
struct Claim {
    priority: Priority,
    tenant: Arc<str>,
    bytes: u64,
}

struct Waiter {
    since: Duration,
    claim: Claim,
    /// Sends the permit to the waiter. If the waiter has left, the permit is dropped and goes to the next waiter.
    admit: oneshot::Sender<DecodePermit>,
}

/// The right to hold one image decoded. Dropping it gives the permit to the next waiter.
pub struct DecodePermit {
    shared: Arc<Shared>,
    claim: Claim,
}

impl fmt::Debug for DecodePermit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("DecodePermit")
            .finish_non_exhaustive()
    }
}

impl PrioritySemaphore {
    /// Creates a semaphore. A bulk image that has waited for `max_wait` goes before interactive images.
    pub fn new(limits: PermitLimits, max_wait: Duration, clock: Arc<dyn Clock>) -> Self {
        let state = State {
            limits: PermitLimits {
                tenant_images: limits.tenant_images.max(1),
                ..limits
            },
            held: Held::default(),
            tenants: HashMap::new(),
            bulk_held: 0,
            last_interactive: None,
            interactive: VecDeque::new(),
            bulk: VecDeque::new(),
        };
        Self {
            shared: Arc::new(Shared {
                state: Mutex::new(state),
                max_wait,
                clock,
            }),
        }
    }

    /// Waits for a permit for an image of a tenant, the work on which needs `bytes` bytes.
    pub async fn acquire(&self, priority: Priority, tenant: &Arc<str>, bytes: u64) -> DecodePermit {
        let claim = Claim {
            priority,
            tenant: Arc::clone(tenant),
            bytes,
        };
        loop {
            let waiting = {
                let mut state = self.shared.state();
                let since = self.shared.clock.monotonic();
                if priority == Priority::Interactive {
                    state.last_interactive = Some(since);
                }
                if state.may_take(&claim, since) && !state.must_wait_behind(&claim) {
                    state.take(&claim);
                    return self.shared.permit(claim);
                }
                let (admit, admitted) = oneshot::channel();
                let claim = claim.clone();
                state.line(priority).push_back(Waiter {
                    since,
                    claim,
                    admit,
                });
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
    pub(crate) fn has_bulk(&self) -> bool {
        self.shared.state().bulk_held > 0
    }
}

impl State {
    fn line(&mut self, priority: Priority) -> &mut VecDeque<Waiter> {
        match priority {
            Priority::Interactive => &mut self.interactive,
            Priority::Bulk => &mut self.bulk,
        }
    }

    /// Returns whether an image can have a permit now.
    fn may_take(&self, claim: &Claim, now: Duration) -> bool {
        let is_allowed = match claim.priority {
            Priority::Interactive => true,
            Priority::Bulk => self.bulk_held < self.bulk_limit(now),
        };
        let fits = |held: Held, limit: Held| {
            let bytes = held.bytes.saturating_add(claim.bytes);
            held.images == 0 || held.images < limit.images && bytes <= limit.bytes
        };
        let of_tenant = self.held_by(&claim.tenant);
        let limit = match of_tenant.images {
            0 => self.limits.total(),
            _ => self.limits.shared(),
        };
        is_allowed && fits(self.held, limit) && fits(of_tenant, self.limits.tenant())
    }

    /// Returns whether a larger image waits for memory that this one would take.
    fn must_wait_behind(&self, claim: &Claim) -> bool {
        let is_small = claim.bytes <= self.limits.bytes / SMALL_SHARE;
        let mut waiters = self.interactive.iter().chain(&self.bulk);
        !is_small && waiters.any(|waiter| self.waits_for_memory(&waiter.claim))
    }

    /// Returns whether an image waits only because others hold too much memory.
    fn waits_for_memory(&self, claim: &Claim) -> bool {
        let is_full = self.held.bytes.saturating_add(claim.bytes) > self.limits.bytes;
        is_full && self.held_by(&claim.tenant).images == 0
    }

    fn held_by(&self, tenant: &Arc<str>) -> Held {
        self.tenants.get(tenant).copied().unwrap_or_default()
    }

    /// Returns how many permits bulk images can hold. It is at least one, so the end of a bulk image always lets the next
    /// one in.
    fn bulk_limit(&self, now: Duration) -> usize {
        let is_interactive = self
            .last_interactive
            .is_some_and(|last| now.saturating_sub(last) < INTERACTIVE_WINDOW);
        match is_interactive {
            true => (self.limits.tenant_images / BULK_SHARE).max(1),
            false => self.limits.shared().images,
        }
    }

    fn take(&mut self, claim: &Claim) {
        let of_tenant = self.tenants.entry(Arc::clone(&claim.tenant)).or_default();
        for held in [&mut self.held, of_tenant] {
            held.images += 1;
            held.bytes = held.bytes.saturating_add(claim.bytes);
        }
        self.bulk_held += usize::from(claim.priority == Priority::Bulk);
    }

    fn give_back(&mut self, claim: &Claim) {
        self.held.images -= 1;
        self.held.bytes -= claim.bytes;
        if let Some(held) = self.tenants.get_mut(&claim.tenant) {
            held.images -= 1;
            held.bytes -= claim.bytes;
            if held.images == 0 {
                self.tenants.remove(&claim.tenant);
            }
        }
        self.bulk_held -= usize::from(claim.priority == Priority::Bulk);
    }

    /// Removes and returns the first waiter of a priority that can have a permit now.
    fn next_of(&mut self, priority: Priority, now: Duration) -> Option<Waiter> {
        let mut waits_for_memory = false;
        let at = self.line(priority).len();
        let at = (0..at).find(|at| {
            let line = match priority {
                Priority::Interactive => &self.interactive,
                Priority::Bulk => &self.bulk,
            };
            let claim = &line[*at].claim;
            let is_small = claim.bytes <= self.limits.bytes / SMALL_SHARE;
            let may_take = self.may_take(claim, now) && (is_small || !waits_for_memory);
            waits_for_memory |= self.waits_for_memory(claim);
            may_take
        })?;
        self.line(priority).remove(at)
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes and returns the waiter that goes next, if it can have a permit now.
    fn next(&self, state: &mut State) -> Option<Waiter> {
        let now = self.clock.monotonic();
        let due = |waiter: &Waiter| now.saturating_sub(waiter.since) >= self.max_wait;
        let is_bulk_due = state.bulk.front().is_some_and(due);
        let order = match is_bulk_due {
            true => [Priority::Bulk, Priority::Interactive],
            false => [Priority::Interactive, Priority::Bulk],
        };
        order
            .into_iter()
            .find_map(|priority| state.next_of(priority, now))
    }

    fn permit(self: &Arc<Self>, claim: Claim) -> DecodePermit {
        DecodePermit {
            shared: Arc::clone(self),
            claim,
        }
    }

    /// Gives free permits to waiters.
    fn admit_waiters(self: &Arc<Self>) {
        loop {
            let mut state = self.state();
            let Some(waiter) = self.next(&mut state) else {
                return;
            };
            if waiter.admit.is_closed() {
                continue;
            }
            state.take(&waiter.claim);
            drop(state);
            // If the waiter has just left, `send` returns the permit, and dropping it finds the next waiter.
            drop(waiter.admit.send(self.permit(waiter.claim)));
        }
    }
}

impl Drop for DecodePermit {
    fn drop(&mut self) {
        self.shared.state().give_back(&self.claim);
        self.shared.admit_waiters();
    }
}

#[cfg(test)]
mod tests;
