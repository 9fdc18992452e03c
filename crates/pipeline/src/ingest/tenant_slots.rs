//! Slots for connections to hosts that callers chose. Tenants share them.
//!
//! A silent host holds a slot until a time limit. So a tenant that holds slots leaves some free: the more slots are held, the
//! fewer a tenant may hold, and the last free one is for a tenant that holds none.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::oneshot;

use crate::admission::Priority;

/// An owner may hold this many times the slots that are free. One alone then holds at most three quarters of all slots.
const HELD_PER_FREE: usize = 3;

/// A number of slots. Cheap to clone.
#[derive(Clone)]
pub struct TenantSlots {
    shared: Arc<Shared>,
}

struct Shared {
    /// The slots that only interactive work may take.
    interactive: usize,
    state: Mutex<State>,
}

struct State {
    free: usize,
    held: HashMap<Owner, usize>,
    waiting: VecDeque<Waiter>,
}

/// The work of one tenant and one priority.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Owner {
    tenant: Arc<str>,
    is_bulk: bool,
}

struct Waiter {
    owner: Owner,
    sender: oneshot::Sender<Slot>,
}

/// A slot. Dropping it frees the slot.
pub struct Slot {
    shared: Arc<Shared>,
    owner: Owner,
}

impl TenantSlots {
    /// Creates `total` free slots, at least one. If there are several, bulk work leaves one to interactive work.
    pub fn new(total: usize) -> Self {
        Self {
            shared: Arc::new(Shared {
                interactive: usize::from(total > 1),
                state: Mutex::new(State {
                    free: total.max(1),
                    held: HashMap::new(),
                    waiting: VecDeque::new(),
                }),
            }),
        }
    }

    /// Takes a slot, if the tenant may hold one more.
    pub fn try_take(&self, tenant: &Arc<str>, priority: Priority) -> Option<Slot> {
        let owner = Owner::new(tenant, priority);
        let mut state = self.shared.state();
        let may_take = state.may_take(&owner, self.shared.interactive);
        may_take.then(|| self.shared.give(&mut state, owner))
    }

    /// Waits for a slot. Interactive work is next, then whoever holds the fewest slots. Drop the future to stop waiting.
    pub async fn take(&self, tenant: &Arc<str>, priority: Priority) -> Option<Slot> {
        let owner = Owner::new(tenant, priority);
        let slot = {
            let mut state = self.shared.state();
            if state.may_take(&owner, self.shared.interactive) {
                return Some(self.shared.give(&mut state, owner));
            }
            let (sender, slot) = oneshot::channel();
            state.waiting.push_back(Waiter { owner, sender });
            slot
        };
        // The sender stays in the queue until it has sent.
        slot.await.ok()
    }
}

impl Owner {
    fn new(tenant: &Arc<str>, priority: Priority) -> Self {
        Self {
            tenant: Arc::clone(tenant),
            is_bulk: priority == Priority::Bulk,
        }
    }
}

impl State {
    fn held(&self, owner: &Owner) -> usize {
        self.held.get(owner).copied().unwrap_or(0)
    }

    fn may_take(&self, owner: &Owner, interactive: usize) -> bool {
        let kept = if owner.is_bulk { interactive } else { 0 };
        let free = self.free.saturating_sub(kept);
        match self.held(owner) {
            0 => free > 0,
            held => free > 1 && held < HELD_PER_FREE * free,
        }
    }

    /// Removes the waiter whose turn it is.
    fn next_waiter(&mut self, interactive: usize) -> Option<Waiter> {
        self.waiting.retain(|waiter| !waiter.sender.is_closed());
        let (next, _) = self
            .waiting
            .iter()
            .enumerate()
            .filter(|(_, waiter)| self.may_take(&waiter.owner, interactive))
            .min_by_key(|(_, waiter)| (waiter.owner.is_bulk, self.held(&waiter.owner)))?;
        self.waiting.remove(next)
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn give(self: &Arc<Self>, state: &mut State, owner: Owner) -> Slot {
        state.free -= 1;
        *state.held.entry(owner.clone()).or_default() += 1;
        Slot {
            shared: Arc::clone(self),
            owner,
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        state.free += 1;
        if let Some(held) = state.held.get_mut(&self.owner) {
            *held -= 1;
            if *held == 0 {
                state.held.remove(&self.owner);
            }
        }
        let mut unwanted = Vec::new();
        while let Some(waiter) = state.next_waiter(self.shared.interactive) {
            let slot = self.shared.give(&mut state, waiter.owner);
            unwanted.extend(waiter.sender.send(slot).err());
        }
        // A slot that is dropped here locks the state again.
        drop(state);
        drop(unwanted);
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    fn tenant(name: &str) -> Arc<str> {
        name.into()
    }

    /// Takes slots until there are no more for the tenant.
    fn take_all(slots: &TenantSlots, name: &str, priority: Priority) -> Vec<Slot> {
        std::iter::from_fn(|| slots.try_take(&tenant(name), priority)).collect()
    }

    #[test]
    fn a_tenant_that_takes_all_it_can_leaves_slots_to_others() {
        let slots = TenantSlots::new(16);
        let first = take_all(&slots, "first", Priority::Interactive);
        assert_eq!(first.len(), 12);
        let others: Vec<_> = ["second", "third", "fourth"]
            .iter()
            .map(|name| slots.try_take(&tenant(name), Priority::Interactive))
            .collect();
        assert!(others.iter().all(Option::is_some));
        assert!(take_all(&slots, "first", Priority::Interactive).is_empty());
        drop((first, others));
        assert_eq!(slots.shared.state().free, 16);
        assert!(slots.shared.state().held.is_empty());
    }

    #[test]
    fn bulk_work_leaves_slots_to_interactive_work_of_the_same_tenant() {
        let slots = TenantSlots::new(16);
        let bulk: Vec<_> = ('a'..='z')
            .flat_map(|name| take_all(&slots, &name.to_string(), Priority::Bulk))
            .collect();
        assert_eq!(bulk.len(), 15);
        assert!(
            slots
                .try_take(&tenant("a"), Priority::Interactive)
                .is_some()
        );
    }

    #[test]
    fn one_slot_serves_everyone_in_turn() {
        let slots = TenantSlots::new(1);
        let only = slots.try_take(&tenant("a"), Priority::Bulk).unwrap();
        assert!(slots.try_take(&tenant("b"), Priority::Bulk).is_none());
        let mut waiting = Box::pin(async {
            let name = tenant("b");
            slots.take(&name, Priority::Bulk).await.is_some()
        });
        assert!(waiting.as_mut().now_or_never().is_none());
        drop(only);
        assert_eq!(waiting.now_or_never(), Some(true));
    }

    #[test]
    fn whoever_holds_the_fewest_slots_is_next_and_who_left_is_not_waited_for() {
        let slots = TenantSlots::new(3);
        let [a, b, c, d] = ["a", "b", "c", "d"].map(tenant);
        let mut held: Vec<_> = [&a, &a, &b]
            .iter()
            .filter_map(|tenant| slots.try_take(tenant, Priority::Interactive))
            .collect();
        assert_eq!(held.len(), 3);
        let mut left = Box::pin(slots.take(&c, Priority::Interactive));
        assert!(left.as_mut().now_or_never().is_none());
        let mut more = Box::pin(slots.take(&a, Priority::Interactive));
        assert!(more.as_mut().now_or_never().is_none());
        let mut first = Box::pin(slots.take(&d, Priority::Interactive));
        assert!(first.as_mut().now_or_never().is_none());
        drop(left);
        drop(held.pop());
        assert!(more.as_mut().now_or_never().is_none());
        assert!(first.now_or_never().flatten().is_some());
    }
}
