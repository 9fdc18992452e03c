//! `/collections` and `/collections/{id}`.

use facescan_audit::AuditEvent;
use facescan_recognition::{
    collections::{
        key,
        terms::{Text, check_change, check_terms},
    },
    error::RecognitionError,
};
use facescan_store::{
    Changed, Collection, CollectionKind, CollectionSize, CollectionTerms, ErasureTarget,
    TermsChange, Written,
};
use serde::{Deserialize, Serialize};
use serde_json::json;
use time::OffsetDateTime;
use utoipa::ToSchema;
use uuid::Uuid;

use super::{
    erasures::erase_from_collection,
    page::{Cursor, PageQuery},
};
use crate::http::{
    AppState,
    error::ApiError,
    extract::{
        api_request::ApiRequest, collection_request::CollectionRequest, json_object::JsonObject,
    },
    openapi::failures::{
        CollectionFailures, CollectionsFailures, EraseFailures, ServiceFailures, StoredFailures,
    },
    respond::{
        negotiated::{Created, Deletion, Negotiated},
        page::{Listed, Page},
    },
};

/// A collection to be created.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewCollection)]
pub struct CollectionBody {
    /// The name, which no other collection of the tenant has, up to 200 characters.
    #[schema(value_type = Text)]
    name: String,
    /// What the collection is for. By default a gallery.
    #[serde(default)]
    kind: CollectionKind,
    /// Why the faces are processed. The setting `recognition.purposes` lists the purposes that are allowed.
    #[schema(value_type = Text)]
    purpose: String,
    /// What allows it, such as consent or a contract, up to 200 characters.
    #[schema(value_type = Text)]
    legal_basis: String,
    /// Whether a subject without a valid consent is neither enrolled nor found. By default false.
    #[serde(default)]
    consent_required: bool,
    /// The days after a subject's last interaction when it is erased. `recognition.max_retention_days` limits it.
    #[schema(minimum = 1, maximum = 36500)]
    retention_days: u32,
    /// The false accept rate of one comparison that searches use by default. By default that of the settings.
    #[serde(default)]
    #[schema(exclusive_minimum = 0, maximum = 1)]
    far: Option<f64>,
}

/// Changes of a collection. Fields that are absent or null stay as they are.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = CollectionChange)]
pub struct CollectionChangeBody {
    /// The name, up to 200 characters.
    #[schema(value_type = Option<Text>)]
    name: Option<String>,
    /// What allows the processing, up to 200 characters.
    #[schema(value_type = Option<Text>)]
    legal_basis: Option<String>,
    /// Whether a subject without a valid consent is neither enrolled nor found.
    consent_required: Option<bool>,
    /// The days after a subject's last interaction when it is erased.
    #[schema(minimum = 1, maximum = 36500)]
    retention_days: Option<u32>,
    /// The false accept rate of one comparison that searches use by default.
    #[schema(exclusive_minimum = 0, maximum = 1)]
    far: Option<f64>,
}

/// A collection of enrolled faces.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Collection)]
pub struct CollectionResponse {
    id: Uuid,
    name: String,
    kind: CollectionKind,
    /// The vector space of all its vectors: that of the embedder when the collection was created. It never changes.
    vector_space: String,
    /// The length of its vectors.
    dim: u32,
    /// Why the faces are processed. A search must name it.
    purpose: String,
    /// What allows it.
    legal_basis: String,
    /// Whether a subject without a valid consent is neither enrolled nor found.
    consent_required: bool,
    /// The days after a subject's last interaction when it is erased.
    retention_days: u32,
    /// The false accept rate of one comparison that searches use by default.
    far: f64,
    /// When it was created.
    #[serde(with = "facescan_clock::rfc3339")]
    created_at: OffsetDateTime,
    /// The number of subjects. Lists do not have it.
    #[serde(skip_serializing_if = "Option::is_none")]
    subjects: Option<u64>,
    /// The number of enrolled faces. Lists do not have it.
    #[serde(skip_serializing_if = "Option::is_none")]
    enrollments: Option<u64>,
}

impl Listed for CollectionResponse {
    const DESCRIPTION: &'static str = "A page of collections, oldest first.";
}

impl CollectionResponse {
    fn new(collection: Collection, size: Option<CollectionSize>) -> Self {
        let terms = collection.terms;
        Self {
            id: collection.id,
            name: terms.name,
            kind: collection.kind,
            vector_space: collection.vector_space,
            dim: collection.dim,
            purpose: terms.purpose,
            legal_basis: terms.legal_basis,
            consent_required: terms.consent_required,
            retention_days: terms.retention_days,
            far: terms.far,
            created_at: collection.created_at,
            subjects: size.map(|size| size.subjects),
            enrollments: size.map(|size| size.enrollments),
        }
    }
}

/// Creates a collection.
///
/// Scans never add to it. Faces are enrolled in it one by one, each for a subject.
#[utoipa::path(
    post, path = "/collections", operation_id = "create_collection", tag = "recognition",
    security(("key" = ["enroll"])),
    request_body = CollectionBody,
    responses(CollectionsFailures)
)]
pub async fn create(
    request: ApiRequest,
    body: Result<JsonObject<CollectionBody>, ApiError>,
) -> Result<Created<CollectionResponse>, ApiError> {
    let JsonObject(body) = body?;
    let collection = new_collection(&request.state, request.tenant(), body)?;
    let details = json!({"kind": collection.kind.name(), "purpose": collection.terms.purpose});
    let event = AuditEvent::change("create_collection", collection.id).with(details);
    let event = request.audit_entry(event);
    let store = &request.state.collections.store;
    match store.create_collection(&collection, event).await? {
        Written::Done => {}
        Written::Taken | Written::NotFound => {
            return Err(RecognitionError::NameTaken(collection.terms.name).into());
        }
    }
    let response = CollectionResponse::new(collection, Some(CollectionSize::default()));
    request.small(&response).map(Created)
}

fn new_collection(
    state: &AppState,
    tenant: &str,
    body: CollectionBody,
) -> Result<Collection, ApiError> {
    let settings = &state.config.recognition;
    let embedder = &state.pipeline.models.embedder;
    let kind = body.kind;
    let terms = CollectionTerms {
        name: body.name,
        purpose: body.purpose,
        legal_basis: body.legal_basis,
        consent_required: body.consent_required,
        retention_days: body.retention_days,
        far: body.far.unwrap_or(settings.search_far),
    };
    let calibration = state.calibrations.of(&embedder.vector_space);
    if kind != CollectionKind::Gallery && calibration.is_none() {
        return Err(RecognitionError::Uncalibrated(embedder.vector_space.to_string()).into());
    }
    check_consent(kind, Some(body.consent_required))?;
    check_terms(&terms, settings, calibration)?;
    let clock = &state.collections.clock;
    Ok(Collection {
        id: clock.new_id(),
        tenant: tenant.to_owned(),
        kind,
        vector_space: embedder.vector_space.to_string(),
        dim: u32::try_from(embedder.dim).unwrap_or(u32::MAX),
        created_at: clock.now(),
        position: 0,
        enrolled: 0,
        terms,
    })
}

/// Checks that no library requires consent: its faces have no subjects who could give it.
fn check_consent(kind: CollectionKind, is_required: Option<bool>) -> Result<(), ApiError> {
    match (kind, is_required) {
        (CollectionKind::Library, Some(true)) => Err(ApiError::invalid_option(
            "consent_required",
            "must be false in a library, whose faces have no subjects",
        )),
        _ => Ok(()),
    }
}

/// Lists the collections of the tenant.
#[utoipa::path(
    get, path = "/collections", operation_id = "list_collections", tag = "recognition",
    params(PageQuery),
    security(("key" = ["search"])),
    responses(ServiceFailures)
)]
pub async fn list(request: ApiRequest) -> Result<Negotiated<Page<CollectionResponse>>, ApiError> {
    let cursor = Cursor::read(&request)?;
    let store = &request.state.collections.store;
    let listed = store.list_collections(request.tenant(), cursor.wanted());
    let listed = listed.await?;
    let page = cursor.page(
        listed,
        |collection| collection.id,
        |collection| CollectionResponse::new(collection, None),
    );
    request.small(&page)
}

/// Reads a collection.
#[utoipa::path(
    get, path = "/collections/{id}", operation_id = "read_collection", tag = "recognition",
    security(("key" = ["search"])),
    params(("id" = Uuid, Path, description = "The id of the collection")),
    responses(StoredFailures)
)]
pub async fn read(request: CollectionRequest) -> Result<Negotiated<CollectionResponse>, ApiError> {
    let collection = request.collection().await?;
    response(&request, collection).await
}

async fn response(
    request: &CollectionRequest,
    collection: Collection,
) -> Result<Negotiated<CollectionResponse>, ApiError> {
    let store = &request.state.collections.store;
    let size = store.collection_size(collection.id).await?;
    let response = CollectionResponse::new(collection, Some(size));
    request.small(&response)
}

/// Changes a collection.
///
/// If it requires consent from now on, the faces of subjects without any consent are erased. Its kind, its vector space and its purpose never change: the subjects were enrolled for that purpose.
#[utoipa::path(
    patch, path = "/collections/{id}", operation_id = "change_collection", tag = "recognition",
    security(("key" = ["enroll"])),
    params(("id" = Uuid, Path, description = "The id of the collection")),
    request_body = CollectionChangeBody,
    responses(CollectionFailures)
)]
pub async fn change(
    request: CollectionRequest,
    body: Result<JsonObject<CollectionChangeBody>, ApiError>,
) -> Result<Negotiated<CollectionResponse>, ApiError> {
    let collection = request.collection().await?;
    let JsonObject(body) = body?;
    let change = TermsChange {
        name: body.name,
        legal_basis: body.legal_basis,
        consent_required: body.consent_required,
        retention_days: body.retention_days,
        far: body.far,
    };
    let state = &request.state;
    check_consent(collection.kind, change.consent_required)?;
    let calibration = state.calibrations.of(&collection.vector_space);
    check_change(&change, &state.config.recognition, calibration)?;
    let details = json!({
        "retention_days": change.retention_days,
        "consent_required": change.consent_required,
        "far": change.far,
    });
    let event = AuditEvent::change("change_collection", collection.id).with(details);
    let event = request.audit_entry(event);
    let store = &state.collections.store;
    match store
        .change_collection(key(&collection), &change, event)
        .await?
    {
        Changed::Done(collection) => response(&request, collection).await,
        Changed::Taken => {
            let name = change.name.unwrap_or_default();
            Err(RecognitionError::NameTaken(name).into())
        }
        Changed::NotFound => Err(RecognitionError::NoCollection(collection.id).into()),
    }
}

/// Erases a collection with its subjects and their faces.
///
/// `POST /erasures` does the same and answers with a report.
#[utoipa::path(
    delete, path = "/collections/{id}", operation_id = "erase_collection", tag = "recognition",
    security(("key" = ["erase"])),
    params(("id" = Uuid, Path, description = "The id of the collection")),
    responses(EraseFailures)
)]
pub async fn erase(request: CollectionRequest) -> Result<Deletion, ApiError> {
    let target = ErasureTarget::Collection(request.id);
    erase_from_collection(&request, target).await
}
