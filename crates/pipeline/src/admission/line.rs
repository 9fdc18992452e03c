//! The requests that wait for a part of a budget.

use std::{
    collections::{HashSet, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::oneshot;

use super::budget::{Budget, Taken};

/// The permits that the requests in a line ask for are at most this many times the budget. A longer line would be served after
/// its requests have given up.
const LENGTH: usize = 8;

/// Requests that wait for a part of a budget. Those of a tenant are served in their order.
#[derive(Default)]
pub(super) struct Line(Mutex<VecDeque<Waiting>>);

struct Waiting {
    tenant: Arc<str>,
    amount: usize,
    taken: oneshot::Sender<Taken>,
}

/// When a request gets its part of a budget.
pub(super) enum Turn {
    Now(Taken),
    Later(oneshot::Receiver<Taken>),
    Never,
}

impl Line {
    /// Takes `amount` permits of a budget, or joins its line.
    pub(super) fn take_or_join(&self, budget: &Budget, tenant: &Arc<str>, amount: usize) -> Turn {
        let mut line = self.waiting();
        // Whoever gave up has no place.
        line.retain(|other| !other.taken.is_closed());
        let is_first = !line.iter().any(|other| other.tenant == *tenant);
        if is_first && let Some(taken) = budget.try_take(tenant, amount) {
            return Turn::Now(taken);
        }
        if !has_place(&line, budget, amount) {
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

    /// Returns whether a request for one permit could join the line now.
    pub(super) fn has_place(&self, budget: &Budget) -> bool {
        let mut line = self.waiting();
        line.retain(|other| !other.taken.is_closed());
        has_place(&line, budget, 1)
    }

    /// Gives parts of the budget to those that wait for them, after something was returned to it.
    pub(super) fn serve(&self, budget: &Budget) {
        let mut unwanted = Vec::new();
        {
            let mut line = self.waiting();
            let mut blocked = HashSet::new();
            for one in std::mem::take(&mut *line) {
                if blocked.contains(&one.tenant) {
                    line.push_back(one);
                } else if one.taken.is_closed() {
                    continue;
                } else if let Some(taken) = budget.try_take(&one.tenant, one.amount) {
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

    fn waiting(&self) -> MutexGuard<'_, VecDeque<Waiting>> {
        // The line is whole also after a panic elsewhere: nothing panics between two changes.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn has_place(line: &VecDeque<Waiting>, budget: &Budget, amount: usize) -> bool {
    let waiting: usize = line.iter().map(|other| other.amount).sum();
    waiting.saturating_add(amount) <= budget.capacity().saturating_mul(LENGTH)
}
