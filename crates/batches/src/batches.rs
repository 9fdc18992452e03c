//! What submissions and workers share, and calls about one batch.

use std::sync::Arc;

use facescan_audit::AuditLog;
use facescan_clock::Clock;
use facescan_config::Config;
use facescan_pipeline::{context::RequestContext, ingest::post::Poster, runner::Runner};
use facescan_recognition::collections::Collections;
use facescan_store::{Batch, CancelledBatch, Store};
use facescan_telemetry::metrics::Metrics;
use uuid::Uuid;

use super::{
    error::BatchError,
    operation,
    payloads::Payloads,
    queue::WorkQueue,
    running::RunningBatches,
    watches::{BatchWatch, BatchWatches, HeldStream},
};

/// What submissions and workers share. Cheap to clone.
#[derive(Clone)]
pub struct Batches {
    /// The batches in the database.
    pub store: Store,
    /// Sends the messages of webhooks.
    pub sender: Arc<dyn Poster>,
    /// The images of batches.
    pub payloads: Payloads,
    /// Runs operations on images.
    pub runner: Runner,
    /// The collections in which batches search.
    pub collections: Collections,
    /// Records what is submitted.
    pub audit: AuditLog,
    /// The settings. They fill in the options that a batch leaves out.
    pub config: Arc<Config>,
    /// Wakes the workers when there is work.
    pub queue: Arc<dyn WorkQueue>,
    /// The batches that the workers of this process work on.
    pub running: RunningBatches,
    /// The batches whose progress somebody watches.
    pub watches: BatchWatches,
}

impl Batches {
    /// Returns the clock of the application.
    pub fn clock(&self) -> &dyn Clock {
        self.runner.pipeline.clock.as_ref()
    }

    /// Returns the metrics of the application.
    pub fn metrics(&self) -> &Metrics {
        &self.runner.pipeline.metrics
    }

    /// Returns a batch of a tenant.
    ///
    /// # Errors
    /// Returns [`BatchError::NotFound`] if the tenant has no such batch, or an error of the database.
    pub async fn batch(&self, tenant: &str, id: Uuid) -> Result<Batch, BatchError> {
        let found = self.store.batch(tenant, id).await?;
        found.ok_or(BatchError::NotFound(id))
    }

    /// Closes an open batch, so that it ends when its items are finished.
    ///
    /// # Errors
    /// The errors of [`batch`](Self::batch).
    pub async fn close(&self, tenant: &str, id: Uuid) -> Result<Batch, BatchError> {
        let now = self.clock().now();
        let closed = self.store.close_batch(tenant, id, now).await?;
        closed.ok_or(BatchError::NotFound(id))
    }

    /// Cancels a batch. Workers stop the items that they are working on, at the latest within a second.
    ///
    /// # Errors
    /// The errors of [`batch`](Self::batch).
    pub async fn cancel(&self, tenant: &str, id: Uuid) -> Result<CancelledBatch, BatchError> {
        let now = self.clock().now();
        let cancelled = self.store.cancel_batch(tenant, id, now).await?;
        self.running.stop(id);
        cancelled.ok_or(BatchError::NotFound(id))
    }

    /// Retries the items that failed. Returns their number.
    ///
    /// # Errors
    /// The errors of [`batch`](Self::batch), [`BatchError::OtherKey`] if the batch searches for another key,
    /// [`BatchError::Cancelled`] if the batch was cancelled, and [`BatchError::TooManyWaiting`] if the tenant would have too many items that are not finished.
    pub async fn retry(&self, context: &RequestContext, id: Uuid) -> Result<u64, BatchError> {
        let tenant = &context.principal.tenant;
        let batch = self.batch(tenant, id).await?;
        check_searcher(context, &batch)?;
        if batch.state == facescan_store::BatchState::Cancelled {
            return Err(BatchError::Cancelled(id));
        }
        let failed = batch.counts.error + batch.counts.dead;
        self.check_waiting(tenant, failed).await?;
        let now = self.clock().now();
        let queued = self.store.retry_items(tenant, id, now).await?;
        self.queue.submitted();
        queued.ok_or(BatchError::NotFound(id))
    }

    /// Checks that a tenant may have so many more items that are not finished.
    pub(crate) async fn check_waiting(&self, tenant: &str, more: u64) -> Result<(), BatchError> {
        let limit = self.config.rate_limits.tenant_waiting_items;
        if limit == 0 {
            return Ok(());
        }
        let waiting = self.store.waiting_items(tenant).await?;
        match waiting + more > limit {
            true => Err(BatchError::TooManyWaiting { limit }),
            false => Ok(()),
        }
    }

    /// Deletes a batch with its images, its items, and the results that nothing else uses.
    ///
    /// # Errors
    /// The errors of [`batch`](Self::batch).
    pub async fn delete(&self, tenant: &str, id: Uuid) -> Result<(), BatchError> {
        if !self.store.delete_batch(tenant, id).await? {
            return Err(BatchError::NotFound(id));
        }
        // The batch is marked, so the sweeper repeats this if it fails or the process dies.
        if let Err(error) = self.purge(tenant, id).await {
            tracing::warn!(batch = %id, %error, "a deleted batch is not purged yet; the sweeper tries again");
        }
        Ok(())
    }

    /// Counts a stream of events or of items for a tenant.
    ///
    /// # Errors
    /// [`BatchError::TooManyStreams`] if the tenant has as many as it may have.
    pub fn hold_stream(&self, tenant: &Arc<str>) -> Result<HeldStream, BatchError> {
        let limit = self.config.batches.max_event_streams;
        self.watches.hold(tenant, limit)
    }

    /// Begins to watch a batch of a tenant.
    ///
    /// # Errors
    /// The errors of [`batch`](Self::batch) and of [`hold_stream`](Self::hold_stream).
    pub async fn watch(&self, tenant: &Arc<str>, id: Uuid) -> Result<BatchWatch, BatchError> {
        let held = self.hold_stream(tenant)?;
        // An unknown batch is an error, and so is one of another tenant that somebody else watches.
        let batch = self.batch(tenant, id).await?;
        Ok(self.watches.watch(held, &self.store, batch))
    }
}

/// Checks that the searches of a batch, if it makes any, count for the key of the caller.
pub(crate) fn check_searcher(context: &RequestContext, batch: &Batch) -> Result<(), BatchError> {
    let is_other = context.principal.key_id.as_deref() != batch.key_id.as_deref();
    if is_other && operation::searches(&batch.operation) {
        return Err(BatchError::OtherKey(batch.id));
    }
    Ok(())
}
