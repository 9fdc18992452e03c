//! Watching batches. One reader looks at a batch, however many watch it.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use facescan_store::{Batch, BatchState, Store};
use tokio::sync::watch;
use uuid::Uuid;

use super::error::BatchError;

/// The time between two looks at a batch.
pub const PERIOD: Duration = Duration::from_millis(500);

/// The batches that are watched, and the number of streams of each tenant. Cheap to clone.
#[derive(Clone, Default)]
pub struct BatchWatches {
    shared: Arc<Mutex<Watched>>,
}

/// The last state of a batch. `None` after it was deleted.
type Seen = Option<Arc<Batch>>;

#[derive(Default)]
struct Watched {
    batches: HashMap<Uuid, watch::Sender<Seen>>,
    tenants: HashMap<Arc<str>, usize>,
}

/// One watch of a batch. Dropping it ends the watch.
pub struct BatchWatch {
    states: watch::Receiver<Seen>,
    _held: HeldStream,
}

/// A stream that counts for a tenant. Dropping it makes room for another one.
pub struct HeldStream {
    watches: BatchWatches,
    tenant: Arc<str>,
}

impl BatchWatch {
    /// Returns the newest state. `None` means that the batch was deleted.
    pub fn newest(&mut self) -> Option<Arc<Batch>> {
        self.states.borrow_and_update().clone()
    }

    /// Waits for a state that [`newest`](Self::newest) has not returned. Returns false if there will be none.
    pub async fn changed(&mut self) -> bool {
        self.states.changed().await.is_ok()
    }
}

/// Returns whether a batch does not change any more.
pub fn is_over(batch: &Batch) -> bool {
    matches!(batch.state, BatchState::Done | BatchState::Cancelled) && batch.counts.running == 0
}

impl BatchWatches {
    fn watched(&self) -> MutexGuard<'_, Watched> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of streams of a tenant.
    pub fn count(&self, tenant: &str) -> usize {
        self.watched().tenants.get(tenant).copied().unwrap_or(0)
    }

    /// Counts a stream of a tenant that may have `limit`.
    pub(crate) fn hold(&self, tenant: &Arc<str>, limit: usize) -> Result<HeldStream, BatchError> {
        let mut watched = self.watched();
        let count = watched.tenants.entry(Arc::clone(tenant)).or_default();
        if *count >= limit {
            return Err(BatchError::TooManyStreams { limit });
        }
        *count += 1;
        Ok(HeldStream {
            watches: self.clone(),
            tenant: Arc::clone(tenant),
        })
    }

    /// Begins to watch a batch.
    pub(crate) fn watch(&self, held: HeldStream, store: &Store, batch: Batch) -> BatchWatch {
        BatchWatch {
            states: self.subscribe(store, batch),
            _held: held,
        }
    }

    fn subscribe(&self, store: &Store, batch: Batch) -> watch::Receiver<Seen> {
        let mut watched = self.watched();
        if let Some(states) = watched.batches.get(&batch.id) {
            return states.subscribe();
        }
        let (tenant, id) = (batch.tenant.clone(), batch.id);
        let (sender, states) = watch::channel(Some(Arc::new(batch)));
        watched.batches.insert(id, sender);
        let (watches, store) = (self.clone(), store.clone());
        tokio::spawn(async move { watches.read(store, &tenant, id).await });
        states
    }

    /// Reads a batch until it is over, or until nobody watches it.
    async fn read(self, store: Store, tenant: &str, id: Uuid) {
        while self.has_watches(id) {
            tokio::time::sleep(PERIOD).await;
            // While the database is unreachable, the watches wait.
            let Ok(batch) = store.batch(tenant, id).await else {
                continue;
            };
            let goes_on = batch.as_ref().is_some_and(|batch| !is_over(batch));
            let mut watched = self.watched();
            if let Some(sender) = watched.batches.get(&id) {
                publish(sender, batch);
            }
            if !goes_on {
                watched.batches.remove(&id);
                return;
            }
        }
    }

    /// Removes a batch that nobody watches.
    fn has_watches(&self, id: Uuid) -> bool {
        let mut watched = self.watched();
        let has_some = watched
            .batches
            .get(&id)
            .is_some_and(|states| states.receiver_count() > 0);
        if !has_some {
            watched.batches.remove(&id);
        }
        has_some
    }
}

/// Publishes a state if it is not the last one.
fn publish(sender: &watch::Sender<Seen>, batch: Option<Batch>) {
    sender.send_if_modified(|seen| {
        let has_changed = match (&*seen, &batch) {
            (Some(old), Some(new)) => (old.state, old.counts) != (new.state, new.counts),
            (old, new) => old.is_some() != new.is_some(),
        };
        if has_changed {
            *seen = batch.map(Arc::new);
        }
        has_changed
    });
}

impl Drop for HeldStream {
    fn drop(&mut self) {
        let mut watched = self.watches.watched();
        if let Some(count) = watched.tenants.get_mut(&self.tenant) {
            *count -= 1;
            if *count == 0 {
                watched.tenants.remove(&self.tenant);
            }
        }
    }
}
