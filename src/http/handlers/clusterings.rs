//! `/collections/{id}/clusterings` and what is below it.

use facescan_audit::AuditEvent;
use facescan_recognition::{
    collections::key, error::RecognitionError, libraries::clustering::check,
};
use facescan_store::{Clustering, ClusteringProgress, ClusteringState, NewClustering, Written};
use serde::{Deserialize, Serialize};
use serde_json::json;
use time::OffsetDateTime;
use utoipa::ToSchema;
use uuid::Uuid;

use super::page::{Cursor, PageQuery};
use crate::http::{
    error::ApiError,
    extract::{collection_request::CollectionRequest, json_object::JsonObject},
    openapi::failures::{CollectionFailures, LibraryFailures},
    respond::{
        negotiated::{Negotiated, Queued},
        page::{Listed, Page},
    },
};

/// The fewest faces of a new person, unless the request says it.
const DEFAULT_MIN_FACES: u32 = 2;

/// How the faces of a library are grouped.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewClustering)]
pub struct ClusteringBody {
    /// Whether all faces are grouped again that no user has pinned. By default only faces without a person are grouped.
    #[serde(default)]
    full: bool,
    /// The fewest faces of a new person. By default 2.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 1000)]
    min_faces: Option<u32>,
    /// The false accept rate at which two faces are linked. By default the number of faces decides.
    #[serde(default)]
    #[schema(exclusive_minimum = 0, maximum = 1)]
    far: Option<f64>,
}

/// A clustering.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Clustering)]
pub struct ClusteringResponse {
    id: Uuid,
    /// How far it is.
    state: ClusteringState,
    /// Whether all faces are grouped again that no user has pinned.
    full: bool,
    /// The fewest faces of a new person.
    min_faces: u32,
    /// The false accept rate at which two faces are linked. Absent: the number of faces decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    far: Option<f64>,
    /// When it was requested.
    #[serde(with = "facescan_clock::rfc3339")]
    created_at: OffsetDateTime,
    /// When it ended.
    #[serde(
        with = "facescan_clock::rfc3339::option",
        skip_serializing_if = "Option::is_none"
    )]
    finished_at: Option<OffsetDateTime>,
    /// The faces of the library.
    faces: u64,
    /// The faces whose most similar ones are known.
    compared: u64,
    /// `done`: the people.
    #[serde(skip_serializing_if = "Option::is_none")]
    people: Option<u64>,
    /// `done`: the faces of nobody.
    #[serde(skip_serializing_if = "Option::is_none")]
    unassigned: Option<u64>,
    /// `done`: the faces that had another person before.
    #[serde(skip_serializing_if = "Option::is_none")]
    moved: Option<u64>,
    /// `failed`: the reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl Listed for ClusteringResponse {
    const DESCRIPTION: &'static str = "A page of clusterings, newest first.";
}

impl From<Clustering> for ClusteringResponse {
    fn from(clustering: Clustering) -> Self {
        let (request, progress) = (clustering.request, clustering.progress);
        let is_done = clustering.state == ClusteringState::Done;
        Self {
            id: request.id,
            state: clustering.state,
            full: request.is_full,
            min_faces: request.min_faces,
            far: request.far,
            created_at: request.created_at,
            finished_at: clustering.finished_at,
            faces: progress.faces,
            compared: progress.compared,
            people: is_done.then_some(progress.people),
            unassigned: is_done.then_some(progress.unassigned),
            moved: is_done.then_some(progress.moved),
            error: clustering.error,
        }
    }
}

/// Requests a clustering of a library.
///
/// A server groups the faces in the background. One clustering of a library runs at a time.
#[utoipa::path(
    post, path = "/collections/{id}/clusterings", operation_id = "create_clustering", tag = "recognition",
    security(("key" = ["enroll"])),
    params(("id" = Uuid, Path, description = "The id of the library")),
    request_body = ClusteringBody,
    responses(CollectionFailures)
)]
pub async fn create(
    request: CollectionRequest,
    body: Result<JsonObject<ClusteringBody>, ApiError>,
) -> Result<Queued<ClusteringResponse>, ApiError> {
    let library = request.library().await?;
    let JsonObject(body) = body?;
    let state = &request.state;
    let uncalibrated = || RecognitionError::Uncalibrated(library.vector_space.clone());
    let calibration = state.calibrations.of(&library.vector_space);
    check(
        calibration.ok_or_else(uncalibrated)?,
        state.collections.max_search_far,
        (body.far, body.min_faces),
    )?;
    state.collections.check_purpose(&library)?;
    let clock = &state.collections.clock;
    let new = NewClustering {
        id: clock.new_id(),
        is_full: body.full,
        min_faces: body.min_faces.unwrap_or(DEFAULT_MIN_FACES),
        far: body.far,
        created_at: clock.now(),
    };
    let details = json!({"clustering": new.id, "full": new.is_full, "far": new.far});
    let event = AuditEvent::change("create_clustering", library.id).with(details);
    let event = request.audit_entry(event);
    let store = &state.collections.store;
    match store.create_clustering(key(&library), &new, event).await? {
        Written::Done => {}
        Written::Taken => return Err(RecognitionError::ClusteringUnfinished.into()),
        Written::NotFound => return Err(RecognitionError::NoCollection(library.id).into()),
    }
    let response = ClusteringResponse::from(Clustering {
        request: new,
        state: ClusteringState::Queued,
        progress: ClusteringProgress::default(),
        finished_at: None,
        error: None,
    });
    request.small(&response).map(Queued)
}

/// Lists the clusterings of a library.
#[utoipa::path(
    get, path = "/collections/{id}/clusterings", operation_id = "list_clusterings", tag = "recognition",
    security(("key" = ["search"])),
    params(("id" = Uuid, Path, description = "The id of the library"), PageQuery),
    responses(LibraryFailures)
)]
pub async fn list(
    request: CollectionRequest,
) -> Result<Negotiated<Page<ClusteringResponse>>, ApiError> {
    let library = request.library().await?;
    let cursor = Cursor::read(&request)?;
    let store = &request.state.collections.store;
    let wanted = cursor.wanted();
    let listed = store.list_clusterings(key(&library), wanted).await?;
    let page = cursor.page(listed, |row| row.request.id, ClusteringResponse::from);
    request.small(&page)
}

/// Reads a clustering.
#[utoipa::path(
    get, path = "/collections/{id}/clusterings/{clustering}", operation_id = "read_clustering", tag = "recognition",
    security(("key" = ["search"])),
    params(
        ("id" = Uuid, Path, description = "The id of the library"),
        ("clustering" = Uuid, Path, description = "The id of the clustering"),
    ),
    responses(LibraryFailures)
)]
pub async fn read(request: CollectionRequest) -> Result<Negotiated<ClusteringResponse>, ApiError> {
    let library = request.library().await?;
    let id = request.member()?;
    let store = &request.state.collections.store;
    let clustering = store.clustering(key(&library), id).await?;
    let clustering = clustering.ok_or(RecognitionError::NoClustering(id))?;
    request.small(&ClusteringResponse::from(clustering))
}

/// Cancels a clustering.
///
/// The people stay as they are. A server that works on it stops within ten seconds. A clustering that has ended stays as it
/// is.
#[utoipa::path(
    post, path = "/collections/{id}/clusterings/{clustering}/cancel", operation_id = "cancel_clustering", tag = "recognition",
    security(("key" = ["enroll"])),
    params(
        ("id" = Uuid, Path, description = "The id of the library"),
        ("clustering" = Uuid, Path, description = "The id of the clustering"),
    ),
    responses(LibraryFailures)
)]
pub async fn cancel(
    request: CollectionRequest,
) -> Result<Negotiated<ClusteringResponse>, ApiError> {
    let library = request.library().await?;
    let id = request.member()?;
    let state = &request.state;
    let event = AuditEvent::change("cancel_clustering", library.id).with(json!({"clustering": id}));
    let event = request.audit_entry(event);
    let now = state.collections.clock.now();
    let store = &state.collections.store;
    let clustering = store
        .cancel_clustering(key(&library), id, now, event)
        .await?
        .ok_or(RecognitionError::NoClustering(id))?;
    request.small(&ClusteringResponse::from(clustering))
}
