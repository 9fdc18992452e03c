//! The chunks that a message queue must be told of. They stand in the database, so that a crash loses none.

use std::{sync::Arc, time::Duration};

use facescan_clock::Clock;
use facescan_store::{ReadyChunk, Store};

/// The number of chunks that are announced at a time.
const CHUNKS_PER_CALL: u32 = 1000;

/// A chunk that is still ready after this time is announced again, because the queue may have lost it.
const REPEAT_AFTER: Duration = Duration::from_secs(60);

/// The chunks that a message queue must be told of.
pub struct Outbox {
    /// The batches in the database.
    pub store: Store,
    /// The clock of the application.
    pub clock: Arc<dyn Clock>,
    /// How often to look for chunks that another process has made ready.
    pub poll: Duration,
}

impl Outbox {
    /// Announces the oldest chunks. Returns whether there may be more.
    pub(super) async fn announce(
        &self,
        announce: impl AsyncFnOnce(&[ReadyChunk]) -> anyhow::Result<()>,
    ) -> anyhow::Result<bool> {
        let now = self.clock.now();
        let chunks = self
            .store
            .unannounced_chunks(now, now - REPEAT_AFTER, CHUNKS_PER_CALL)
            .await?;
        if !chunks.is_empty() {
            announce(&chunks).await?;
            self.store.mark_announced(&chunks, now).await?;
        }
        Ok(chunks.len() == CHUNKS_PER_CALL as usize)
    }
}
