//! The chunks that a worker has in work, and how many a tenant can have.

use std::collections::HashMap;

use tokio::task::{Id, JoinSet};

/// The number of tenants that can have a chunk although the others use up what they share. Images that do not arrive hold their
/// chunks for minutes, whatever number of tenants they belong to.
const OTHER_TENANTS: usize = 64;

pub(super) struct ChunksInWork {
    /// The most of a tenant, and half of those that tenants share.
    most: usize,
    tasks: JoinSet<()>,
    tenants: HashMap<Id, String>,
}

impl ChunksInWork {
    pub(super) fn new(most: usize) -> Self {
        Self {
            most: most.max(1),
            tasks: JoinSet::new(),
            tenants: HashMap::new(),
        }
    }

    /// Starts the work on a chunk of a tenant.
    pub(super) fn begin(
        &mut self,
        tenant: String,
        work: impl Future<Output = ()> + Send + 'static,
    ) {
        let task = self.tasks.spawn(work);
        self.tenants.insert(task.id(), tenant);
    }

    /// Waits for the end of a chunk. Returns `None` if none is in work.
    pub(super) async fn end(&mut self) -> Option<()> {
        let ended = self.tasks.join_next_with_id().await?;
        let task = ended.map(|(task, ())| task).unwrap_or_else(|error| {
            tracing::error!(%error, "the work on a chunk ended early");
            error.id()
        });
        self.tenants.remove(&task);
        Some(())
    }

    /// Returns the tenants that can have no further chunk now, or `None` if no tenant can.
    pub(super) fn full_tenants(&self) -> Option<Vec<String>> {
        let shared = self.most.saturating_mul(2);
        let all = self.tenants.len();
        if all >= shared.saturating_add(OTHER_TENANTS) {
            return None;
        }
        let most = if all < shared { self.most } else { 1 };
        let mut counts: HashMap<&String, usize> = HashMap::new();
        for tenant in self.tenants.values() {
            *counts.entry(tenant).or_default() += 1;
        }
        let full = counts.into_iter().filter(|(_, count)| *count >= most);
        Some(full.map(|(tenant, _)| tenant.clone()).collect())
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    fn full(chunks: &ChunksInWork) -> Vec<String> {
        let mut full = chunks.full_tenants().unwrap();
        full.sort();
        full
    }

    #[tokio::test]
    async fn tenants_with_all_of_their_chunks_leave_one_to_each_other_tenant() {
        let mut chunks = ChunksInWork::new(2);
        assert!(full(&chunks).is_empty());
        for (tenant, expected) in [("a", vec![]), ("a", vec!["a"]), ("b", vec!["a"])] {
            chunks.begin(tenant.into(), pending());
            assert_eq!(full(&chunks), expected);
        }
        chunks.begin("b".into(), pending());
        assert_eq!(full(&chunks), ["a", "b"]);
        chunks.begin("c".into(), pending());
        assert_eq!(full(&chunks), ["a", "b", "c"]);
        for other in 1..OTHER_TENANTS {
            assert!(chunks.full_tenants().is_some());
            chunks.begin(other.to_string(), pending());
        }
        assert_eq!(chunks.full_tenants(), None);
    }

    #[tokio::test]
    async fn a_chunk_that_ends_makes_room_also_if_it_panics() {
        let mut chunks = ChunksInWork::new(1);
        chunks.begin("a".into(), ready(()));
        chunks.begin("b".into(), async { panic!("a chunk that panics") });
        assert_eq!(full(&chunks), ["a", "b"]);
        chunks.end().await.unwrap();
        chunks.end().await.unwrap();
        assert!(full(&chunks).is_empty());
        assert_eq!(chunks.end().await, None);
    }
}
