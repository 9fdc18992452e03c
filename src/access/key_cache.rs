//! Keys of the database that were read recently, so that a request does not wait for the database.

use std::{sync::Arc, time::Duration};

use facescan_clock::Clock;
use facescan_store::{ApiKey, Store, StoreError};
use quick_cache::sync::Cache;
use tokio::sync::Semaphore;

/// The number of keys that are remembered, with ids that do not exist.
const CAPACITY: usize = 10_000;

/// The number of keys that are read at a time, so that guesses leave most connections of the database to others.
const READS: usize = 4;

/// While the database is unavailable, a key that was read at most this long ago is still accepted.
const MAX_STALE: Duration = Duration::from_secs(3600);

/// Keys of the database that were read recently.
pub(super) struct KeyCache {
    store: Store,
    clock: Arc<dyn Clock>,
    /// How long a key is not read again.
    fresh: Duration,
    entries: Cache<String, Entry>,
    reads: Semaphore,
}

#[derive(Clone)]
struct Entry {
    /// `None` if there is no such key.
    key: Option<Arc<ApiKey>>,
    /// When the key was read: a monotonic time.
    read_at: Duration,
    /// When the key was read, or could not be read.
    tried_at: Duration,
}

impl KeyCache {
    pub(super) fn new(store: Store, clock: Arc<dyn Clock>, fresh: Duration) -> Self {
        Self {
            store,
            clock,
            fresh,
            entries: Cache::new(CAPACITY),
            reads: Semaphore::new(READS),
        }
    }

    /// Returns a key, and whether it was read from the database now.
    ///
    /// # Errors
    /// Returns an error of the database if the key was not read before.
    pub(super) async fn key(&self, id: &str) -> Result<(Option<Arc<ApiKey>>, bool), StoreError> {
        let now = self.clock.monotonic();
        if let Some(entry) = self.fresh_entry(id, now) {
            return Ok((entry.key, false));
        }
        // The semaphore is never closed.
        let _permit = self.reads.acquire().await.ok();
        // Another request may have read the key meanwhile.
        if let Some(entry) = self.fresh_entry(id, now) {
            return Ok((entry.key, false));
        }
        let age = |entry: &Entry| now.saturating_sub(entry.read_at);
        let (entry, was_read) = match (self.store.key(id).await, self.entries.get(id)) {
            (Ok(key), _) => {
                let entry = Entry {
                    key: key.map(Arc::new),
                    read_at: now,
                    tried_at: now,
                };
                (entry, true)
            }
            (Err(error), Some(entry)) if error.is_unavailable() && age(&entry) < MAX_STALE => {
                let entry = Entry {
                    tried_at: now,
                    ..entry
                };
                (entry, false)
            }
            (Err(error), _) => return Err(error),
        };
        self.entries.insert(id.to_owned(), entry.clone());
        Ok((entry.key, was_read))
    }

    /// Returns what is known about a key, unless it is time to read it again.
    fn fresh_entry(&self, id: &str, now: Duration) -> Option<Entry> {
        let entry = self.entries.get(id)?;
        (now.saturating_sub(entry.tried_at) < self.fresh).then_some(entry)
    }

    /// Forgets a key, so that the next request reads it again.
    pub(super) fn forget(&self, id: &str) {
        self.entries.remove(id);
    }
}
