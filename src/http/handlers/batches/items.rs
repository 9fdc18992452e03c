//! `GET /batches/{id}/items`.

use axum::{
    http::{HeaderMap, StatusCode, header::ACCEPT},
    response::{IntoResponse, Response},
};
use facescan_audit::AuditEvent;
use facescan_batches::{
    error::BatchError,
    results::{ItemResponse, MAX_PAGE_BYTES, ResultFormat, StoredItems},
};
use facescan_config::EmbeddingFormat;
use facescan_pipeline::admission::priority_semaphore::DecodePermit;
use facescan_store::{Batch, ItemPage, ItemState};
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};
use serde_json::json;
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use super::{
    check_may_search,
    export::{Export, NDJSON},
};
use crate::http::{
    AppState,
    error::ApiError,
    extract::{page_size, stored_request::StoredRequest},
    openapi::{
        documented::{Description, Documented},
        failures::BatchFailures,
    },
    respond::{negotiated::Negotiated, on_own_thread},
};

/// The default number of items on a page.
const DEFAULT_PAGE_SIZE: u32 = 100;
/// The maximum number of items on a page.
const MAX_PAGE_SIZE: u32 = 1000;

/// The items to list.
#[derive(Clone, Copy, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ItemsQuery {
    /// Only items in this state.
    #[param(inline)]
    state: Option<ItemState>,
    /// The `next` of the previous page.
    #[serde(default, deserialize_with = "position")]
    after: Option<u64>,
    /// The number of items on the page, 1 to 1000. A page with many vectors or images can end early.
    #[param(minimum = 1, maximum = 1000, default = 100)]
    limit: Option<u32>,
    /// The format of vectors, or `none`. The default is that of the batch's options.
    #[param(inline)]
    embedding_format: Option<VectorFormat>,
    /// Whether results of `enhance` and `process` have their images. The default is true.
    data: Option<bool>,
}

/// Reads a position. The database has signed numbers.
fn position<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let position = Option::<u64>::deserialize(deserializer)?;
    if position.is_some_and(|position| i64::try_from(position).is_err()) {
        return Err(D::Error::custom("must be the `next` of a page"));
    }
    Ok(position)
}

/// The format of vectors in the results of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
enum VectorFormat {
    /// A list of numbers.
    Float,
    /// 32-bit numbers in base64.
    Base64F32,
    /// 16-bit numbers in base64.
    Base64F16,
    /// No vectors.
    None,
}

impl ItemsQuery {
    fn format(self) -> ResultFormat {
        let embedding_format = match self.embedding_format {
            None | Some(VectorFormat::None) => None,
            Some(VectorFormat::Float) => Some(EmbeddingFormat::Float),
            Some(VectorFormat::Base64F32) => Some(EmbeddingFormat::Base64F32),
            Some(VectorFormat::Base64F16) => Some(EmbeddingFormat::Base64F16),
        };
        ResultFormat {
            embedding_format,
            without_vectors: self.embedding_format == Some(VectorFormat::None),
            without_data: self.data == Some(false),
        }
    }

    /// Loads at most `limit` items after `after`.
    pub(super) async fn load(
        self,
        state: &AppState,
        batch: &Batch,
        limit: u32,
    ) -> Result<StoredItems, BatchError> {
        let page = ItemPage {
            after: self.after,
            limit,
            max_bytes: MAX_PAGE_BYTES,
        };
        let batches = &state.batches;
        batches.items(batch, self.state, page, self.format()).await
    }

    /// Returns the query of the items after `after`.
    pub(super) fn after(self, after: u64) -> Self {
        Self {
            after: Some(after),
            ..self
        }
    }
}

/// A page of items, in the order of the submission.
#[derive(Serialize, ToSchema)]
#[schema(as = BatchItemPage)]
pub struct ItemPageResponse {
    /// The items.
    results: Vec<ItemResponse>,
    /// The value of `after` for the next page. Absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<u64>,
    /// Ends when the response is written, even if its caller does not wait for it.
    #[serde(skip)]
    _turn: DecodePermit,
}

impl ItemPageResponse {
    fn new(stored: StoredItems, turn: DecodePermit) -> Self {
        let page = stored.into_page();
        Self {
            results: page.items,
            next: page.next,
            _turn: turn,
        }
    }
}

/// The items of a batch.
pub enum ItemsResponse {
    /// A page.
    Page(Negotiated<ItemPageResponse>),
    /// All items, one a line.
    Stream(Box<Export>),
}

impl IntoResponse for ItemsResponse {
    fn into_response(self) -> Response {
        match self {
            Self::Page(page) => page.into_response(),
            Self::Stream(export) => export.respond(),
        }
    }
}

impl Documented for ItemsResponse {
    fn describe(description: &mut Description) {
        Negotiated::<ItemPageResponse>::describe(description);
        description.more::<ItemResponse>(StatusCode::OK, &[NDJSON]);
    }
}

/// Lists the items of a batch with their results.
///
/// With `Accept: application/x-ndjson` the response is a stream of all items from `after`, one a line.
#[utoipa::path(
    get, path = "/batches/{id}/items", operation_id = "list_batch_items", tag = "batches",
    security(("key" = ["batch"])),
    params(("id" = Uuid, Path, description = "The id of the batch"), ItemsQuery),
    responses(BatchFailures)
)]
pub async fn list(headers: HeaderMap, request: StoredRequest) -> Result<ItemsResponse, ApiError> {
    let query: ItemsQuery = request.query()?;
    let limit = page_size(query.limit, DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE)?;
    let batches = &request.state.batches;
    let batch = batches.batch(request.tenant(), request.id).await?;
    check_may_search(&request.context, &batch.operation)?;
    let is_stream = accepts_ndjson(&headers);
    let export = match is_stream {
        true => Some(Export::new(&request, &headers, &batch, query)?),
        false => None,
    };
    request.record(export_event(request.id, query)).await?;
    if let Some(export) = export {
        return Ok(ItemsResponse::Stream(Box::new(export)));
    }
    let turn = request.large_response().await;
    let stored = query.load(&request.state, &batch, limit).await?;
    let response = on_own_thread(move || ItemPageResponse::new(stored, turn)).await?;
    let page = request.large(response);
    page.await.map(ItemsResponse::Page)
}

fn accepts_ndjson(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(ACCEPT).iter();
    accepted
        .filter_map(|value| value.to_str().ok())
        .any(|value| value.contains("ndjson") || value.contains("jsonl"))
}

/// Returns what the audit trail says about an export. Every page has its entry, because a caller can begin anywhere.
fn export_event(batch: Uuid, query: ItemsQuery) -> AuditEvent {
    let event = AuditEvent::change("export_batch", batch);
    match query.after {
        None => event,
        Some(after) => event.with(json!({"after": after})),
    }
}
