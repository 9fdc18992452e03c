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
pub enum BatchError {
    /// The tenant has no such batch.
    #[error("there is no batch {0}, or it was deleted")]
    NotFound(Uuid),
    /// The batch accepts no items.
    #[error("the batch {0} is closed; create another batch for these items")]
    NotOpen(Uuid),
    /// The batch was cancelled.
    #[error("the batch {0} was cancelled; submit its items again in another batch")]
    Cancelled(Uuid),
    /// A batch with this idempotency key came from another request.
    #[error(
        "the idempotency key belongs to the batch {0}, which another body created; use a new key"
    )]
    KeyReused(Uuid),
    /// The batch searches for another key.
    #[error(
        "the searches of the batch {0} count for the key that created it; use that key, or create another batch"
    )]
    OtherKey(Uuid),
    /// Another request adds items to the batch.
    #[error("another request with this idempotency key is running; send this one again later")]
    Concurrent,
    /// Too many items of the tenant wait.
    #[error(
        "more than {limit} items of the tenant would wait; send the request again later with the same idempotency key"
    )]
    TooManyWaiting {
        /// The limit.
        limit: u64,
    },
    /// The tenant has no such webhook.
    #[error("there is no webhook {0}, or it was deleted")]
    NoWebhook(Uuid),
    /// The tenant has as many webhooks as it may have.
    #[error("the tenant has {limit} webhooks, the limit of this server; delete one first")]
    TooManyWebhooks {
        /// The limit.
        limit: u32,
    },
    /// The tenant has as many webhooks of one batch with a pending message as it may have.
    #[error(
        "{limit} batches of the tenant have a webhook of their own that is not told yet, the limit of this server; wait until \
         some have ended, leave `webhook` out, or use one webhook for every batch: POST /webhooks"
    )]
    TooManyPendingWebhooks {
        /// The limit.
        limit: u32,
    },
    /// The tenant has as many streams of events and of items as it may have.
    #[error(
        "the tenant has {limit} open streams of events and of items, the limit of this server; close some first"
    )]
    TooManyStreams {
        /// The limit.
        limit: usize,
    },
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
