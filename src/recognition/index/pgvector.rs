//! The index in Postgres, by its extension pgvector.
//!
//! The database compares the vectors of `enrolments` itself, so the index is never behind, and this process keeps no vector.
//! A small collection is compared row by row. A large one has an HNSW index, which finds most of the similar rows without
//! reading all of them.

mod maintenance;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use facescan_store::{
    CollectionStore, IndexPosition, IndexWork, NearestRows, StoreError, VectorIndexStore,
};
use tokio::task::JoinHandle;

use super::{
    FaceIndex, IndexContents, IndexError, IndexKind, IndexQuery, IndexState, Proposal, Proposals,
};
use maintenance::Maintenance;

/// When a collection has an HNSW index, and how it is searched.
#[derive(Clone, Copy, Debug)]
pub struct HnswSettings {
    /// The fewest faces of a collection that gets an index.
    pub min_faces: u64,
    /// The candidates that a search keeps, at most 1000. With more, a search misses fewer faces and takes longer.
    pub candidates: u32,
}

/// The index of all collections in Postgres.
pub struct PgvectorIndex {
    maintenance: Arc<Maintenance>,
    work: Mutex<Background>,
}

/// The work that builds and drops indexes in the background.
#[derive(Default)]
struct Background {
    /// The task that works now, or whose result was not taken yet.
    task: Option<JoinHandle<Result<(), StoreError>>>,
    /// The tasks that failed one after the other.
    failures: u32,
    /// The calls of `refresh` before the next task starts.
    calls_to_skip: u32,
}

impl Background {
    /// Notes how a task ended. After failures the next one waits: a minute at first, and at most an hour, if `refresh` is called
    /// every five seconds. A build that fails after hours, because a disk is full, would otherwise never leave the disk alone.
    fn note(&mut self, has_failed: bool) {
        if !has_failed {
            self.failures = 0;
            return;
        }
        self.failures += 1;
        self.calls_to_skip = (FIRST_SKIP << (self.failures - 1).min(6)).min(MAX_SKIP);
    }
}

/// The calls of `refresh` that are skipped after a failure.
const FIRST_SKIP: u32 = 12;

/// The most calls of `refresh` that are skipped.
const MAX_SKIP: u32 = 720;

impl PgvectorIndex {
    /// Creates an index.
    pub fn new(
        collections: Arc<dyn CollectionStore>,
        vectors: Arc<dyn VectorIndexStore>,
        settings: HnswSettings,
    ) -> Self {
        Self {
            maintenance: Arc::new(Maintenance {
                collections,
                vectors,
                settings,
            }),
            work: Mutex::default(),
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

    fn background(&self) -> MutexGuard<'_, Background> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the task if it has ended.
    fn ended_task(&self) -> Option<JoinHandle<Result<(), StoreError>>> {
        self.background().task.take_if(|task| task.is_finished())
    }

    /// Starts the next task, unless one works or the last one failed a short time ago.
    fn start_task(&self) {
        let mut work = self.background();
        if work.calls_to_skip > 0 {
            work.calls_to_skip -= 1;
        } else if work.task.is_none() {
            let maintenance = Arc::clone(&self.maintenance);
            work.task = Some(tokio::spawn(async move { maintenance.run().await }));
        }
    }
}

#[async_trait]
impl FaceIndex for PgvectorIndex {
    fn kind(&self) -> IndexKind {
        IndexKind::Pgvector
    }

    async fn propose(&self, query: IndexQuery<'_>) -> Result<Proposals, IndexError> {
        let collection = query.collection;
        let is_large = self.maintenance.is_large(&collection);
        let near = self.maintenance.vectors.nearest_rows(NearestRows {
            collection: collection.collection_id,
            dim: collection.dim,
            vectors: query.vectors,
            rows: u32::try_from(query.rows).unwrap_or(u32::MAX),
            candidates: is_large.then_some(self.maintenance.settings.candidates),
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
        let mut result = Ok(());
        if let Some(ended) = self.ended_task() {
            result = match ended.await {
                Ok(result) => result.map_err(IndexError::from),
                Err(error) => {
                    tracing::error!(%error, "the task that builds indexes ended early; it is started again");
                    Ok(())
                }
            };
            self.background().note(result.is_err());
        }
        self.start_task();
        result
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
            done(vectors.build_vector_index(collection.clone()).await?)?;
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
        if let Some(task) = self.background().task.take() {
            task.abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_delay_the_next_task_more_and_more() {
        let mut work = Background::default();
        let mut skipped = Vec::new();
        for _ in 0..8 {
            work.note(true);
            skipped.push(work.calls_to_skip);
        }
        assert_eq!(skipped, [12, 24, 48, 96, 192, 384, 720, 720]);
        work.note(false);
        work.note(true);
        assert_eq!(work.calls_to_skip, 12);
    }
}
