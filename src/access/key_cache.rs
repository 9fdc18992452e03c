//! Keys of the database that were read recently, so that a request does not wait for the database.

use std::{sync::Arc, time::Duration};

use facescan_clock::Clock;
use facescan_store::{ApiKey, ApiKeyStore, StoreError};
use quick_cache::sync::Cache;

/// The number of keys that are remembered. Unknown ids count too, so that guesses do not reach the database each time.
const CAPACITY: usize = 10_000;

/// While the database is unavailable, a key that was read at most this long ago is still accepted.
const MAX_STALE: Duration = Duration::from_secs(3600);

/// Keys of the database that were read recently.
pub(super) struct KeyCache {
    store: Arc<dyn ApiKeyStore>,
    clock: Arc<dyn Clock>,
    /// How long a key is not read again.
    fresh: Duration,
    entries: Cache<String, Entry>,
}

#[derive(Clone)]
struct Entry {
    /// `None` if there is no such key.
    key: Option<Arc<ApiKey>>,
    /// The monotonic time.
    read_at: Duration,
}

impl KeyCache {
    pub(super) fn new(store: Arc<dyn ApiKeyStore>, clock: Arc<dyn Clock>, fresh: Duration) -> Self {
        Self {
            store,
            clock,
            fresh,
            entries: Cache::new(CAPACITY),
        }
    }

    /// Returns a key, and whether it was read from the database now.
    ///
    /// # Errors
    /// Returns an error of the database if the key was not read before.
    pub(super) async fn key(&self, id: &str) -> Result<(Option<Arc<ApiKey>>, bool), StoreError> {
        let now = self.clock.monotonic();
        let known = self.entries.get(id);
        let age = |entry: &Entry| now.saturating_sub(entry.read_at);
        if let Some(entry) = known.as_ref().filter(|entry| age(entry) < self.fresh) {
            return Ok((entry.key.clone(), false));
        }
        match (self.store.key(id).await, known) {
            (Ok(key), _) => {
                let key = key.map(Arc::new);
                let entry = Entry {
                    key: key.clone(),
                    read_at: now,
                };
                self.entries.insert(id.to_owned(), entry);
                Ok((key, true))
            }
            (Err(error), Some(entry)) if error.is_unavailable() && age(&entry) < MAX_STALE => {
                Ok((entry.key, false))
            }
            (Err(error), _) => Err(error),
        }
    }

    /// Forgets a key, so that the next request reads it again.
    pub(super) fn forget(&self, id: &str) {
        self.entries.remove(id);
    }
}
