//! The index in Postgres, by its extension pgvector.
//!
//! The database compares the vectors of `enrollments` itself, so the index is never behind, and this process keeps no vector.
//! A small collection is compared row by row. A large one has an HNSW index, which finds most of the similar rows without
//! reading all of them.

mod maintenance;

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use facescan_store::{IndexPosition, IndexWork, NearestRows, Store, StoreError, VectorIndexes};
use tokio::task::JoinHandle;

use super::{
    FaceIndex, IndexContents, IndexError, IndexKind, IndexQuery, IndexState, Proposal, Proposals,
};
use maintenance::Maintenance;

pub use maintenance::HnswSettings;

/// The index of all collections in Postgres.
pub struct PgvectorIndex {
    maintenance: Arc<Maintenance>,
    /// The task that builds and drops indexes. `None` if none has been started, or if its result was taken.
    task: Mutex<Option<JoinHandle<Result<(), StoreError>>>>,
}

impl PgvectorIndex {
    /// Creates an index.
    pub fn new(collections: Store, vectors: VectorIndexes, settings: HnswSettings) -> Self {
        Self {
            maintenance: Arc::new(Maintenance::new(collections, vectors, settings)),
            task: Mutex::default(),
        }
    }

    /// Builds the HNSW indexes that are missing, and drops those that are no longer needed.
    ///
    /// [`refresh`](FaceIndex::refresh) does this in a task of its own. If another process builds or drops indexes, this
    /// leaves the work to it.
    ///
    /// # Errors
    /// Returns an error of the database. The next call tries again.
    pub async fn maintain(&self) -> Result<(), IndexError> {
        Ok(self.maintenance.run().await?)
    }

    /// Takes the task that builds indexes if it has ended, and starts the next one. Returns the task that has ended.
    fn next_task(&self) -> Option<JoinHandle<Result<(), StoreError>>> {
        let mut task = self.task.lock().unwrap_or_else(PoisonError::into_inner);
        if task.as_ref().is_some_and(|task| !task.is_finished()) {
            return None;
        }
        let maintenance = Arc::clone(&self.maintenance);
        let next = tokio::spawn(async move { maintenance.run().await });
        task.replace(next)
    }
}

#[async_trait]
impl FaceIndex for PgvectorIndex {
    fn kind(&self) -> IndexKind {
        IndexKind::Pgvector
    }

    async fn propose(&self, query: IndexQuery<'_>) -> Result<Proposals, IndexError> {
        let collection = query.collection;
        let uses_graph = self.maintenance.is_large(&collection) && !query.must_be_exact;
        let near = self.maintenance.vectors.nearest_rows(NearestRows {
            collection: collection.collection_id,
            dim: collection.dim,
            vectors: query.vectors,
            rows: u32::try_from(query.rows).unwrap_or(u32::MAX),
            candidates: uses_graph.then_some(self.maintenance.settings.candidates),
        });
        let near = near.await?;
        let proposals = near.rows.into_iter().map(|rows| {
            let rows = rows.into_iter().map(|near| Proposal {
                row: near.row,
                similarity: near.similarity,
            });
            rows.collect()
        });
        Ok(Proposals {
            rows: proposals.collect(),
            is_exact: near.is_exact,
            // The database has applied every change.
            searched: collection.enrolled,
            position: collection.position,
        })
    }

    /// Does nothing, because the rows are in the database.
    async fn load(&self) -> Result<(), IndexError> {
        Ok(())
    }

    /// Starts to build indexes, and does not wait for them. Returns the error of the task that was started before.
    async fn refresh(&self) -> Result<(), IndexError> {
        let Some(ended) = self.next_task() else {
            return Ok(());
        };
        match ended.await {
            Ok(result) => Ok(result?),
            Err(error) => {
                tracing::error!(%error, "the task that builds indexes ended early; it is started again");
                Ok(())
            }
        }
    }

    async fn contents(&self, collection: &IndexPosition) -> Result<IndexContents, IndexError> {
        let indexes = self.maintenance.vectors.vector_indexes().await?;
        let id = collection.collection_id;
        let Some(index) = indexes.iter().find(|index| index.collection == id) else {
            return Ok(IndexContents::without_rows(IndexState::Scanned));
        };
        Ok(IndexContents {
            bytes: Some(index.bytes),
            ..IndexContents::without_rows(match index.is_built {
                true => IndexState::Built,
                false => IndexState::Unfinished,
            })
        })
    }

    async fn rebuild(&self, collection: &IndexPosition) -> Result<(), IndexError> {
        let vectors = &self.maintenance.vectors;
        let done = |work| match work {
            IndexWork::Done => Ok(()),
            IndexWork::Busy => Err(IndexError::Busy),
        };
        done(vectors.drop_vector_index(collection.collection_id).await?)?;
        if self.maintenance.is_large(collection) {
            let graph = self.maintenance.settings.graph;
            done(
                vectors
                    .build_vector_index(collection.clone(), graph)
                    .await?,
            )?;
        }
        Ok(())
    }

    /// Does nothing, because the indexes are in the files of the database.
    async fn purge(&self) -> Result<(), IndexError> {
        Ok(())
    }
}

impl Drop for PgvectorIndex {
    fn drop(&mut self) {
        let task = self.task.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(task) = task {
            task.abort();
        }
    }
}
