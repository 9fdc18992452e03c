//! Workers: lease chunks, process their items, and save the results.
//!
//! A worker extends its lease while it works. If it dies, the lease ends and another worker processes the chunk again. That
//! worker cannot know which image killed the first one. So it processes one item at a time, with nothing beside it in its
//! process, and counts each attempt before it begins. An image that kills every worker is dead after its last attempt, and the
//! other items of its chunk are done.

mod chunk;
mod in_work;
mod item;

use std::{future, sync::Arc, time::Duration};

use facescan_audit::AuditError;
use facescan_pipeline::{core::error::PipelineError, ingest::error::IngestError};
use facescan_recognition::{error::RecognitionError, index::IndexError};
use facescan_store::{ClaimRequest, LeasedChunk, StoreError};
use facescan_telemetry::traces::{self, SpanKind};
use tokio::sync::RwLock;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, field::Empty};

use super::{Batches, error::BatchError, operation::models_keys};

use in_work::ChunksInWork;

pub use item::{Describe, Failure};

/// The longest wait before another attempt of an item.
const MAX_RETRY: Duration = Duration::from_secs(300);

/// The time between two looks for batches that another process has cancelled or deleted.
const WATCH_PERIOD: Duration = Duration::from_millis(500);

/// Returns a number from 0 to 1. Tests pass a fixed one.
pub type Jitter = Arc<dyn Fn() -> f64 + Send + Sync>;

/// Processes the chunks of batches. Cheap to clone.
#[derive(Clone)]
pub struct Worker {
    batches: Batches,
    /// The name that its leases have.
    name: String,
    describe: Describe,
    jitter: Jitter,
    /// A chunk whose lease expired before takes the lock for itself, so that nothing beside it is blamed for a crash.
    isolation: Arc<RwLock<()>>,
    models_keys: Vec<[u8; 32]>,
}

impl Worker {
    /// Creates a worker with this name. `describe` returns the code and the text of an error.
    pub fn new(batches: Batches, name: String, describe: Describe, jitter: Jitter) -> Self {
        let pipeline = &batches.runner.pipeline;
        let models_keys = models_keys(&batches.config, pipeline);
        Self {
            batches,
            name,
            describe,
            jitter,
            isolation: Arc::default(),
            models_keys,
        }
    }

    /// Processes chunks until `stop` is cancelled, at most `chunks` of a tenant at a time and twice as many of those that have
    /// several. So images that do not arrive leave chunks to other tenants. Then it returns what it has not finished.
    pub async fn run(self, chunks: usize, stop: CancellationToken) {
        tokio::select! {
            () = self.process(chunks, &stop) => {}
            () = self.watch() => {}
        }
    }

    /// Stops the work on batches that another process has cancelled or deleted. Never returns.
    async fn watch(&self) {
        let Batches { running, store, .. } = &self.batches;
        loop {
            tokio::time::sleep(WATCH_PERIOD).await;
            if let Err(error) = running.stop_ended(store).await {
                tracing::debug!(%error, "the states of batches cannot be read now");
            }
        }
    }

    async fn process(&self, chunks: usize, stop: &CancellationToken) {
        let mut in_work = ChunksInWork::new(chunks);
        let mut failures = 0;
        // A wait that is dropped can lose the message that it was about to receive.
        let mut waiting = None;
        while !stop.is_cancelled() {
            if let Some(full) = in_work.full_tenants() {
                match self.claim(full).await {
                    Ok(Some(chunk)) => {
                        failures = 0;
                        let (worker, stop) = (self.clone(), stop.clone());
                        let tenant = chunk.tenant.clone();
                        let work = async move { worker.process_chunk(chunk, &stop).await };
                        in_work.begin(tenant, work);
                        continue;
                    }
                    Ok(None) => failures = 0,
                    Err(error) => {
                        failures += 1;
                        tracing::warn!(%error, "no chunk can be claimed now; the worker tries again");
                    }
                }
                let patience = self.patience(failures);
                waiting.get_or_insert_with(|| self.batches.queue.wait(patience));
            }
            let woken = async {
                match &mut waiting {
                    Some(wait) => wait.await,
                    None => future::pending().await,
                }
            };
            tokio::select! {
                () = stop.cancelled() => {}
                Some(()) = in_work.end() => {}
                () = woken => waiting = None,
            }
        }
        while in_work.end().await.is_some() {}
    }

    /// Returns how long to wait for a message. A random half makes workers ask at different times.
    fn patience(&self, failures: u32) -> Duration {
        let longest = match failures {
            0 => self.batches.config.batches.poll_ms.duration(),
            _ => self.backoff(failures),
        };
        longest.mul_f64(0.5 + (self.jitter)() / 2.0)
    }

    /// Leases the next chunk of any tenant but those of `except`. Returns `None` if there is no work.
    pub async fn claim(&self, except: Vec<String>) -> Result<Option<LeasedChunk>, StoreError> {
        let now = self.batches.clock().now();
        let request = ClaimRequest {
            owner: self.name.clone(),
            models_keys: self.models_keys.clone(),
            except,
            now,
            until: now + self.batches.config.batches.lease_ms.duration(),
        };
        self.batches.store.claim_chunk(&request).await
    }

    /// Processes a chunk and saves its results. If `stop` is cancelled, the items that are not done wait for a worker again.
    pub async fn process_chunk(&self, chunk: LeasedChunk, stop: &CancellationToken) {
        let span = tracing::info_span!(
            "chunk",
            batch = %chunk.lease.batch,
            chunk = chunk.lease.chunk,
            tenant = %chunk.tenant,
            trace_id = Empty,
            otel.name = Empty,
            otel.kind = Empty,
        );
        // A trace of a submission would become too large with the spans of all its chunks, so these have their own.
        traces::begin(&span, "process chunk", SpanKind::Consumer, None);
        if let Some(submission) = &chunk.traceparent {
            traces::link(&span, submission);
        }
        chunk::ChunkRun::new(self, chunk, span.clone())
            .process(stop)
            .instrument(span)
            .await;
    }

    /// Returns how long to wait before attempt `attempt + 1`: a random part of a limit that doubles with each attempt.
    fn backoff(&self, attempt: u32) -> Duration {
        let doubled = 2_u32.saturating_pow(attempt.saturating_sub(1).min(20));
        let first = self.batches.config.batches.retry_ms.duration();
        let limit = first.saturating_mul(doubled);
        limit.min(MAX_RETRY).mul_f64((self.jitter)())
    }
}

impl From<&BatchError> for Failure {
    fn from(error: &BatchError) -> Self {
        match error {
            BatchError::Pipeline(error) => error.into(),
            BatchError::Recognition(error) => error.into(),
            // Only calls about a batch have the others.
            _ => Self::Temporary,
        }
    }
}

/// What another attempt of the same image can change.
impl From<&PipelineError> for Failure {
    fn from(error: &PipelineError) -> Self {
        match error {
            PipelineError::InvalidOption(_)
            | PipelineError::Fields(_)
            | PipelineError::Decode(_)
            | PipelineError::TooManyPixels { .. }
            | PipelineError::TooMuchWork { .. }
            | PipelineError::ResponseTooLarge { .. }
            | PipelineError::AnonymizationFailed { .. }
            | PipelineError::Store(StoreError::NulInText) => Self::Permanent,
            PipelineError::Ingest(IngestError::Full(_)) | PipelineError::Overloaded(_) => {
                Self::Wait
            }
            PipelineError::Ingest(IngestError::Fetch(error)) if error.is_temporary() => {
                Self::Temporary
            }
            PipelineError::Ingest(_) => Self::Permanent,
            // Another model or device would be a fault of the installation and not of the image.
            PipelineError::NoModel(_) | PipelineError::DeviceUnavailable { .. } => Self::Wait,
            PipelineError::Store(error) if error.is_unavailable() => Self::Wait,
            PipelineError::Encode(_)
            | PipelineError::Engine(_)
            | PipelineError::Head(_)
            | PipelineError::Pool(_)
            | PipelineError::Store(_)
            | PipelineError::Serialize(_)
            | PipelineError::UnexpectedOutput(_)
            | PipelineError::NotASha256(_) => Self::Temporary,
        }
    }
}

/// What another attempt of the same search can change.
impl From<&RecognitionError> for Failure {
    fn from(error: &RecognitionError) -> Self {
        match error {
            RecognitionError::Image { source, .. } => Self::from(source),
            RecognitionError::Store(error) | RecognitionError::Audit(AuditError(Some(error)))
                if error.is_unavailable() =>
            {
                Self::Wait
            }
            RecognitionError::Audit(AuditError(None))
            | RecognitionError::Index(IndexError::Unavailable(_) | IndexError::Busy) => Self::Wait,
            // A comparison of all rows can always exceed the time limit of the database.
            RecognitionError::Index(_)
            | RecognitionError::Store(_)
            | RecognitionError::Audit(_)
            | RecognitionError::TooManySearches { .. } => Self::Temporary,
            _ => Self::Permanent,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_waits_only_for_the_installation() {
        let limit = RecognitionError::TooManySearches {
            limit: 1,
            retry_after: Duration::ZERO,
        };
        for (error, expected) in [
            (limit, Failure::Temporary),
            (RecognitionError::NoFaceToSearch, Failure::Permanent),
            (AuditError(None).into(), Failure::Wait),
            (IndexError::Busy.into(), Failure::Wait),
        ] {
            assert_eq!(Failure::from(&error), expected, "{error}");
        }
    }
}
