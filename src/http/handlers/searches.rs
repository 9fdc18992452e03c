//! `/collections/{id}/search` and `/collections/{id}/searches`.

use std::vec;

use facescan_pipeline::{context::RequestContext, results::ErrorEntry};
use facescan_recognition::{
    collections::{
        candidates::FoundCandidates,
        search::{SearchPlan, SearchRequest, SearchResult},
    },
    error::RecognitionError,
    verify::{FaceVector, VerifyPlan},
};
use facescan_store::{AuditEntry, Collection};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use time::OffsetDateTime;
use utoipa::{IntoParams, ToSchema};

use super::{
    named_faces::{NamedFace, NamedFaces},
    page::{DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE},
};
use crate::http::{
    AppState,
    error::ApiError,
    extract::{
        RequestReservations, collection_request::CollectionRequest, faces::FacesRequest, page_size,
    },
    openapi::{
        bodies::{SearchBody, SearchesBody},
        failures::{CollectionFailures, FacesFailures},
    },
    respond::{negotiated::Negotiated, on_own_thread},
};

/// The result of a search.
#[derive(Debug, Serialize, ToSchema)]
pub struct SearchResponse {
    /// The id of the request, as in the `x-request-id` header and in the log.
    request_id: String,
    /// The candidates.
    #[serde(flatten)]
    found: FoundCandidates,
}

/// The results of several searches.
#[derive(Debug, Serialize, ToSchema)]
pub struct SearchesResponse {
    /// The id of the request, as in the `x-request-id` header and in the log.
    request_id: String,
    /// The results in the order of the faces.
    results: Vec<FaceSearch>,
}

/// The search for one face of a request.
#[derive(Debug, Serialize, ToSchema)]
pub struct FaceSearch {
    /// The index of the face in the request, from 0.
    index: usize,
    /// Whether the face was searched for.
    status: SearchStatus,
    /// `ok`: the candidates.
    #[serde(skip_serializing_if = "Option::is_none")]
    found: Option<FoundCandidates>,
    /// `error`: why the face was not searched for.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<ErrorEntry>,
}

/// Whether a face was searched for.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum SearchStatus {
    /// It was.
    Ok,
    /// Its image has no face, or cannot be read.
    Error,
}

/// A page of searches, newest first.
#[derive(Debug, Serialize, ToSchema)]
pub struct SearchPage {
    /// The searches.
    results: Vec<RecordedSearch>,
    /// The value of `before` for the next page. Absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<u64>,
}

/// A search in the audit trail.
#[derive(Debug, Serialize, ToSchema)]
pub struct RecordedSearch {
    /// The number of the entry in the tenant's audit trail.
    number: u64,
    /// When it was made.
    #[serde(with = "facescan_clock::rfc3339")]
    at: OffsetDateTime,
    /// The id of the request.
    request_id: String,
    /// The id of the key. Absent if access is not controlled.
    #[serde(skip_serializing_if = "Option::is_none")]
    key_id: Option<String>,
    /// What was searched for and found: `search`, `purpose`, `case`, `threshold`, `searched`, and the ids of `candidates`.
    #[schema(value_type = Object)]
    details: Value,
}

/// The searches to list.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct SearchesQuery {
    /// The `next` of the previous page.
    #[param(minimum = 1)]
    before: Option<i64>,
    /// The number of searches on the page, 1 to 500.
    #[param(minimum = 1, maximum = 500, default = 50)]
    limit: Option<u32>,
}

/// Searches for a face in a collection.
///
/// The body has one face: in an image, stored, or a vector. A stored face also needs the scope `read`, and a vector or an
/// aligned crop the scope `search_vectors`. The audit trail has every search before it is answered.
#[utoipa::path(
    post, path = "/collections/{id}/search", operation_id = "search_collection", tag = "recognition",
    security(("key" = ["search"])),
    params(("id" = Uuid, Path, description = "The id of the collection"), SearchRequest),
    request_body = SearchBody,
    responses(FacesFailures)
)]
pub async fn search(
    request: CollectionRequest,
    body: Result<FacesRequest<SearchRequest>, ApiError>,
) -> Result<Negotiated<SearchResponse>, ApiError> {
    let collection = request.collection().await?;
    let body = body?;
    if body.content.len() > 1 {
        return Err(ApiError::invalid_field(
            "faces",
            "must be one face; send several to /collections/{id}/searches",
        ));
    }
    let mut faces = FacesToSearch::read(&request.state, &collection, body).await?;
    let vector = faces.vectors.pop();
    let vector = vector.ok_or(RecognitionError::NoFaceToSearch)??;
    let wanted = (&[vector][..], &faces.plan);
    let collections = &request.state.collections;
    let results = collections.search(&faces.context, &collection, wanted);
    let results = results.await?;
    let result = results.into_iter().next();
    let response = SearchResponse {
        request_id: faces.context.id.to_string(),
        found: result.ok_or(RecognitionError::NoFaceToSearch)?.into(),
    };
    request.small(&response)
}

/// Searches for several faces in a collection, each by itself.
///
/// The options hold for each search, and each has its own entry in the audit trail. A face that cannot be read does not fail
/// the others.
#[utoipa::path(
    post, path = "/collections/{id}/searches", operation_id = "search_collection_for_several", tag = "recognition",
    security(("key" = ["search"])),
    params(("id" = Uuid, Path, description = "The id of the collection"), SearchRequest),
    request_body = SearchesBody,
    responses(FacesFailures)
)]
pub async fn search_for_several(
    request: CollectionRequest,
    body: Result<FacesRequest<SearchRequest>, ApiError>,
) -> Result<Negotiated<SearchesResponse>, ApiError> {
    let collection = request.collection().await?;
    let faces = FacesToSearch::read(&request.state, &collection, body?).await?;
    let vectors: Vec<FaceVector> = faces.vectors.iter().flatten().cloned().collect();
    let wanted = (&vectors[..], &faces.plan);
    let collections = &request.state.collections;
    let results = collections.search(&faces.context, &collection, wanted);
    let mut results = results.await?.into_iter();
    let faces_and_errors = faces.vectors.into_iter().enumerate();
    let response = SearchesResponse {
        request_id: faces.context.id.to_string(),
        results: faces_and_errors
            .map(|(index, vector)| FaceSearch::new(index, vector, &mut results))
            .collect(),
    };
    request.small(&response)
}

impl FaceSearch {
    /// Takes the next result if the face has a vector.
    fn new(
        index: usize,
        vector: Result<FaceVector, ApiError>,
        results: &mut vec::IntoIter<SearchResult>,
    ) -> Self {
        let (status, found, error) = match vector {
            Ok(_) => (SearchStatus::Ok, results.next().map(Into::into), None),
            Err(error) => (SearchStatus::Error, None, Some(ErrorEntry::from(&error))),
        };
        Self {
            index,
            status,
            found,
            error,
        }
    }
}

/// The faces of a request with their vectors.
struct FacesToSearch {
    context: RequestContext,
    plan: SearchPlan,
    /// The vector of each face, or why it has none.
    vectors: Vec<Result<FaceVector, ApiError>>,
    /// Held until the response is written.
    _reservations: RequestReservations,
}

impl FacesToSearch {
    async fn read(
        state: &AppState,
        collection: &Collection,
        body: FacesRequest<SearchRequest>,
    ) -> Result<Self, ApiError> {
        let (plan, image) = body.options.resolve()?;
        plan.check(collection)?;
        let named = NamedFaces::new(state, &body.context, image, "search_image")?;
        let vector_space = &state.pipeline.models.embedder.vector_space;
        let faces = named.read(body.content).await?.into_iter();
        Ok(Self {
            vectors: faces
                .map(|face| vector_of(vector_space, &named.plan, face))
                .collect(),
            context: body.context,
            plan,
            _reservations: body.reservations,
        })
    }
}

fn vector_of(
    vector_space: &str,
    plan: &VerifyPlan,
    face: NamedFace,
) -> Result<FaceVector, ApiError> {
    let scan = match face {
        NamedFace::Known(vector, _) => return Ok(vector),
        NamedFace::Scanned(scan) => (*scan)?,
    };
    Ok(plan.face_to_search(vector_space, scan)?)
}

/// Lists the searches of a collection, as the audit trail has them.
#[utoipa::path(
    get, path = "/collections/{id}/searches", operation_id = "list_searches", tag = "recognition",
    security(("key" = ["admin"])),
    params(("id" = Uuid, Path, description = "The id of the collection"), SearchesQuery),
    responses(CollectionFailures)
)]
pub async fn list(request: CollectionRequest) -> Result<Negotiated<SearchPage>, ApiError> {
    let collection = request.collection().await?;
    let query: SearchesQuery = request.query()?;
    let limit = page_size(query.limit, DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE)?;
    let (tenant, audit) = (&collection.tenant, &request.state.store);
    // One more shows whether there is another page.
    if query.before.is_some_and(|before| before < 1) {
        return Err(ApiError::invalid_option("before", "must be at least 1"));
    }
    let details = json!({"before": query.before});
    request
        .record_read("list_searches", collection.id, details)
        .await?;
    let before = query.before.map(i64::cast_unsigned);
    let mut listed = audit
        .audited_searches(tenant, collection.id, before, limit + 1)
        .await?;
    let has_more = listed.len() > limit as usize;
    listed.truncate(limit as usize);
    // A page can have a megabyte of ids of candidates.
    let page = on_own_thread(move || SearchPage {
        next: listed.last().filter(|_| has_more).map(|entry| entry.number),
        results: listed.into_iter().map(RecordedSearch::from).collect(),
    });
    request.large(page.await?).await
}

impl From<AuditEntry> for RecordedSearch {
    fn from(entry: AuditEntry) -> Self {
        let (number, entry) = (entry.number, entry.entry);
        Self {
            number,
            at: entry.at,
            request_id: entry.request_id,
            key_id: entry.key_id,
            // The chain keeps the text. A text that is damaged is shown as it is.
            details: serde_json::from_str(&entry.details).unwrap_or(Value::String(entry.details)),
        }
    }
}
