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
    chunks: Arc<Mutex<HashMap<String, usize>>>,
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

    fn chunks(&self) -> MutexGuard<'_, HashMap<String, usize>> {
        self.chunks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Claiming<'_> {
    /// Returns the tenant that can have no further chunk. While a loop is free, there is at most one.
    pub(super) fn full_tenant(&self) -> Option<String> {
        let chunks = self.shares.chunks();
        let full = chunks.iter().find(|(_, count)| **count >= self.shares.most);
        full.map(|(tenant, _)| tenant.clone())
    }

    /// Counts a chunk of a tenant.
    pub(super) fn add(&mut self, tenant: &str) -> ChunkShare {
        *self.shares.chunks().entry(tenant.to_owned()).or_default() += 1;
        ChunkShare {
            shares: self.shares.clone(),
            tenant: tenant.to_owned(),
        }
    }
}

impl Drop for ChunkShare {
    fn drop(&mut self) {
        let mut chunks = self.shares.chunks();
        if let Some(count) = chunks.get_mut(&self.tenant) {
            *count -= 1;
            if *count == 0 {
                chunks.remove(&self.tenant);
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
        drop(first);
        assert_eq!(claiming.full_tenant(), None);
    }
}
