//! `/batches`: create, read, list, close, cancel, retry and delete.

mod events;
mod export;
mod items;
mod stream_key;
mod submit;

use axum::{
    extract::{RawQuery, State},
    http::{HeaderMap, StatusCode},
    response::Response,
};
use facescan_store::{Batch, BatchFilter, BatchPage, BatchState, ErasureTarget};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::{router::OpenApiRouter, routes};
use uuid::Uuid;

use super::erasures::erase_named;
use crate::{
    access::error::AccessError,
    audit::AuditEvent,
    batches::{answer::BatchAnswer, operation::BatchOperation},
    context::{RequestContext, scope::Scope},
    http::{
        AppState,
        error::ApiError,
        extract::{page_size, read_query, stored_request::StoredRequest},
        openapi::failures::{BatchFailures, ServiceFailures},
        respond::{Accepted, respond},
    },
};

/// The default number of batches on a page.
const DEFAULT_PAGE_SIZE: u32 = 50;
/// The maximum number of batches on a page.
const MAX_PAGE_SIZE: u32 = 500;

/// Returns the routes of this module.
pub fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .routes(routes!(submit::create, list))
        .routes(routes!(read, delete))
        .routes(routes!(submit::add_items, items::list))
        .routes(routes!(close))
        .routes(routes!(cancel))
        .routes(routes!(retry))
        .routes(routes!(events::stream))
}

/// The batches to list.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct BatchesQuery {
    /// Only batches in this state.
    #[param(inline)]
    state: Option<StateFilter>,
    /// Only batches with this name.
    name: Option<String>,
    /// The `next` of the previous page.
    after: Option<Uuid>,
    /// The number of batches on the page, 1 to 500.
    #[param(minimum = 1, maximum = 500, default = 50)]
    limit: Option<u32>,
}

/// The state of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum StateFilter {
    Open,
    Queued,
    Running,
    Done,
    Cancelled,
}

impl From<StateFilter> for BatchState {
    fn from(state: StateFilter) -> Self {
        match state {
            StateFilter::Open => Self::Open,
            StateFilter::Queued => Self::Queued,
            StateFilter::Running => Self::Running,
            StateFilter::Done => Self::Done,
            StateFilter::Cancelled => Self::Cancelled,
        }
    }
}

/// A page of batches, newest first.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BatchPage)]
pub struct BatchPageAnswer {
    /// The batches.
    batches: Vec<BatchAnswer>,
    /// The value of `after` for the next page. Absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<Uuid>,
}

/// Lists batches, newest first.
#[utoipa::path(
    get, path = "/batches", operation_id = "list_batches", tag = "batches", params(BatchesQuery),
    security(("key" = ["batch"])),
    responses(
        (status = 200, description = "A page of batches", content(
            (BatchPageAnswer = "application/json"), (BatchPageAnswer = "application/msgpack")
        )),
        ServiceFailures,
    )
)]
pub async fn list(
    State(state): State<AppState>,
    context: RequestContext,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Result<Response, ApiError> {
    let query: BatchesQuery = read_query(query.as_deref().unwrap_or_default())?;
    let limit = page_size(query.limit, DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE)?;
    let filter = BatchFilter {
        state: query.state.map(BatchState::from),
        name: query.name,
    };
    // One more batch than requested shows whether there is a next page.
    let page = BatchPage {
        after: query.after,
        limit: limit + 1,
    };
    let store = &state.batches.store;
    let mut batches = store
        .list_batches(&context.principal.tenant, &filter, page)
        .await?;
    let more = batches.len() > limit as usize;
    batches.truncate(limit as usize);
    let now = state.batches.clock().now();
    let answer = BatchPageAnswer {
        next: batches.last().filter(|_| more).map(|batch| batch.id),
        batches: batches
            .into_iter()
            .map(|batch| BatchAnswer::new(batch, now))
            .collect(),
    };
    respond(&context, Accepted::structured(&headers), answer).await
}

/// Checks that the caller may search, if the operation of a batch is a search.
fn check_may_search(context: &RequestContext, operation: &str) -> Result<(), ApiError> {
    let may_search = context.principal.scopes.contains(Scope::Search);
    match operation == BatchOperation::Search.name() && !may_search {
        true => Err(AccessError::MissingScope(Scope::Search).into()),
        false => Ok(()),
    }
}

async fn answer(request: &StoredRequest, batch: Batch) -> Result<Response, ApiError> {
    let now = request.state.batches.clock().now();
    let answer = BatchAnswer::new(batch, now);
    request.respond::<BatchAnswer>("batch", Some(answer)).await
}

/// Reads a batch with its counts.
#[utoipa::path(
    get, path = "/batches/{id}", operation_id = "read_batch", tag = "batches",
    security(("key" = ["batch"])),
    params(("id" = Uuid, Path, description = "The id of the batch")),
    responses(
        (status = 200, description = "The batch", content(
            (BatchAnswer = "application/json"), (BatchAnswer = "application/msgpack")
        )),
        BatchFailures,
    )
)]
pub async fn read(request: StoredRequest) -> Result<Response, ApiError> {
    let batches = &request.state.batches;
    let batch = batches.batch(request.tenant(), request.id).await?;
    answer(&request, batch).await
}

/// Closes an open batch. It ends when its items are finished.
#[utoipa::path(
    post, path = "/batches/{id}/close", operation_id = "close_batch", tag = "batches",
    security(("key" = ["batch"])),
    params(("id" = Uuid, Path, description = "The id of the batch")),
    responses(
        (status = 200, description = "The batch", content(
            (BatchAnswer = "application/json"), (BatchAnswer = "application/msgpack")
        )),
        BatchFailures,
    )
)]
pub async fn close(request: StoredRequest) -> Result<Response, ApiError> {
    request
        .record(AuditEvent::change("close_batch", request.id))
        .await?;
    let batches = &request.state.batches;
    let batch = batches.close(request.tenant(), request.id).await?;
    answer(&request, batch).await
}

/// Cancels a batch. Items that are not done are not processed, and workers stop those that they are working on.
#[utoipa::path(
    post, path = "/batches/{id}/cancel", operation_id = "cancel_batch", tag = "batches",
    security(("key" = ["batch"])),
    params(("id" = Uuid, Path, description = "The id of the batch")),
    responses(
        (status = 200, description = "The batch", content(
            (BatchAnswer = "application/json"), (BatchAnswer = "application/msgpack")
        )),
        BatchFailures,
    )
)]
pub async fn cancel(request: StoredRequest) -> Result<Response, ApiError> {
    request
        .record(AuditEvent::change("cancel_batch", request.id))
        .await?;
    let batches = &request.state.batches;
    let cancelled = batches.cancel(request.tenant(), request.id).await?;
    answer(&request, cancelled.batch).await
}

/// Gives the items with the state `error` or `dead` another life.
#[utoipa::path(
    post, path = "/batches/{id}/retry", operation_id = "retry_batch", tag = "batches",
    security(("key" = ["batch"])),
    params(("id" = Uuid, Path, description = "The id of the batch")),
    responses(
        (status = 200, description = "The batch", content(
            (BatchAnswer = "application/json"), (BatchAnswer = "application/msgpack")
        )),
        BatchFailures,
    )
)]
pub async fn retry(request: StoredRequest) -> Result<Response, ApiError> {
    request
        .record(AuditEvent::change("retry_batch", request.id))
        .await?;
    let batches = &request.state.batches;
    let batch = batches.batch(request.tenant(), request.id).await?;
    check_may_search(&request.context, &batch.operation)?;
    batches.retry(&request.context, request.id).await?;
    let batch = batches.batch(request.tenant(), request.id).await?;
    answer(&request, batch).await
}

/// Deletes a batch with its images, its items, and the results that nothing else uses.
#[utoipa::path(
    delete, path = "/batches/{id}", operation_id = "delete_batch", tag = "batches",
    security(("key" = ["batch"])),
    params(("id" = Uuid, Path, description = "The id of the batch")),
    responses(
        (status = 204, description = "Deleted"),
        BatchFailures,
    )
)]
pub async fn delete(request: StoredRequest) -> Result<StatusCode, ApiError> {
    erase_named(&request, ErasureTarget::Batch(request.id)).await
}
