//! The exact index: all vectors in memory as 8-bit integers, and a scan of all of them for each search.
//!
//! Searches of one collection that wait at the same time share one pass over the memory, because its bandwidth limits the
//! speed. A collection is loaded when it is first needed, or by [`refresh`](FaceIndex::refresh).

mod loaded;
mod queue;
mod scan;

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use facescan_index::Query;
use facescan_inference::pool::CpuPool;
use facescan_store::{IndexPosition, Store};
use futures::future::try_join_all;
use uuid::Uuid;

use super::{FaceIndex, IndexContents, IndexError, IndexKind, IndexQuery, IndexState, Proposals};
use loaded::LoadedCollection;

/// The exact index of all collections.
pub struct ExactIndex {
    store: Store,
    pool: Arc<CpuPool>,
    collections: Mutex<HashMap<Uuid, Arc<LoadedCollection>>>,
}

impl ExactIndex {
    /// Creates an index that reads from `store` and scans on `pool`.
    pub fn new(store: Store, pool: Arc<CpuPool>) -> Self {
        Self {
            store,
            pool,
            collections: Mutex::default(),
        }
    }

    /// Returns the memory of all vectors in bytes.
    pub async fn memory(&self) -> usize {
        let collections: Vec<_> = self.collections().values().cloned().collect();
        let mut bytes = 0;
        for collection in collections {
            bytes += collection.memory().await;
        }
        bytes
    }

    fn collections(&self) -> MutexGuard<'_, HashMap<Uuid, Arc<LoadedCollection>>> {
        self.collections
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn collection(&self, id: Uuid) -> Arc<LoadedCollection> {
        let mut collections = self.collections();
        let collection = collections
            .entry(id)
            .or_insert_with(|| Arc::new(LoadedCollection::new(id)));
        Arc::clone(collection)
    }
}

#[async_trait]
impl FaceIndex for ExactIndex {
    fn kind(&self) -> IndexKind {
        IndexKind::Exact
    }

    async fn propose(&self, query: IndexQuery<'_>) -> Result<Proposals, IndexError> {
        let dim = query.collection.dim as usize;
        let queries = query.vectors.iter().map(|vector| Query::new(dim, vector));
        let queries: Vec<Query> = queries
            .collect::<Result<_, _>>()
            .map_err(IndexError::Vector)?;
        let collection = self.collection(query.collection.collection_id);
        let size = collection
            .catch_up(&self.store, &self.pool, query.collection)
            .await?;
        let answers = queries
            .into_iter()
            .map(|one| scan::search(&collection, &self.pool, one, query.rows));
        Ok(Proposals {
            rows: try_join_all(answers).await?,
            is_exact: true,
            searched: size.rows,
            position: size.position,
        })
    }

    async fn load(&self) -> Result<(), IndexError> {
        let mut result = Ok(());
        for position in self.store.index_positions().await? {
            let collection = self.collection(position.collection_id);
            // A collection that cannot be loaded does not hold up the others.
            let loaded = collection.catch_up(&self.store, &self.pool, position);
            result = loaded.await.map(drop).and(result);
        }
        result
    }

    async fn refresh(&self) -> Result<(), IndexError> {
        let positions = self.store.index_positions().await?;
        let left: HashSet<Uuid> = positions.iter().map(|it| it.collection_id).collect();
        self.collections().retain(|id, _| left.contains(id));
        let mut result = Ok(());
        for position in positions {
            let Some(collection) = self.collections().get(&position.collection_id).cloned() else {
                continue;
            };
            let followed = collection.catch_up(&self.store, &self.pool, position);
            result = followed.await.map(drop).and(result);
        }
        result
    }

    /// Says nothing about rows, because each process has its own.
    async fn contents(&self, _: &IndexPosition) -> Result<IndexContents, IndexError> {
        Ok(IndexContents::without_rows(IndexState::Memory))
    }

    async fn rebuild(&self, collection: &IndexPosition) -> Result<(), IndexError> {
        self.collections().remove(&collection.collection_id);
        let loaded = self.collection(collection.collection_id);
        let position = collection.clone();
        loaded.catch_up(&self.store, &self.pool, position).await?;
        Ok(())
    }

    async fn purge(&self) -> Result<(), IndexError> {
        self.refresh().await
    }
}
