//! One budget of permits, and what is taken of it.

use std::sync::Arc;

use facescan_clock::Clock;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::tenant_shares::{HeldShare, TenantShares, reserve};

/// The number of bytes that one permit stands for. One call can take at most 2³² permits.
pub(super) const BYTES_A_PERMIT: usize = 1024;

/// A number of permits that tenants share.
#[derive(Clone)]
pub(super) struct Budget {
    permits: Arc<Semaphore>,
    capacity: usize,
    pub(super) shares: TenantShares,
}

/// A part of a budget. Dropping it returns the part.
pub(super) struct Taken {
    permits: Option<OwnedSemaphorePermit>,
    share: HeldShare,
}

impl Taken {
    pub(super) fn amount(&self) -> usize {
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
        }
    }

    /// Takes `amount` permits. A request that is larger than the budget takes all of it, so it is admitted alone.
    pub(super) fn try_take(&self, tenant: &Arc<str>, amount: usize) -> Option<Taken> {
        let amount = self.bounded(amount);
        let share = self.shares.try_take(tenant, amount as usize)?;
        let permits = Arc::clone(&self.permits).try_acquire_many_owned(amount);
        Some(Taken {
            permits: Some(permits.ok()?),
            share,
        })
    }

    /// Takes `amount` permits for what is in memory already, also if that is more than is left.
    pub(super) fn count(&self, tenant: &Arc<str>, amount: usize) -> Taken {
        let permits = Arc::clone(&self.permits).try_acquire_many_owned(self.bounded(amount));
        Taken {
            permits: permits.ok(),
            share: self.shares.take(tenant, amount),
        }
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
        Taken {
            // The semaphore is never closed.
            permits: permits.ok(),
            share: self.shares.take(tenant, amount as usize),
        }
    }

    pub(super) fn is_used_up(&self, tenant: &Arc<str>) -> bool {
        self.permits.available_permits() == 0 || self.shares.is_used_up(tenant)
    }

    pub(super) fn bounded(&self, amount: usize) -> u32 {
        u32::try_from(amount.min(self.capacity)).unwrap_or(u32::MAX)
    }
}
