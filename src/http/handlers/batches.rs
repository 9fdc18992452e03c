//! `/batches`: create, read, list, close, cancel, retry and delete.

pub mod events;
mod export;
pub mod items;
mod stream_key;
pub mod submit;

use facescan_audit::AuditEvent;
use facescan_batches::{operation, response::BatchResponse};
use facescan_config::scope::Scope;
use facescan_pipeline::context::RequestContext;
use facescan_store::{Batch, BatchFilter, BatchState, ErasureTarget};
use serde::Deserialize;
use utoipa::IntoParams;
use uuid::Uuid;

use super::{erasures::erase_named, page::Cursor};
use crate::{
    access::authenticator::require,
    http::{
        error::ApiError,
        extract::{api_request::ApiRequest, stored_request::StoredRequest},
        openapi::failures::{BatchFailures, ServiceFailures},
        respond::{
            negotiated::{Negotiated, NoContent},
            page::{Listed, Page},
        },
    },
};

/// The batches to list.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct BatchesQuery {
    /// Only batches in this state.
    #[param(inline)]
    state: Option<BatchState>,
    /// Only batches with this name.
    #[param(pattern = "^[^\\x00]*$")]
    name: Option<String>,
    /// The `next` of the previous page.
    after: Option<Uuid>,
    /// The number of batches on the page, 1 to 500.
    #[param(minimum = 1, maximum = 500, default = 50)]
    limit: Option<u32>,
}

impl Listed for BatchResponse {
    const DESCRIPTION: &'static str = "A page of batches, newest first.";
}

/// Lists batches, newest first.
#[utoipa::path(
    get, path = "/batches", operation_id = "list_batches", tag = "batches", params(BatchesQuery),
    security(("key" = ["batch"])),
    responses(ServiceFailures)
)]
pub async fn list(request: ApiRequest) -> Result<Negotiated<Page<BatchResponse>>, ApiError> {
    let query: BatchesQuery = request.query()?;
    let cursor = Cursor::new(query.after, query.limit)?;
    let filter = BatchFilter {
        state: query.state,
        name: query.name,
    };
    let batches = &request.state.batches;
    let listed = batches
        .store
        .list_batches(request.tenant(), &filter, cursor.wanted());
    let listed = listed.await?;
    let now = batches.clock().now();
    let page = cursor.page(
        listed,
        |batch| batch.id,
        |batch| BatchResponse::new(batch, now),
    );
    request.large(page).await
}

/// Checks that the caller may search, if the operation of a batch is a search.
fn check_may_search(context: &RequestContext, operation: &str) -> Result<(), ApiError> {
    if operation::searches(operation) {
        require(&context.principal, Scope::Search)?;
    }
    Ok(())
}

async fn response(
    request: &StoredRequest,
    batch: Batch,
) -> Result<Negotiated<BatchResponse>, ApiError> {
    let now = request.state.batches.clock().now();
    let response = BatchResponse::new(batch, now);
    request.large(response).await
}

/// Reads a batch with its counts.
#[utoipa::path(
    get, path = "/batches/{id}", operation_id = "read_batch", tag = "batches",
    security(("key" = ["batch"])),
    params(("id" = Uuid, Path, description = "The id of the batch")),
    responses(BatchFailures)
)]
pub async fn read(request: StoredRequest) -> Result<Negotiated<BatchResponse>, ApiError> {
    let batches = &request.state.batches;
    let batch = batches.batch(request.tenant(), request.id).await?;
    response(&request, batch).await
}

/// Closes an open batch. It ends when its items are finished.
#[utoipa::path(
    post, path = "/batches/{id}/close", operation_id = "close_batch", tag = "batches",
    security(("key" = ["batch"])),
    params(("id" = Uuid, Path, description = "The id of the batch")),
    responses(BatchFailures)
)]
pub async fn close(request: StoredRequest) -> Result<Negotiated<BatchResponse>, ApiError> {
    request
        .record(AuditEvent::change("close_batch", request.id))
        .await?;
    let batches = &request.state.batches;
    let batch = batches.close(request.tenant(), request.id).await?;
    response(&request, batch).await
}

/// Cancels a batch. Items that are not done are not processed, and workers stop those that they are working on.
#[utoipa::path(
    post, path = "/batches/{id}/cancel", operation_id = "cancel_batch", tag = "batches",
    security(("key" = ["batch"])),
    params(("id" = Uuid, Path, description = "The id of the batch")),
    responses(BatchFailures)
)]
pub async fn cancel(request: StoredRequest) -> Result<Negotiated<BatchResponse>, ApiError> {
    request
        .record(AuditEvent::change("cancel_batch", request.id))
        .await?;
    let batches = &request.state.batches;
    let cancelled = batches.cancel(request.tenant(), request.id).await?;
    response(&request, cancelled.batch).await
}

/// Retries the items with the state `error` or `dead`.
#[utoipa::path(
    post, path = "/batches/{id}/retry", operation_id = "retry_batch", tag = "batches",
    security(("key" = ["batch"])),
    params(("id" = Uuid, Path, description = "The id of the batch")),
    responses(BatchFailures)
)]
pub async fn retry(request: StoredRequest) -> Result<Negotiated<BatchResponse>, ApiError> {
    request
        .record(AuditEvent::change("retry_batch", request.id))
        .await?;
    let batches = &request.state.batches;
    let batch = batches.batch(request.tenant(), request.id).await?;
    check_may_search(&request.context, &batch.operation)?;
    batches.retry(&request.context, request.id).await?;
    let batch = batches.batch(request.tenant(), request.id).await?;
    response(&request, batch).await
}

/// Deletes a batch with its images, its items, and the results that nothing else uses.
#[utoipa::path(
    delete, path = "/batches/{id}", operation_id = "delete_batch", tag = "batches",
    security(("key" = ["batch"])),
    params(("id" = Uuid, Path, description = "The id of the batch")),
    responses(BatchFailures)
)]
pub async fn delete(request: StoredRequest) -> Result<NoContent, ApiError> {
    erase_named(&request, ErasureTarget::Batch(request.id)).await
}
