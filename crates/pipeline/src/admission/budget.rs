//! One budget of permits, what is taken of it, and why nothing more is.

use std::{sync::Arc, time::Duration};

use facescan_clock::Clock;
use facescan_telemetry::metrics::{Metrics, labels::Refusal};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, oneshot},
    time::{Instant, timeout_at},
};

use super::{
    line::{Line, Turn},
    priority::Priority,
    tenant_shares::{HeldShare, TenantShares, reserve},
};

/// The number of bytes that one permit stands for. One call can take at most 2³² permits.
pub(super) const BYTES_A_PERMIT: usize = 1024;

/// How often somebody who waits looks again whether something is free.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// A number of permits that tenants share.
#[derive(Clone)]
pub(super) struct Budget {
    permits: Arc<Semaphore>,
    capacity: usize,
    pub(super) shares: TenantShares,
    line: Arc<Line<Taken>>,
}

/// A part of a budget. Dropping it returns the part.
pub(super) struct Taken {
    permits: Option<OwnedSemaphorePermit>,
    share: HeldShare,
    /// Dropped last.
    _returned: Returned,
}

/// A place in the line of a budget. Whoever gives it up lets those behind it move up.
struct Place {
    turn: oneshot::Receiver<Taken>,
    /// Dropped last.
    _left: Returned,
}

impl Place {
    async fn wait(mut self, budget: &Budget, max_wait: Duration) -> Option<Taken> {
        let end = Instant::now() + max_wait;
        loop {
            let next = end.min(Instant::now() + LOOK_AGAIN);
            match timeout_at(next, &mut self.turn).await {
                Ok(taken) => return taken.ok(),
                // The part of a tenant also grows when another one has been quiet for a while, which nothing else notices.
                Err(_) => budget.serve_line(),
            }
            if next == end {
                return self.turn.try_recv().ok();
            }
        }
    }
}

/// Serves the line of a budget when a part was returned.
struct Returned(Budget);

impl Drop for Returned {
    fn drop(&mut self) {
        self.0.serve_line();
    }
}

impl Taken {
    fn amount(&self) -> usize {
        self.share.amount()
    }

    /// Returns all permits but `amount` to the budget.
    pub(super) fn shrink_to(&mut self, amount: usize) {
        if let Some(permits) = &mut self.permits {
            let spare = permits.num_permits().saturating_sub(amount);
            drop(permits.split(spare));
        }
        self.share.shrink_to(amount);
    }
}

impl Budget {
    pub(super) fn new(capacity: usize, clock: &Arc<dyn Clock>) -> Self {
        let capacity = capacity.min(Semaphore::MAX_PERMITS / 2);
        Self {
            permits: Arc::new(Semaphore::new(capacity + reserve(capacity))),
            capacity,
            shares: TenantShares::new(capacity, Arc::clone(clock)),
            line: Arc::new(Line::new(capacity)),
        }
    }

    /// Takes `amount` permits. A request that is larger than the budget takes all of it, so it is admitted alone.
    pub(super) fn try_take(&self, tenant: &Arc<str>, amount: usize) -> Option<Taken> {
        let amount = self.bounded(amount);
        let share = self.shares.try_take(tenant, amount as usize)?;
        let permits = Arc::clone(&self.permits).try_acquire_many_owned(amount);
        Some(self.taken(permits.ok()?.into(), share))
    }

    /// Takes `amount` permits as [`try_take`](Self::try_take) does, and waits for them at most for `max_wait`. Requests of one
    /// tenant take turns in their order.
    pub(super) async fn take_within(
        &self,
        tenant: &Arc<str>,
        amount: usize,
        max_wait: Duration,
    ) -> Option<Taken> {
        if max_wait.is_zero() {
            return self.try_take(tenant, amount);
        }
        let amount = self.bounded(amount) as usize;
        match self.line.take_or_join(tenant, amount, |tenant, amount| {
            self.try_take(tenant, amount)
        }) {
            Turn::Now(taken) => Some(taken),
            Turn::Later(turn) => {
                let place = Place {
                    turn,
                    _left: Returned(self.clone()),
                };
                place.wait(self, max_wait).await
            }
            Turn::Never => None,
        }
    }

    /// Gives what is free to those that wait.
    fn serve_line(&self) {
        self.line
            .serve(|tenant, amount| self.try_take(tenant, amount));
    }

    /// Returns whether [`take_within`](Self::take_within) would refuse one permit at once.
    pub(super) fn is_full(&self, tenant: &Arc<str>, max_wait: Duration) -> bool {
        let may_wait = !max_wait.is_zero() && self.line.has_place(tenant);
        !may_wait && self.is_used_up(tenant)
    }

    fn taken(&self, permits: Option<OwnedSemaphorePermit>, share: HeldShare) -> Taken {
        Taken {
            permits,
            share,
            _returned: Returned(self.clone()),
        }
    }

    /// Takes `amount` permits for what is in memory already, also if that is more than is left.
    fn count(&self, tenant: &Arc<str>, amount: usize) -> Taken {
        let permits = Arc::clone(&self.permits).try_acquire_many_owned(self.bounded(amount));
        self.taken(permits.ok(), self.shares.take(tenant, amount))
    }

    /// Returns whether [`try_take`](Self::try_take) would take `amount` permits now.
    pub(super) fn has_room(&self, tenant: &Arc<str>, amount: usize) -> bool {
        let amount = self.bounded(amount) as usize;
        self.shares.has_room(tenant, amount) && self.permits.available_permits() >= amount
    }

    /// Waits for `amount` permits, as many as [`try_take`](Self::try_take) takes. Whoever waits takes turns with other
    /// tenants in another way, so the permits count for the tenant but its part does not limit them.
    pub(super) async fn take(&self, tenant: &Arc<str>, amount: usize) -> Taken {
        let amount = self.bounded(amount);
        let permits = Arc::clone(&self.permits).acquire_many_owned(amount).await;
        // The semaphore is never closed.
        self.taken(permits.ok(), self.shares.take(tenant, amount as usize))
    }

    fn is_used_up(&self, tenant: &Arc<str>) -> bool {
        self.permits.available_permits() == 0 || self.shares.is_used_up(tenant)
    }

    fn bounded(&self, amount: usize) -> u32 {
        u32::try_from(amount.min(self.capacity)).unwrap_or(u32::MAX)
    }
}

/// The reservation of one body, or of one large response. Dropping it releases the bytes.
pub struct ByteReservation {
    pub(super) budget: Budget,
    pub(super) tenant: Arc<str>,
    pub(super) metrics: Metrics,
    pub(super) taken: Vec<Taken>,
    /// The sum of `taken`, in permits.
    pub(super) permits: usize,
}

impl ByteReservation {
    /// Grows the reservation to `bytes` bytes. `shrink_to` shrinks it.
    ///
    /// # Errors
    /// Returns [`AdmissionError::Bytes`] if the byte budget, or the part of the tenant, is used up.
    pub fn grow_to(&mut self, bytes: usize) -> Result<(), AdmissionError> {
        // What is larger than the budget has all of it.
        let permits = self.budget.bounded(bytes.div_ceil(BYTES_A_PERMIT)) as usize;
        let missing = permits.saturating_sub(self.permits);
        if missing == 0 {
            return Ok(());
        }
        match self.budget.try_take(&self.tenant, missing) {
            Some(taken) => {
                self.taken.push(taken);
                self.permits = permits;
                Ok(())
            }
            None => {
                self.metrics.refused(AdmissionError::Bytes.refusal());
                Err(AdmissionError::Bytes)
            }
        }
    }

    /// Grows the reservation to `bytes` bytes that are in memory already, also if the budget is used up.
    pub fn count(&mut self, bytes: usize) {
        let permits = bytes.div_ceil(BYTES_A_PERMIT);
        let missing = permits.saturating_sub(self.permits);
        if missing > 0 {
            self.taken.push(self.budget.count(&self.tenant, missing));
            self.permits = permits;
        }
    }

    /// Returns what is above `bytes` bytes to the budget.
    pub(crate) fn shrink_to(&mut self, bytes: usize) {
        let needed = bytes.div_ceil(BYTES_A_PERMIT);
        while self.permits > needed
            && let Some(mut last) = self.taken.pop()
        {
            let before = self.permits - last.amount();
            last.shrink_to(needed.saturating_sub(before));
            self.permits = before + last.amount();
            if last.amount() > 0 {
                self.taken.push(last);
                return;
            }
        }
    }
}

/// Why a request is not admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the errors are")]
pub enum AdmissionError {
    #[error("the server has reached its limit of bytes in request bodies and responses")]
    Bytes,
    #[error(
        "the server has reached its limit of responses that are not read; read the responses of earlier requests"
    )]
    Responses,
    #[error("the server has reached its limit of requests")]
    Requests,
    #[error("the server has reached its limit of {} images", .0.name())]
    Images(Priority),
    #[error("the server has reached its limit of images that are fetched from urls")]
    Fetches,
}

impl AdmissionError {
    /// Returns what the metrics count.
    pub fn refusal(self) -> Refusal {
        match self {
            Self::Requests => Refusal::Requests,
            Self::Bytes => Refusal::Bytes,
            Self::Responses => Refusal::Responses,
            Self::Images(Priority::Interactive) => Refusal::Interactive,
            Self::Images(Priority::Bulk) => Refusal::Bulk,
            Self::Fetches => Refusal::Fetches,
        }
    }
}
