//! The requests that wait for a part of a budget.

use std::{
    collections::{HashSet, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::oneshot;

/// The permits that the requests in a line ask for are at most this many times the budget, shared equally by the tenants in it. A
/// longer line would be served after its requests have given up. A tenant that has nothing in the line can always join it.
const LENGTH: usize = 8;

/// Requests that wait for a part `T` of a budget. Those of a tenant are served in their order.
pub(super) struct Line<T> {
    limit: usize,
    waiting: Mutex<VecDeque<Waiting<T>>>,
}

struct Waiting<T> {
    tenant: Arc<str>,
    amount: usize,
    taken: oneshot::Sender<T>,
}

/// When a request gets its part of a budget.
pub(super) enum Turn<T> {
    Now(T),
    Later(oneshot::Receiver<T>),
    Never,
}

impl<T> Line<T> {
    /// Creates the line of a budget of `capacity` permits.
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            limit: capacity.saturating_mul(LENGTH),
            waiting: Mutex::default(),
        }
    }

    /// Takes `amount` permits with `try_take`, or joins the line.
    pub(super) fn take_or_join(
        &self,
        tenant: &Arc<str>,
        amount: usize,
        try_take: impl Fn(&Arc<str>, usize) -> Option<T>,
    ) -> Turn<T> {
        let mut line = self.waiting();
        let is_first = !line.iter().any(|other| other.tenant == *tenant);
        if is_first && let Some(taken) = try_take(tenant, amount) {
            return Turn::Now(taken);
        }
        if !self.has_room(&line, tenant, amount) {
            return Turn::Never;
        }
        let (sender, receiver) = oneshot::channel();
        line.push_back(Waiting {
            tenant: Arc::clone(tenant),
            amount,
            taken: sender,
        });
        Turn::Later(receiver)
    }

    /// Returns whether a request of a tenant for one permit could join the line now.
    pub(super) fn has_place(&self, tenant: &Arc<str>) -> bool {
        self.has_room(&self.waiting(), tenant, 1)
    }

    /// Gives parts of the budget to those that wait for them, after something was returned to it.
    pub(super) fn serve(&self, try_take: impl Fn(&Arc<str>, usize) -> Option<T>) {
        let mut unwanted = Vec::new();
        {
            let mut line = self.waiting();
            let mut blocked = HashSet::new();
            for one in std::mem::take(&mut *line) {
                if blocked.contains(&one.tenant) {
                    line.push_back(one);
                } else if let Some(taken) = try_take(&one.tenant, one.amount) {
                    unwanted.extend(one.taken.send(taken).err());
                } else {
                    blocked.insert(Arc::clone(&one.tenant));
                    line.push_back(one);
                }
            }
        }
        // What is returned serves the line again, so it is dropped without the lock.
        drop(unwanted);
    }

    fn has_room(&self, line: &VecDeque<Waiting<T>>, tenant: &Arc<str>, amount: usize) -> bool {
        let tenants: HashSet<_> = line.iter().map(|one| &one.tenant).chain([tenant]).collect();
        let own = line.iter().filter(|one| one.tenant == *tenant);
        let own: usize = own.map(|one| one.amount).sum();
        own == 0 || own.saturating_add(amount) <= self.limit / tenants.len()
    }

    /// Returns the line, without those that gave up.
    fn waiting(&self) -> MutexGuard<'_, VecDeque<Waiting<T>>> {
        // The line is whole also after a panic elsewhere: nothing panics between two changes.
        let mut line = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        line.retain(|other| !other.taken.is_closed());
        line
    }
}
