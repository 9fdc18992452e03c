//! Keeps the points of one collection up to date with the database.

use std::{collections::HashSet, sync::Arc};

use facescan_inference::pool::PoolError;
use facescan_store::{IndexChange, IndexPosition, Store};
use qdrant_client::QdrantError;
use tokio::sync::Mutex;
use uuid::Uuid;

use super::{
    super::IndexError,
    points::{PointCollection, is_missing},
};

/// The rows that are read from the database and written to the server at a time.
const ROWS: u32 = 1000;

/// The changes that are read at a time.
const CHANGES: u32 = 1000;

/// A collection whose points follow the database.
pub(super) struct FollowedCollection {
    id: Uuid,
    pub points: Arc<PointCollection>,
    store: Store,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The position that the server had at the last look. `None` before the first look, and after an error.
    position: Option<u64>,
    /// Whether the number of points was compared with that of the rows, and no write has failed since.
    is_checked: bool,
}

/// What became of changes.
enum Applied {
    /// The server has them up to this position.
    UpTo(u64),
    /// The next change was deleted, because it is old.
    TooOld,
    /// The collection was erased, and its points were removed.
    Erased,
}

impl FollowedCollection {
    pub(crate) fn new(id: Uuid, points: Arc<PointCollection>, store: Store) -> Self {
        Self {
            id,
            points,
            store,
            state: Mutex::default(),
        }
    }

    /// Brings the server up to a position, and returns the one that it has then. `None` if the collection was erased.
    ///
    /// This happens in a task of its own, because a request that is cancelled between two writes would leave rows that were
    /// removed meanwhile.
    pub(crate) async fn catch_up(
        self: &Arc<Self>,
        wanted: &IndexPosition,
    ) -> Result<Option<u64>, IndexError> {
        let (collection, wanted) = (Arc::clone(self), wanted.position);
        let task = async move {
            let mut state = collection.state.lock().await;
            match state.position {
                Some(position) if position >= wanted => Ok(Some(position)),
                _ => collection.follow(&mut state, wanted).await,
            }
        };
        in_task(task).await
    }

    /// Brings the server up to the position of the database. `stored` is the position that the server had before.
    pub(crate) async fn refresh(
        self: &Arc<Self>,
        stored: Option<u64>,
        current: &IndexPosition,
    ) -> Result<(), IndexError> {
        let (collection, current) = (Arc::clone(self), current.position);
        let task = async move {
            let mut state = collection.state.lock().await;
            if stored.is_some_and(|stored| stored > current) {
                tracing::warn!(
                    collection = %collection.id,
                    "the index is ahead of the database, which was restored; the collection is loaded again"
                );
                return collection.reload(&mut state).await;
            }
            if stored != Some(current) {
                collection.follow(&mut state, current).await?;
            }
            match state.is_checked {
                true => Ok(()),
                false => collection.check(&mut state).await,
            }
        };
        in_task(task).await
    }

    /// Removes the rows from the server, and writes them again.
    pub(crate) async fn rebuild(self: &Arc<Self>) -> Result<(), IndexError> {
        let collection = Arc::clone(self);
        let task = async move {
            let mut state = collection.state.lock().await;
            collection.points.drop_rows(collection.id).await?;
            collection.points.forget().await;
            collection.reload(&mut state).await
        };
        in_task(task).await
    }

    /// Clears what is known of the server.
    pub(crate) async fn forget(&self) {
        self.points.forget().await;
        self.state.lock().await.position = None;
    }

    async fn follow(&self, state: &mut State, wanted: u64) -> Result<Option<u64>, IndexError> {
        let mut followed = self.try_follow(wanted).await;
        if followed.as_ref().is_err_and(is_lost) {
            // The server was emptied since it was last used.
            self.points.forget().await;
            followed = self.try_follow(wanted).await;
        }
        if followed.is_err() {
            // The server may have done a part of it, or do it later.
            state.is_checked = false;
        }
        state.position = followed.as_ref().ok().copied().flatten();
        followed
    }

    async fn reload(&self, state: &mut State) -> Result<(), IndexError> {
        state.is_checked = false;
        state.position = None;
        self.points.create().await?;
        state.position = self.load().await?;
        Ok(())
    }

    /// Follows from the position that the server has, because another process may have applied the changes.
    async fn try_follow(&self, wanted: u64) -> Result<Option<u64>, IndexError> {
        self.points.create().await?;
        match self.points.position(self.id).await? {
            Some(position) => self.follow_from(position, wanted).await,
            None => self.load().await,
        }
    }

    async fn follow_from(&self, position: u64, wanted: u64) -> Result<Option<u64>, IndexError> {
        let mut position = position;
        while position < wanted {
            position = match self.apply(position).await? {
                Applied::UpTo(position) => position,
                Applied::TooOld => return Box::pin(self.load()).await,
                Applied::Erased => return Ok(None),
            };
        }
        Ok(Some(position))
    }

    /// Applies the changes after a position.
    async fn apply(&self, after: u64) -> Result<Applied, IndexError> {
        let changes = self.store.index_changes(self.id, after, CHANGES).await?;
        let last = match (changes.first(), changes.last()) {
            (Some(first), Some(last)) if first.position == after + 1 => last.position,
            _ => return Ok(Applied::TooOld),
        };
        let added = rows(&changes, true);
        let written = self.store.index_rows_of(self.id, &added).await?;
        let written_rows: Vec<u64> = written.iter().map(|row| row.row).collect();
        self.points.upsert(self.id, written).await?;
        // A row is never added again after it was removed.
        self.points.delete(&rows(&changes, false)).await?;
        if !written_rows.is_empty() && !self.is_left(&written_rows).await? {
            return Ok(Applied::Erased);
        }
        self.points.move_position(self.id, last).await?;
        Ok(Applied::UpTo(last))
    }

    /// Removes those of the written rows that were removed from the database before they were written, because another
    /// process may have applied the removal already. Returns whether the collection still exists.
    async fn is_left(&self, written: &[u64]) -> Result<bool, IndexError> {
        if self.store.index_position(self.id).await?.is_none() {
            self.points.drop_rows(self.id).await?;
            return Ok(false);
        }
        self.remove_unless_stored(written).await?;
        Ok(true)
    }

    async fn remove_unless_stored(&self, rows: &[u64]) -> Result<(), IndexError> {
        if rows.is_empty() {
            return Ok(());
        }
        let stored = self.store.index_rows_of(self.id, rows).await?;
        let stored: HashSet<u64> = stored.iter().map(|row| row.row).collect();
        let rows = rows.iter().copied().filter(|row| !stored.contains(row));
        let gone: Vec<u64> = rows.collect();
        Ok(self.points.delete(&gone).await?)
    }

    /// Writes all rows, and removes the points that have no row. Returns the position. `None` if the collection was erased.
    async fn load(&self) -> Result<Option<u64>, IndexError> {
        let Some(before) = self.store.index_position(self.id).await? else {
            self.points.drop_rows(self.id).await?;
            return Ok(None);
        };
        let mut after = 0;
        loop {
            let page = self.store.index_rows(self.id, after, ROWS).await?;
            let page_rows: Vec<u64> = page.iter().map(|row| row.row).collect();
            let last = page_rows.last().copied();
            self.points.upsert(self.id, page).await?;
            self.remove_others((after + 1, last.unwrap_or(u64::MAX)), &page_rows)
                .await?;
            match last {
                Some(last) => after = last,
                None => break,
            }
        }
        self.points
            .create_position(self.id, before.position)
            .await?;
        // Rows that were removed meanwhile are in the changes. They are applied here, because another process can have applied
        // them before the rows were written.
        match self.store.index_position(self.id).await? {
            Some(current) => self.follow_from(before.position, current.position).await,
            None => {
                self.points.drop_rows(self.id).await?;
                Ok(None)
            }
        }
    }

    /// Removes the points of a range that are not in `rows`, unless the database has them meanwhile.
    async fn remove_others(
        &self,
        (first, last): (u64, u64),
        rows: &[u64],
    ) -> Result<(), IndexError> {
        let mut first = first;
        loop {
            let (found, has_more) = self.points.rows(self.id, first).await?;
            let in_range = found.iter().copied().filter(|row| *row <= last);
            let others = in_range.filter(|row| rows.binary_search(row).is_err());
            self.remove_unless_stored(&others.collect::<Vec<_>>())
                .await?;
            match found.last() {
                Some(end) if has_more && *end < last => first = end + 1,
                _ => return Ok(()),
            }
        }
    }

    /// Compares the number of points with that of the rows, and loads the collection again if they differ. A process that
    /// stopped between two writes, or a backup of the server, can be the reason.
    async fn check(&self, state: &mut State) -> Result<(), IndexError> {
        let Some(before) = self.store.index_position(self.id).await? else {
            return Ok(());
        };
        let position = self.points.position(self.id).await?;
        let points = self.points.count(self.id).await?;
        let after = self.store.index_position(self.id).await?;
        if position != Some(before.position) || after.as_ref() != Some(&before) {
            // The rows change now, so they are compared later.
            return Ok(());
        }
        if points != before.enrolled {
            tracing::warn!(
                collection = %self.id,
                points,
                rows = before.enrolled,
                "the index has another number of rows than the database; the collection is loaded again"
            );
            self.reload(state).await?;
        }
        state.is_checked = true;
        Ok(())
    }
}

/// Runs a task to its end, also if the caller is cancelled.
async fn in_task<T: Send + 'static>(
    task: impl Future<Output = Result<T, IndexError>> + Send + 'static,
) -> Result<T, IndexError> {
    let done = tokio::spawn(task).await;
    done.unwrap_or(Err(IndexError::Pool(PoolError::Panicked)))
}

/// Returns the rows that were added, or those that were removed.
fn rows(changes: &[IndexChange], is_added: bool) -> Vec<u64> {
    let changes = changes.iter().filter(|change| change.is_added == is_added);
    changes.map(|change| change.row).collect()
}

/// Returns whether the server does not have the Qdrant collection.
fn is_lost(error: &IndexError) -> bool {
    match error {
        IndexError::Unavailable(error) => {
            error.downcast_ref::<QdrantError>().is_some_and(is_missing)
        }
        _ => false,
    }
}
