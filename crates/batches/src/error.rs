//! Errors of batches.

use facescan_audit::AuditError;
use facescan_pipeline::core::error::{InvalidOption, PipelineError};
use facescan_recognition::error::RecognitionError;
use facescan_store::StoreError;
use thiserror::Error;
use uuid::Uuid;

use super::payloads::PayloadError;

/// An error of a call about a batch.
#[derive(Debug, Error)]
#[expect(missing_docs, reason = "the messages say what the errors are")]
pub enum BatchError {
    #[error("there is no batch {0}, or it was deleted")]
    NotFound(Uuid),
    #[error("the batch {0} is closed; create another batch for these items")]
    NotOpen(Uuid),
    #[error("the batch {0} was cancelled; submit its items again in another batch")]
    Cancelled(Uuid),
    #[error(
        "the idempotency key belongs to the batch {0}, which another body created; use a new key"
    )]
    KeyReused(Uuid),
    #[error(
        "the searches of the batch {0} count for the key that created it; use that key, or create another batch"
    )]
    OtherKey(Uuid),
    #[error("another request with this idempotency key is running; send this one again later")]
    Concurrent,
    #[error(
        "more than {limit} items of the tenant would wait; send the request again later with the same idempotency key"
    )]
    TooManyWaiting { limit: u64 },
    #[error("there is no webhook {0}, or it was deleted")]
    NoWebhook(Uuid),
    #[error("the tenant has {limit} webhooks, the limit of this server; delete one first")]
    TooManyWebhooks { limit: u32 },
    #[error(
        "{limit} batches of the tenant have a webhook of their own that is not told yet, the limit of this server; wait until \
         some have ended, leave `webhook` out, or use one webhook for every batch: POST /webhooks"
    )]
    TooManyPendingWebhooks { limit: u32 },
    #[error(
        "the tenant has {limit} open streams of events and of items, the limit of this server; close some first"
    )]
    TooManyStreams { limit: usize },
    /// The object store cannot be used.
    #[error(transparent)]
    Payload(#[from] PayloadError),
    /// The submission cannot be recorded.
    #[error(transparent)]
    Audit(#[from] AuditError),
    /// The collection of a search.
    #[error(transparent)]
    Recognition(#[from] RecognitionError),
    /// An option or the database.
    #[error(transparent)]
    Pipeline(#[from] PipelineError),
}

impl From<StoreError> for BatchError {
    fn from(error: StoreError) -> Self {
        Self::Pipeline(error.into())
    }
}

impl From<InvalidOption> for BatchError {
    fn from(error: InvalidOption) -> Self {
        Self::Pipeline(error.into())
    }
}
