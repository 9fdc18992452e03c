//! The chunks that a worker has in work, by tenant.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::Mutex as AsyncMutex;

/// Counts the chunks in work. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct ChunkShares {
    most: usize,
    claiming: Arc<AsyncMutex<()>>,
    held: Arc<Mutex<Held>>,
}

#[derive(Default)]
struct Held {
    /// The chunks in work of each tenant that has some.
    chunks: HashMap<String, usize>,
    /// How often a loop was woken and found chunks only of a tenant that can have no further one. Loops that end a chunk make up
    /// for it, because a chunk wakes one loop only.
    missed: usize,
}

/// The right to claim a chunk.
pub(super) struct Claiming<'a> {
    shares: &'a ChunkShares,
    _turn: tokio::sync::MutexGuard<'a, ()>,
}

/// A chunk in work. Dropping it lets its tenant have another one.
pub(super) struct ChunkShare {
    shares: ChunkShares,
    tenant: String,
}

impl ChunkShares {
    /// Creates a counter of a worker that takes at most `most` chunks of a tenant at a time, and at most twice as many at all.
    pub(super) fn new(most: usize) -> Self {
        Self {
            most,
            ..Self::default()
        }
    }

    /// Waits until no other loop claims a chunk.
    pub(super) async fn claim(&self) -> Claiming<'_> {
        Claiming {
            shares: self,
            _turn: self.claiming.lock().await,
        }
    }

    /// Returns whether the loop that has ended a chunk has to ask again for one that another loop could not have.
    pub(super) fn take_missed(&self) -> bool {
        let mut held = self.held();
        let has_missed = held.missed > 0;
        held.missed = held.missed.saturating_sub(1);
        has_missed
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Claiming<'_> {
    /// Returns the tenant that can have no further chunk. While a loop is free, there is at most one.
    pub(super) fn full_tenant(&self) -> Option<String> {
        let held = self.shares.held();
        let full = held
            .chunks
            .iter()
            .find(|(_, count)| **count >= self.shares.most);
        full.map(|(tenant, _)| tenant.clone())
    }

    /// Notes that there was no chunk, and which tenant was left out. Returns whether that tenant can have a chunk now.
    pub(super) fn found_nothing(&mut self, full: Option<&str>) -> bool {
        let mut held = self.shares.held();
        let Some(full) = full else {
            held.missed = 0;
            return false;
        };
        let chunks = held.chunks.get(full).copied().unwrap_or_default();
        let is_free = chunks < self.shares.most;
        if !is_free {
            held.missed += 1;
        }
        is_free
    }

    /// Counts a chunk of a tenant.
    pub(super) fn add(&mut self, tenant: &str) -> ChunkShare {
        let mut held = self.shares.held();
        *held.chunks.entry(tenant.to_owned()).or_default() += 1;
        drop(held);
        ChunkShare {
            shares: self.shares.clone(),
            tenant: tenant.to_owned(),
        }
    }
}

impl Drop for ChunkShare {
    fn drop(&mut self) {
        let mut held = self.shares.held();
        if let Some(count) = held.chunks.get_mut(&self.tenant) {
            *count -= 1;
            if *count == 0 {
                held.chunks.remove(&self.tenant);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_tenant_with_all_of_its_chunks_gets_another_one_when_one_is_done() {
        let shares = ChunkShares::new(2);
        let mut claiming = shares.claim().await;
        let first = claiming.add("one");
        let _other = claiming.add("other");
        assert_eq!(claiming.full_tenant(), None);
        let _second = claiming.add("one");
        assert_eq!(claiming.full_tenant().as_deref(), Some("one"));
        assert!(!claiming.found_nothing(Some("one")));
        drop(first);
        assert!(
            claiming.found_nothing(Some("one")),
            "a chunk has ended meanwhile"
        );
        assert_eq!(claiming.full_tenant(), None);
        assert!(shares.take_missed());
        assert!(!shares.take_missed());
        assert!(!claiming.found_nothing(None));
        assert!(!shares.take_missed());
    }
}
