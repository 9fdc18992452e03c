//! Deletes what is no longer needed, and measures the queue.

use std::time::Duration;

use facescan_store::BatchKey;
use facescan_telemetry::{metrics::labels::Sweep, sweeps::Sweeps};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::{
    Batches,
    error::BatchError,
    payloads::{ObjectKind, ObjectOwner},
};

/// The time between two sweeps.
const PERIOD: Duration = Duration::from_secs(5);

/// The number of batches that one sweep works on.
const BATCHES_PER_SWEEP: u32 = 100;

/// The number of payloads that are deleted at a time.
const PAYLOADS_PER_PAGE: u32 = 1000;

impl Batches {
    /// Sweeps until `stop` is cancelled.
    pub async fn sweep_until(&self, stop: CancellationToken) {
        let mut sweeps = Sweeps::new(Sweep::Batches, PERIOD, stop, self.metrics());
        while sweeps.next().await {
            sweeps.record(self.sweep().await);
        }
    }

    /// Sweeps once: deletes expired batches, continues interrupted deletions, deletes the images of finished items, and ends
    /// the chunks of cancelled batches whose worker died. It also measures the queue.
    ///
    /// # Errors
    /// Returns an error of the database or of the object store. The next sweep does the rest.
    pub async fn sweep(&self) -> Result<(), BatchError> {
        let now = self.clock().now();
        let depth = self.store.queue_depth(now).await?;
        let oldest = depth.oldest_ready_at.map(|ready_at| now - ready_at);
        self.metrics()
            .batch_queue(depth.queued, depth.running, oldest.unwrap_or_default());
        self.store.sweep_cancelled(now).await?;
        self.store.expire_batches(now).await?;
        for batch in self.store.deleted_batches(BATCHES_PER_SWEEP).await? {
            self.purge(&batch.tenant, batch.id).await?;
        }
        for batch in self
            .store
            .batches_with_due_payloads(BATCHES_PER_SWEEP)
            .await?
        {
            self.delete_finished_payloads(&batch).await?;
        }
        Ok(())
    }

    /// Deletes the objects and then the rows of a batch that is marked as deleted.
    pub async fn purge(&self, tenant: &str, batch: Uuid) -> Result<(), BatchError> {
        self.running.stop(batch);
        self.payloads
            .delete_all(ObjectOwner { tenant, batch })
            .await?;
        let now = self.clock().now();
        Ok(self.store.purge_batch(batch, now).await?)
    }

    async fn delete_finished_payloads(&self, batch: &BatchKey) -> Result<(), BatchError> {
        let owner = ObjectOwner {
            tenant: &batch.tenant,
            batch: batch.id,
        };
        let mut after = None;
        loop {
            let store = &self.store;
            let page = store.finished_payloads(batch.id, after, PAYLOADS_PER_PAGE);
            let page = page.await?;
            let Some(&last) = page.last() else { break };
            self.payloads
                .delete(owner, ObjectKind::Input, &page)
                .await?;
            after = Some(last);
        }
        Ok(self.store.payloads_swept(batch.id).await?)
    }
}
