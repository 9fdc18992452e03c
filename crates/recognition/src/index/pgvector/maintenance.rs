//! Which collections have an HNSW index.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use facescan_store::{
    Graph, IndexPosition, IndexWork, MAX_INDEXED_DIM, Store, StoreError, VectorIndex, VectorIndexes,
};
use uuid::Uuid;

/// When a collection has an HNSW index, and how it is searched.
#[derive(Clone, Copy, Debug)]
pub struct HnswSettings {
    /// The fewest faces of a collection that gets an index.
    pub min_faces: u64,
    /// The candidates that a search keeps, at most 1000. With more, a search misses fewer faces and takes longer.
    pub candidates: u32,
    /// The graph of an index that is built.
    pub graph: Graph,
}

/// Builds and drops HNSW indexes.
pub(super) struct Maintenance {
    pub(super) collections: Store,
    pub(super) vectors: VectorIndexes,
    pub(super) settings: HnswSettings,
    delay: Mutex<BuildDelay>,
}

/// The time between builds after one failed, counted in runs.
///
/// A build can fail after hours, because a disk is full, and must not begin again at once.
#[derive(Debug, Default)]
struct BuildDelay {
    /// The builds that failed one after the other.
    failures: u32,
    /// The runs that build nothing before the next attempt.
    runs_to_skip: u32,
}

/// The runs that build nothing after a failure. With a run every five seconds, this is a minute.
const FIRST_SKIP: u32 = 12;

/// The most runs that build nothing: an hour.
const MAX_SKIP: u32 = 720;

impl BuildDelay {
    /// Returns whether the next run may build.
    fn may_build(&mut self) -> bool {
        let may_build = self.runs_to_skip == 0;
        self.runs_to_skip = self.runs_to_skip.saturating_sub(1);
        may_build
    }

    /// Notes how a build ended.
    fn note(&mut self, has_failed: bool) {
        if !has_failed {
            self.failures = 0;
            return;
        }
        self.failures += 1;
        self.runs_to_skip = (FIRST_SKIP << (self.failures - 1).min(6)).min(MAX_SKIP);
    }
}

/// What is done to the index of a collection.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Work {
    Build(IndexPosition),
    Drop(Uuid),
}

impl Maintenance {
    pub(super) fn new(collections: Store, vectors: VectorIndexes, settings: HnswSettings) -> Self {
        Self {
            collections,
            vectors,
            settings,
            delay: Mutex::default(),
        }
    }

    fn delay(&self) -> MutexGuard<'_, BuildDelay> {
        self.delay.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether an index is used for a collection as soon as it is built.
    pub(super) fn is_large(&self, collection: &IndexPosition) -> bool {
        collection.enrolled >= self.settings.min_faces && collection.dim <= MAX_INDEXED_DIM
    }

    /// Builds what is missing and drops what is not needed, one index at a time. An index that fails does not hold up the
    /// others. Another process that does such work has found the same, so this leaves the rest to it. After a failed build, some
    /// runs only drop.
    pub(super) async fn run(&self) -> Result<(), StoreError> {
        let mut result = Ok(());
        let may_build = self.delay().may_build();
        for work in self.missing().await? {
            if !may_build && matches!(work, Work::Build(_)) {
                continue;
            }
            match self.work(work).await {
                Ok(IndexWork::Done) => {}
                Ok(IndexWork::Busy) => break,
                Err(error) => result = Err(error),
            }
        }
        result
    }

    async fn work(&self, work: Work) -> Result<IndexWork, StoreError> {
        match work {
            Work::Build(collection) => {
                let (id, faces) = (collection.collection_id, collection.enrolled);
                let graph = self.settings.graph;
                let built = self.vectors.build_vector_index(collection, graph).await;
                self.delay().note(built.is_err());
                let done = built?;
                if done == IndexWork::Done {
                    tracing::info!(collection = %id, faces, "built an index");
                }
                Ok(done)
            }
            Work::Drop(id) => {
                let done = self.vectors.drop_vector_index(id).await?;
                if done == IndexWork::Done {
                    tracing::info!(collection = %id, "dropped an index that is not needed any more");
                }
                Ok(done)
            }
        }
    }

    /// Returns what is to be done. Indexes are dropped first, because they can have the vectors of erased people.
    async fn missing(&self) -> Result<Vec<Work>, StoreError> {
        // The indexes first: the collection of an index that is found here is older than the list of collections.
        let indexes = self.vectors.vector_indexes().await?;
        let collections = self.collections.index_positions().await?;
        Ok(self.compare(&indexes, &collections))
    }

    fn compare(&self, indexes: &[VectorIndex], collections: &[IndexPosition]) -> Vec<Work> {
        let sizes: HashMap<Uuid, u64> = collections
            .iter()
            .map(|it| (it.collection_id, it.enrolled))
            .collect();
        // An index stays until the collection is much smaller, so that a few erasures and enrollments do not rebuild it.
        let is_needed = |id: &Uuid| {
            sizes
                .get(id)
                .is_some_and(|faces| *faces >= self.settings.min_faces.div_ceil(2))
        };
        let is_built = |id: Uuid| indexes.iter().any(|it| it.collection == id && it.is_built);
        let unneeded = indexes.iter().filter(|index| !is_needed(&index.collection));
        let unbuilt = collections
            .iter()
            .filter(|it| self.is_large(it) && !is_built(it.collection_id));
        let drops = unneeded.map(|index| Work::Drop(index.collection));
        drops
            .chain(unbuilt.map(|it| Work::Build(it.clone())))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_delay_the_next_build_more_and_more() {
        let mut delay = BuildDelay::default();
        assert!(delay.may_build());
        let mut skipped = Vec::new();
        for _ in 0..8 {
            delay.note(true);
            let mut runs = 0;
            while !delay.may_build() {
                runs += 1;
            }
            skipped.push(runs);
        }
        assert_eq!(skipped, [12, 24, 48, 96, 192, 384, 720, 720]);
        delay.note(false);
        assert!(delay.may_build());
        delay.note(true);
        assert_eq!(delay.runs_to_skip, FIRST_SKIP);
    }
}
