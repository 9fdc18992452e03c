//! Shares a budget fairly between tenants.
//!
//! A tenant alone may use the whole budget. While several tenants ask, each may hold an equal part. Beside the budget there is a
//! reserve for tenants that hold little: each active tenant may hold an equal part of it, whatever others hold. So what one tenant
//! holds, for however long, never refuses the first requests of another one.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use facescan_clock::Clock;

/// A tenant that has asked within this time counts, also if it holds nothing.
const ACTIVE: Duration = Duration::from_secs(1);

/// The reserve is this part of a budget, rounded up.
const RESERVE_DIVISOR: usize = 4;

/// The parts of a budget that the tenants hold. Cheap to clone.
#[derive(Clone)]
pub(super) struct TenantShares {
    shared: Arc<Shared>,
}

struct Shared {
    capacity: usize,
    reserve: usize,
    clock: Arc<dyn Clock>,
    ledger: Mutex<Ledger>,
}

#[derive(Default)]
struct Ledger {
    tenants: HashMap<Arc<str>, Use>,
    /// The sum of what the tenants hold.
    held: usize,
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

/// Returns what is added to a budget for tenants that hold little.
pub(super) fn reserve(capacity: usize) -> usize {
    capacity.div_ceil(RESERVE_DIVISOR)
}

impl TenantShares {
    pub(super) fn new(capacity: usize, clock: Arc<dyn Clock>) -> Self {
        Self {
            shared: Arc::new(Shared {
                capacity,
                reserve: reserve(capacity),
                clock,
                ledger: Mutex::default(),
            }),
        }
    }

    /// Takes `amount` for a tenant, unless the tenant would then hold more than its part. While nobody holds anything, the
    /// amount may be as large as the budget.
    pub(super) fn try_take(&self, tenant: &Arc<str>, amount: usize) -> Option<HeldShare> {
        let mut ledger = self.shared.ledger();
        if !self.shared.has_room(&mut ledger, tenant, amount) {
            return None;
        }
        Some(self.hold(&mut ledger, tenant, amount))
    }

    /// Returns whether [`try_take`](Self::try_take) would take `amount` for a tenant now.
    pub(super) fn has_room(&self, tenant: &Arc<str>, amount: usize) -> bool {
        let mut ledger = self.shared.ledger();
        self.shared.has_room(&mut ledger, tenant, amount)
    }

    /// Takes `amount` for a tenant whose turn something else decides.
    pub(super) fn take(&self, tenant: &Arc<str>, amount: usize) -> HeldShare {
        let mut ledger = self.shared.ledger();
        self.shared.ask(&mut ledger, tenant);
        self.hold(&mut ledger, tenant, amount)
    }

    /// Returns whether a tenant can take nothing more.
    pub(super) fn is_used_up(&self, tenant: &Arc<str>) -> bool {
        !self.has_room(tenant, 1)
    }

    #[cfg(test)]
    pub(super) fn held(&self, tenant: &Arc<str>) -> usize {
        let ledger = self.shared.ledger();
        ledger.tenants.get(tenant).map_or(0, |own| own.held)
    }

    fn hold(&self, ledger: &mut Ledger, tenant: &Arc<str>, amount: usize) -> HeldShare {
        ledger.held += amount;
        ledger.tenants.entry(Arc::clone(tenant)).or_default().held += amount;
        HeldShare {
            shared: Arc::clone(&self.shared),
            tenant: Arc::clone(tenant),
            amount,
        }
    }
}

impl Shared {
    /// Records that a tenant asks. Removes tenants that are not active, and returns the number of those that are.
    fn ask(&self, ledger: &mut Ledger, tenant: &Arc<str>) -> usize {
        let now = self.clock.monotonic();
        let tenants = &mut ledger.tenants;
        tenants.entry(Arc::clone(tenant)).or_default().asked_at = now;
        tenants.retain(|_, other| other.held > 0 || now.saturating_sub(other.asked_at) < ACTIVE);
        tenants.len().max(1)
    }

    fn has_room(&self, ledger: &mut Ledger, tenant: &Arc<str>, amount: usize) -> bool {
        let active = self.ask(ledger, tenant);
        let held = ledger.tenants.get(tenant).map_or(0, |own| own.held);
        let is_in_part = held == 0 || held + amount <= self.capacity.div_ceil(active);
        let is_in_budget = is_in_part && ledger.held + amount <= self.capacity;
        let is_in_reserve = held + amount <= self.reserve.div_ceil(active)
            && ledger.held + amount <= self.capacity + self.reserve;
        ledger.held == 0 || is_in_budget || is_in_reserve
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        // The numbers are right also after a panic elsewhere: nothing panics between two changes.
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HeldShare {
    pub(super) fn amount(&self) -> usize {
        self.amount
    }

    /// Returns all but `amount`.
    pub(super) fn shrink_to(&mut self, amount: usize) {
        let spare = self.amount.saturating_sub(amount);
        self.release(spare);
    }

    fn release(&mut self, amount: usize) {
        let mut ledger = self.shared.ledger();
        ledger.held = ledger.held.saturating_sub(amount);
        if let Some(own) = ledger.tenants.get_mut(&self.tenant) {
            own.held = own.held.saturating_sub(amount);
        }
        self.amount -= amount;
    }
}

impl Drop for HeldShare {
    fn drop(&mut self) {
        self.release(self.amount);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use facescan_clock::testing::TestClock;

    fn shares(capacity: usize) -> (TenantShares, Arc<TestClock>) {
        let clock = Arc::new(TestClock::default());
        (TenantShares::new(capacity, Arc::clone(&clock) as _), clock)
    }

    /// Takes single permits until the tenant gets no more.
    fn fill(shares: &TenantShares, tenant: &Arc<str>) -> Vec<HeldShare> {
        std::iter::from_fn(|| shares.try_take(tenant, 1)).collect()
    }

    #[test]
    fn what_one_tenant_holds_leaves_each_other_a_part_of_the_reserve() {
        let (shares, _) = shares(64);
        let [flood, second, third] = ["flood", "second", "third"].map(Arc::<str>::from);
        let held = fill(&shares, &flood);
        assert_eq!(held.len(), 64);
        assert_eq!(fill(&shares, &second).len(), 8, "half of the reserve of 16");
        let _second = shares.try_take(&second, 8).unwrap();
        assert!(shares.try_take(&third, 7).is_none());
        assert!(shares.try_take(&third, 6).is_some(), "a third of it");
    }

    #[test]
    fn two_tenants_have_equal_parts_until_one_is_gone() {
        let (shares, clock) = shares(8);
        let (flood, other): (Arc<str>, Arc<str>) = ("flood".into(), "other".into());
        let mut held = fill(&shares, &flood);
        // The other tenant asks, so the flood gets nothing new before it holds less than half.
        let mut others = fill(&shares, &other);
        assert_eq!(others.len(), 1, "half of the reserve of 2");
        held.truncate(4);
        assert!(shares.try_take(&flood, 1).is_none());
        others.extend(fill(&shares, &other));
        assert_eq!(others.len(), 4);
        held.truncate(3);
        held.push(shares.try_take(&flood, 1).unwrap());
        drop(others);
        assert!(shares.try_take(&flood, 1).is_none());
        clock.advance(ACTIVE);
        assert!(shares.try_take(&flood, 1).is_some());
    }

    #[test]
    fn a_large_amount_is_taken_alone() {
        let (shares, _) = shares(8);
        let (first, second): (Arc<str>, Arc<str>) = ("first".into(), "second".into());
        let large = shares.try_take(&second, 8).unwrap();
        assert!(shares.try_take(&second, 1).is_none());
        drop(large);
        let _one = shares.try_take(&first, 1).unwrap();
        assert!(shares.try_take(&second, 8).is_none());
        assert!(shares.try_take(&second, 7).is_some());
    }
}
