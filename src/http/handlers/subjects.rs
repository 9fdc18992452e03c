//! `/collections/{id}/subjects` and `/collections/{id}/subjects/{subject}`.

use facescan_audit::AuditEvent;
use facescan_recognition::{
    collections::{
        key,
        terms::{Text, check_details},
    },
    error::RecognitionError,
};
use facescan_store::{
    Changed, CollectionKind, Consent, ErasureTarget, Subject, SubjectChange, SubjectDetails,
    Written,
};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};
use time::OffsetDateTime;
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use super::{erasures::erase_from_collection, page::Cursor};
use crate::http::{
    error::ApiError,
    extract::{collection_request::CollectionRequest, json_object::JsonObject},
    openapi::failures::{CollectionFailures, EraseFailures, StoredFailures},
    respond::{
        negotiated::{Created, Deletion, Negotiated},
        page::{Listed, Page},
    },
};

/// A subject to be created, or changes of one. In a change, fields that are absent stay as they are, and null removes them.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
#[schema(as = SubjectDetails)]
pub struct SubjectBody {
    /// The caller's id, which no other subject of the collection has, up to 200 characters.
    #[serde(deserialize_with = "present")]
    #[schema(value_type = Option<Text>)]
    external_id: Option<Option<String>>,
    /// What the caller wants to keep with the subject, up to 4096 bytes of JSON.
    #[serde(deserialize_with = "present")]
    #[schema(value_type = Option<Object>)]
    metadata: Option<Option<serde_json::Map<String, Value>>>,
    /// The subject's consent.
    #[serde(deserialize_with = "present")]
    #[schema(value_type = Option<ConsentBody>)]
    consent: Option<Option<ConsentBody>>,
    /// When the subject is erased, if that is before the end of the retention.
    #[serde(deserialize_with = "present")]
    #[schema(value_type = Option<String>, format = DateTime)]
    expires_at: Option<Option<Rfc3339>>,
}

/// A field that is present, with null as its own value.
fn present<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Option<T>>, D::Error> {
    Option::<T>::deserialize(deserializer).map(Some)
}

/// A time in RFC 3339.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(transparent)]
struct Rfc3339(#[serde(with = "facescan_clock::rfc3339")] OffsetDateTime);

/// A subject's consent.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Consent)]
pub struct ConsentBody {
    /// Where the consent can be found, up to 200 characters.
    #[schema(value_type = Text)]
    reference: String,
    /// When it was given.
    #[serde(with = "facescan_clock::rfc3339")]
    given_at: OffsetDateTime,
    /// When it ends.
    #[serde(with = "facescan_clock::rfc3339")]
    expires_at: OffsetDateTime,
}

/// A person in a collection.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Subject)]
pub struct SubjectResponse {
    id: Uuid,
    /// The caller's id.
    #[serde(skip_serializing_if = "Option::is_none")]
    external_id: Option<String>,
    /// What the caller keeps with the subject.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>, nullable = false)]
    metadata: Option<Value>,
    /// The consent.
    #[serde(skip_serializing_if = "Option::is_none")]
    consent: Option<ConsentBody>,
    /// When the subject is erased, if that is before the end of the retention.
    #[serde(
        with = "facescan_clock::rfc3339::option",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(nullable = false)]
    expires_at: Option<OffsetDateTime>,
    /// When it was created.
    #[serde(with = "facescan_clock::rfc3339")]
    created_at: OffsetDateTime,
    /// The last interaction, from which the retention counts: the creation, a change, or an enrollment of a face.
    #[serde(with = "facescan_clock::rfc3339")]
    last_seen_at: OffsetDateTime,
}

impl Listed for SubjectResponse {
    const DESCRIPTION: &'static str = "A page of subjects, oldest first.";
}

/// The subjects to list.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct SubjectQuery {
    /// Only the subject with this id of the caller.
    #[param(pattern = "^[^\\x00]*$")]
    external_id: Option<String>,
    /// The `next` of the previous page.
    after: Option<Uuid>,
    /// The number of subjects on the page, 1 to 500.
    #[param(minimum = 1, maximum = 500, default = 50)]
    limit: Option<u32>,
}

impl From<SubjectBody> for SubjectChange {
    fn from(body: SubjectBody) -> Self {
        Self {
            external_id: body.external_id,
            metadata: body.metadata.map(|metadata| metadata.map(Value::Object)),
            consent: body.consent.map(|consent| consent.map(Consent::from)),
            expires_at: body.expires_at.map(|time| time.map(|time| time.0)),
        }
    }
}

impl From<ConsentBody> for Consent {
    fn from(body: ConsentBody) -> Self {
        Self {
            reference: body.reference,
            given_at: body.given_at,
            expires_at: body.expires_at,
        }
    }
}

impl From<Subject> for SubjectResponse {
    fn from(subject: Subject) -> Self {
        let details = subject.details;
        Self {
            id: subject.id,
            external_id: details.external_id,
            metadata: details.metadata,
            consent: details.consent.map(|consent| ConsentBody {
                reference: consent.reference,
                given_at: consent.given_at,
                expires_at: consent.expires_at,
            }),
            expires_at: details.expires_at,
            created_at: subject.created_at,
            last_seen_at: subject.last_seen_at,
        }
    }
}

/// Creates a subject in a collection.
#[utoipa::path(
    post, path = "/collections/{id}/subjects", operation_id = "create_subject", tag = "recognition",
    security(("key" = ["enroll"])),
    params(("id" = Uuid, Path, description = "The id of the collection")),
    request_body = SubjectBody,
    responses(CollectionFailures)
)]
pub async fn create(
    request: CollectionRequest,
    body: Result<JsonObject<SubjectBody>, ApiError>,
) -> Result<Created<SubjectResponse>, ApiError> {
    let collection = request.collection().await?;
    if collection.kind == CollectionKind::Library {
        return Err(RecognitionError::IsLibrary(collection.id).into());
    }
    let JsonObject(body) = body?;
    let clock = &request.state.collections.clock;
    let now = clock.now();
    let subject = Subject {
        id: clock.new_id(),
        collection_id: collection.id,
        created_at: now,
        last_seen_at: now,
        details: SubjectChange::from(body).applied_to(SubjectDetails::default()),
    };
    check_details(&subject.details)?;
    let event = AuditEvent::change("create_subject", subject.id);
    let event = request.audit_entry(event);
    let store = &request.state.collections.store;
    match store
        .create_subject(&collection.tenant, &subject, event)
        .await?
    {
        Written::Done => {}
        Written::Taken => return Err(RecognitionError::ExternalIdTaken.into()),
        Written::NotFound => return Err(RecognitionError::NoCollection(collection.id).into()),
    }
    request.small(&SubjectResponse::from(subject)).map(Created)
}

/// Lists the subjects of a collection.
#[utoipa::path(
    get, path = "/collections/{id}/subjects", operation_id = "list_subjects", tag = "recognition",
    security(("key" = ["enroll"])),
    params(("id" = Uuid, Path, description = "The id of the collection"), SubjectQuery),
    responses(StoredFailures)
)]
pub async fn list(
    request: CollectionRequest,
) -> Result<Negotiated<Page<SubjectResponse>>, ApiError> {
    let collection = request.collection().await?;
    let query: SubjectQuery = request.query()?;
    let cursor = Cursor::new(query.after, query.limit)?;
    let is_filtered = query.external_id.is_some();
    let details = json!({"after": query.after, "by_external_id": is_filtered});
    request
        .record_read("list_subjects", collection.id, details)
        .await?;
    let store = &request.state.collections.store;
    let external_id = query.external_id.as_deref();
    let listed = store
        .list_subjects(key(&collection), external_id, cursor.wanted())
        .await?;
    let page = cursor.page(listed, |subject| subject.id, SubjectResponse::from);
    // A page can have megabytes of metadata.
    request.large(page).await
}

/// Reads a subject.
#[utoipa::path(
    get, path = "/collections/{id}/subjects/{subject}", operation_id = "read_subject", tag = "recognition",
    security(("key" = ["enroll"])),
    params(
        ("id" = Uuid, Path, description = "The id of the collection"),
        ("subject" = Uuid, Path, description = "The id of the subject"),
    ),
    responses(StoredFailures)
)]
pub async fn read(request: CollectionRequest) -> Result<Negotiated<SubjectResponse>, ApiError> {
    let details = json!({"collection": request.id});
    request
        .record_read("read_subject", request.member()?, details)
        .await?;
    let subject = subject_of(&request).await?;
    request.small(&SubjectResponse::from(subject))
}

async fn subject_of(request: &CollectionRequest) -> Result<Subject, ApiError> {
    let collection = request.collection().await?;
    let id = request.member()?;
    let store = &request.state.collections.store;
    let subject = store.subject(key(&collection), id).await?;
    Ok(subject.ok_or(RecognitionError::NoSubject(id))?)
}

/// Changes a subject, or renews its consent.
///
/// This is an interaction, from which the retention counts, unless the body is empty. If the consent is removed and the
/// collection requires one, the faces of the subject are erased.
#[utoipa::path(
    patch, path = "/collections/{id}/subjects/{subject}", operation_id = "change_subject", tag = "recognition",
    security(("key" = ["enroll"])),
    params(
        ("id" = Uuid, Path, description = "The id of the collection"),
        ("subject" = Uuid, Path, description = "The id of the subject"),
    ),
    request_body = SubjectBody,
    responses(CollectionFailures)
)]
pub async fn change(
    request: CollectionRequest,
    body: Result<JsonObject<SubjectBody>, ApiError>,
) -> Result<Negotiated<SubjectResponse>, ApiError> {
    let collection = request.collection().await?;
    let id = request.member()?;
    let JsonObject(body) = body?;
    let change = SubjectChange::from(body);
    check_details(&change.applied_to(SubjectDetails::default()))?;
    let collections = &request.state.collections;
    let event = AuditEvent::change("change_subject", id);
    let event = request.audit_entry(event);
    let subject = (key(&collection), id);
    let now = collections.clock.now();
    match collections
        .store
        .change_subject(subject, &change, now, event)
        .await?
    {
        Changed::Done(subject) => request.small(&SubjectResponse::from(subject)),
        Changed::Taken => Err(RecognitionError::ExternalIdTaken.into()),
        Changed::NotFound => Err(RecognitionError::NoSubject(id).into()),
    }
}

/// Erases a subject with its enrolled faces.
#[utoipa::path(
    delete, path = "/collections/{id}/subjects/{subject}", operation_id = "erase_subject", tag = "recognition",
    security(("key" = ["erase"])),
    params(
        ("id" = Uuid, Path, description = "The id of the collection"),
        ("subject" = Uuid, Path, description = "The id of the subject"),
    ),
    responses(EraseFailures)
)]
pub async fn erase(request: CollectionRequest) -> Result<Deletion, ApiError> {
    let subject = subject_of(&request).await?;
    let target = ErasureTarget::Subject(subject.id);
    erase_from_collection(&request, target).await
}
