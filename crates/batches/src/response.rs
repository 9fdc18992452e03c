//! Batches as responses and webhooks show them.

use facescan_store::{Batch, BatchCounts, BatchState};
use serde::Serialize;
use serde_json::Value;
use time::OffsetDateTime;
use utoipa::ToSchema;
use uuid::Uuid;

/// A batch.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Batch)]
pub struct BatchResponse {
    /// The id.
    pub id: Uuid,
    /// The caller's name for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The operation.
    #[schema(example = "embed")]
    pub operation: String,
    /// The options, with every default filled in.
    #[schema(value_type = Object)]
    pub options: Value,
    /// The models that make the results.
    #[schema(value_type = Object)]
    pub models: Value,
    /// The priority of its images.
    #[schema(example = "bulk")]
    pub priority: String,
    /// `open`, `queued`, `running`, `done` or `cancelled`.
    #[schema(example = "running")]
    pub state: &'static str,
    /// The number of items.
    pub accepted: u64,
    /// The number of items in each state.
    pub counts: CountsResponse,
    /// The items that were finished in each second so far. Absent before the first one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_per_s: Option<f64>,
    /// The seconds that the rest takes at this rate. Absent if nothing waits or there is no rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eta_s: Option<f64>,
    /// The time when it was created.
    #[serde(with = "facescan_clock::rfc3339")]
    pub created_at: OffsetDateTime,
    /// The time when a worker began its first chunk.
    #[serde(
        with = "facescan_clock::rfc3339::option",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(nullable = false)]
    pub started_at: Option<OffsetDateTime>,
    /// The time when its last item was finished.
    #[serde(
        with = "facescan_clock::rfc3339::option",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(nullable = false)]
    pub finished_at: Option<OffsetDateTime>,
    /// The time when it is deleted.
    #[serde(
        with = "facescan_clock::rfc3339::option",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(nullable = false)]
    pub expires_at: Option<OffsetDateTime>,
}

/// The number of items in each state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = BatchCounts)]
pub struct CountsResponse {
    /// Items that wait for a worker.
    pub queued: u64,
    /// Items of chunks that a worker has.
    pub running: u64,
    /// Items with a result.
    pub ok: u64,
    /// Items whose image cannot be processed.
    pub error: u64,
    /// Items that failed at every attempt.
    pub dead: u64,
    /// Items whose result was stored before. They count as `ok` too.
    pub cached: u64,
    /// Items that were cancelled.
    pub cancelled: u64,
}

impl From<BatchCounts> for CountsResponse {
    fn from(counts: BatchCounts) -> Self {
        let BatchCounts {
            queued,
            running,
            ok,
            cached,
            error,
            dead,
            cancelled,
        } = counts;
        Self {
            queued,
            running,
            ok,
            error,
            dead,
            cached,
            cancelled,
        }
    }
}

impl BatchResponse {
    /// Converts a batch. The rate is that up to `now`, or up to its end.
    pub fn new(batch: Batch, now: OffsetDateTime) -> Self {
        let counts = batch.counts;
        let finished = counts.ok + counts.error + counts.dead;
        let elapsed = batch
            .started_at
            .map(|started| (batch.finished_at.unwrap_or(now) - started).as_seconds_f64());
        let rate = elapsed
            .filter(|elapsed| *elapsed > 0.0 && finished > 0)
            .map(|elapsed| finished as f64 / elapsed);
        let waiting = counts.queued + counts.running;
        let eta = rate
            .filter(|_| waiting > 0 && batch.state != BatchState::Cancelled)
            .map(|rate| waiting as f64 / rate);
        let rounded = |value: f64| (value * 1e3).round() / 1e3;
        Self {
            id: batch.id,
            name: batch.name,
            operation: batch.operation,
            options: batch.options,
            models: batch.models,
            priority: batch.priority,
            state: batch.state.name(),
            accepted: batch.accepted,
            counts: counts.into(),
            rate_per_s: rate.map(rounded),
            eta_s: eta.map(rounded),
            created_at: batch.created_at,
            started_at: batch.started_at,
            finished_at: batch.finished_at,
            expires_at: batch.expires_at,
        }
    }
}
