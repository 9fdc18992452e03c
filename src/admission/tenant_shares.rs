//! Shares a budget fairly between tenants.
//!
//! A tenant alone may use the whole budget. While several tenants ask, each may hold an equal part. So a flood of one tenant's
//! requests leaves the other tenants their parts, as soon as the requests that it holds are answered.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use facescan_clock::Clock;

/// A tenant that has asked within this time counts, also if it holds nothing.
const ACTIVE: Duration = Duration::from_secs(1);

/// The parts of a budget that the tenants hold. Cheap to clone.
#[derive(Clone)]
pub(super) struct TenantShares {
    shared: Arc<Shared>,
}

struct Shared {
    capacity: usize,
    clock: Arc<dyn Clock>,
    tenants: Mutex<HashMap<Arc<str>, Use>>,
}

#[derive(Default)]
struct Use {
    held: usize,
    asked_at: Duration,
}

/// The part that one reservation holds. Dropping it returns the part.
pub(super) struct HeldShare {
    shared: Arc<Shared>,
    tenant: Arc<str>,
    amount: usize,
}

impl TenantShares {
    pub(super) fn new(capacity: usize, clock: Arc<dyn Clock>) -> Self {
        Self {
            shared: Arc::new(Shared {
                capacity,
                clock,
                tenants: Mutex::default(),
            }),
        }
    }

    /// Takes `amount` for a tenant, unless the tenant would then hold more than its part. A tenant that holds nothing may take
    /// any amount.
    pub(super) fn try_take(&self, tenant: &Arc<str>, amount: usize) -> Option<HeldShare> {
        let mut tenants = self.shared.tenants();
        if !self.shared.has_room(&mut tenants, tenant, amount) {
            return None;
        }
        tenants.entry(Arc::clone(tenant)).or_default().held += amount;
        Some(self.held(tenant, amount))
    }

    /// Returns whether [`try_take`](Self::try_take) would take `amount` for a tenant now.
    pub(super) fn has_room(&self, tenant: &Arc<str>, amount: usize) -> bool {
        let mut tenants = self.shared.tenants();
        self.shared.has_room(&mut tenants, tenant, amount)
    }

    /// Takes `amount` for a tenant whose turn something else decides.
    pub(super) fn take(&self, tenant: &Arc<str>, amount: usize) -> HeldShare {
        let mut tenants = self.shared.tenants();
        self.shared.ask(&mut tenants, tenant);
        tenants.entry(Arc::clone(tenant)).or_default().held += amount;
        self.held(tenant, amount)
    }

    /// Returns whether a tenant holds its whole part.
    pub(super) fn is_used_up(&self, tenant: &Arc<str>) -> bool {
        let mut tenants = self.shared.tenants();
        let active = self.shared.ask(&mut tenants, tenant);
        let held = tenants.get(tenant).map_or(0, |own| own.held);
        held > 0 && held >= self.shared.capacity.div_ceil(active)
    }

    fn held(&self, tenant: &Arc<str>, amount: usize) -> HeldShare {
        HeldShare {
            shared: Arc::clone(&self.shared),
            tenant: Arc::clone(tenant),
            amount,
        }
    }
}

impl Shared {
    /// Records that a tenant asks. Forgets tenants that are not active, and returns the number of those that are.
    fn ask(&self, tenants: &mut HashMap<Arc<str>, Use>, tenant: &Arc<str>) -> usize {
        let now = self.clock.monotonic();
        tenants.entry(Arc::clone(tenant)).or_default().asked_at = now;
        tenants.retain(|_, other| other.held > 0 || now.saturating_sub(other.asked_at) < ACTIVE);
        tenants.len().max(1)
    }

    fn has_room(
        &self,
        tenants: &mut HashMap<Arc<str>, Use>,
        tenant: &Arc<str>,
        amount: usize,
    ) -> bool {
        let part = self.capacity.div_ceil(self.ask(tenants, tenant));
        let held = tenants.get(tenant).map_or(0, |own| own.held);
        held == 0 || held + amount <= part
    }

    fn tenants(&self) -> MutexGuard<'_, HashMap<Arc<str>, Use>> {
        // The numbers are right also after a panic elsewhere: nothing panics between two changes.
        self.tenants.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for HeldShare {
    fn drop(&mut self) {
        if let Some(own) = self.shared.tenants().get_mut(&self.tenant) {
            own.held = own.held.saturating_sub(self.amount);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_clock::TestClock;

    fn shares() -> (TenantShares, Arc<TestClock>) {
        let clock = Arc::new(TestClock::default());
        (TenantShares::new(8, Arc::clone(&clock) as _), clock)
    }

    #[test]
    fn a_tenant_alone_has_the_whole_budget() {
        let (shares, _) = shares();
        let only: Arc<str> = "only".into();
        let _held: Vec<_> = (0..8).map(|_| shares.try_take(&only, 1).unwrap()).collect();
        assert!(shares.is_used_up(&only));
        assert!(shares.try_take(&only, 1).is_none());
    }

    #[test]
    fn two_tenants_have_half_each_until_one_is_gone() {
        let (shares, clock) = shares();
        let (flood, other): (Arc<str>, Arc<str>) = ("flood".into(), "other".into());
        let mut held: Vec<_> = (0..8)
            .map(|_| shares.try_take(&flood, 1).unwrap())
            .collect();
        // The other tenant asks, so the flood gets nothing new before it holds less than half.
        let others: Vec<_> = (0..4)
            .map(|_| shares.try_take(&other, 1).unwrap())
            .collect();
        assert!(shares.try_take(&other, 1).is_none());
        held.truncate(4);
        assert!(shares.try_take(&flood, 1).is_none());
        held.truncate(3);
        held.push(shares.try_take(&flood, 1).unwrap());
        drop(others);
        assert!(shares.try_take(&flood, 1).is_none());
        clock.advance(ACTIVE);
        assert!(shares.try_take(&flood, 1).is_some());
    }

    #[test]
    fn a_tenant_that_holds_nothing_may_take_more_than_its_part() {
        let (shares, _) = shares();
        let (first, second): (Arc<str>, Arc<str>) = ("first".into(), "second".into());
        let _one = shares.try_take(&first, 1).unwrap();
        let large = shares.try_take(&second, 100).unwrap();
        assert!(shares.try_take(&second, 1).is_none());
        drop(large);
        assert!(shares.try_take(&second, 1).is_some());
    }
}
