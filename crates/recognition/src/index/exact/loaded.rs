//! The rows of one collection in memory.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use facescan_index::{Segment, Slab};
use facescan_inference::pool::{CpuPool, PoolError, Stage};
use facescan_store::{IndexChange, IndexPosition, IndexRow, Store};
use uuid::Uuid;

use super::{super::IndexError, queue::ScanQueue};

/// The rows that are read at a time.
const ROWS: u32 = 8192;

/// The changes that are read at a time.
const CHANGES: u32 = 1000;

/// A collection in memory.
pub(super) struct LoadedCollection {
    id: Uuid,
    /// `None` until the collection is loaded.
    rows: tokio::sync::Mutex<Option<Rows>>,
    queue: Mutex<ScanQueue>,
}

/// The rows, and the last change that they contain.
struct Rows {
    slab: Slab,
    position: u64,
}

/// The size of a collection in memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct LoadedSize {
    pub rows: u64,
    pub position: u64,
}

impl LoadedCollection {
    pub(crate) fn new(id: Uuid) -> Self {
        Self {
            id,
            rows: tokio::sync::Mutex::default(),
            queue: Mutex::default(),
        }
    }

    /// Returns the searches that wait.
    pub(crate) fn queue(&self) -> MutexGuard<'_, ScanQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) async fn memory(&self) -> usize {
        let rows = self.rows.lock().await;
        rows.as_ref().map_or(0, |rows| rows.slab.memory())
    }

    /// Returns the rows as they are now. Later changes do not affect them.
    pub(crate) async fn snapshot(&self) -> Option<Vec<Arc<Segment>>> {
        let rows = self.rows.lock().await;
        rows.as_ref().map(|rows| rows.slab.snapshot())
    }

    /// Loads the collection if it is not loaded, and applies the changes up to a position.
    ///
    /// This happens in a task of its own, so that a request that is cancelled does not interrupt it.
    pub(crate) async fn catch_up(
        self: &Arc<Self>,
        store: &Store,
        pool: &Arc<CpuPool>,
        wanted: IndexPosition,
    ) -> Result<LoadedSize, IndexError> {
        if let Some(size) = self.size_at(wanted.position).await {
            return Ok(size);
        }
        let (collection, store, pool) = (Arc::clone(self), store.clone(), Arc::clone(pool));
        let task = async move { collection.follow(&store, &pool, &wanted).await };
        let followed = tokio::spawn(task).await;
        followed.unwrap_or(Err(IndexError::Pool(PoolError::Panicked)))
    }

    /// Returns the size if the changes up to a position are applied.
    async fn size_at(&self, position: u64) -> Option<LoadedSize> {
        let rows = self.rows.lock().await;
        let rows = rows.as_ref().filter(|rows| rows.position >= position)?;
        Some(rows.size())
    }

    async fn follow(
        &self,
        store: &Store,
        pool: &CpuPool,
        wanted: &IndexPosition,
    ) -> Result<LoadedSize, IndexError> {
        let mut loaded = self.rows.lock().await;
        loop {
            // The rows stay in `loaded` while the database is read, because a read can fail.
            let changes = match loaded.as_ref() {
                Some(rows) if rows.position >= wanted.position => return Ok(rows.size()),
                Some(rows) => Changes::read(store, self.id, rows.position).await?,
                None => None,
            };
            let rows = match (loaded.take(), changes) {
                (Some(rows), Some(changes)) => changes.apply(pool, rows).await?,
                (_, _) => load(store, pool, wanted).await?,
            };
            *loaded = Some(rows);
        }
    }
}

impl Rows {
    fn size(&self) -> LoadedSize {
        LoadedSize {
            rows: self.slab.len() as u64,
            position: self.position,
        }
    }
}

/// Changes that follow a position, with the vectors of the rows that were added.
struct Changes {
    changes: Vec<IndexChange>,
    added: Vec<IndexRow>,
}

impl Changes {
    /// Reads the changes after a position. Returns `None` if the next one was deleted, because it is old.
    async fn read(store: &Store, collection: Uuid, after: u64) -> Result<Option<Self>, IndexError> {
        let changes = store.index_changes(collection, after, CHANGES).await?;
        if changes.first().map(|change| change.position) != Some(after + 1) {
            return Ok(None);
        }
        let added = changes.iter().filter(|change| change.is_added);
        let added: Vec<u64> = added.map(|change| change.row).collect();
        let added = store.index_rows_of(collection, &added).await?;
        Ok(Some(Self { changes, added }))
    }

    async fn apply(self, pool: &CpuPool, rows: Rows) -> Result<Rows, IndexError> {
        let mut slab = insert(pool, rows.slab, self.added).await?;
        // A row is never added again after it was removed.
        for change in self.changes.iter().filter(|change| !change.is_added) {
            slab.remove(change.row);
        }
        let last = self.changes.last().map(|change| change.position);
        Ok(Rows {
            slab,
            position: last.unwrap_or(rows.position),
        })
    }
}

/// Reads all rows of a collection. Rows that are added or removed meanwhile are in changes after the position.
async fn load(
    store: &Store,
    pool: &CpuPool,
    collection: &IndexPosition,
) -> Result<Rows, IndexError> {
    let mut slab = Slab::new(collection.dim as usize).map_err(IndexError::Vector)?;
    let mut after = 0;
    loop {
        let page = store
            .index_rows(collection.collection_id, after, ROWS)
            .await?;
        let Some(last) = page.last() else {
            return Ok(Rows {
                slab,
                position: collection.position,
            });
        };
        after = last.row;
        slab = insert(pool, slab, page).await?;
    }
}

/// Adds rows on a thread of the pool, because their vectors are quantized.
async fn insert(pool: &CpuPool, slab: Slab, rows: Vec<IndexRow>) -> Result<Slab, IndexError> {
    let insert = move || {
        let mut slab = slab;
        for row in rows {
            slab.insert(row.row, &row.vector)?;
        }
        Ok(slab)
    };
    pool.run(Stage::Infer, insert)
        .await?
        .map_err(IndexError::Vector)
}
