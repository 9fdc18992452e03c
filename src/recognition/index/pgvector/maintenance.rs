//! Which collections have an HNSW index.

use std::{collections::HashMap, sync::Arc};

use facescan_store::{
    CollectionStore, IndexPosition, IndexWork, MAX_INDEXED_DIM, StoreError, VectorIndex,
    VectorIndexStore,
};
use uuid::Uuid;

use super::HnswSettings;

/// Builds and drops HNSW indexes.
pub(super) struct Maintenance {
    pub(super) collections: Arc<dyn CollectionStore>,
    pub(super) vectors: Arc<dyn VectorIndexStore>,
    pub(super) settings: HnswSettings,
}

/// What is done to the index of a collection.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Work {
    Build(IndexPosition),
    Drop(Uuid),
}

impl Maintenance {
    /// Returns whether an index is used for a collection as soon as it is built.
    pub(super) fn is_large(&self, collection: &IndexPosition) -> bool {
        collection.enrolled >= self.settings.min_faces && collection.dim <= MAX_INDEXED_DIM
    }

    /// Builds what is missing and drops what is not needed, one index at a time. An index that fails does not hold up the
    /// others. Another process that does such work has found the same, so this leaves the rest to it.
    pub(super) async fn run(&self) -> Result<(), StoreError> {
        let mut result = Ok(());
        for work in self.missing().await? {
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
                let done = self.vectors.build_vector_index(collection).await?;
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
        // An index stays until the collection is much smaller, so that a few erasures and enrolments do not rebuild it.
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
