//! `/collections/{id}/people` and below, and `/collections/{id}/enrollments/{enrollment}/person`.

use facescan_recognition::{
    collections::{
        key,
        terms::{Text, check_text},
    },
    error::RecognitionError,
};
use facescan_store::{Collection, Decision, ErasureTarget, Person};
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
    error::ApiError,
    extract::{collection_request::CollectionRequest, json_object::JsonObject},
    openapi::failures::{CollectionFailures, LibraryEraseFailures, LibraryFailures},
    respond::{
        negotiated::{Deletion, Negotiated, NoContent},
        page::{Listed, Page},
    },
};

/// The most people or faces of one decision.
const MAX_MEMBERS: usize = 500;

/// A person of a library.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Person)]
pub struct PersonResponse {
    id: Uuid,
    /// The name that a user gave.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// The number of faces.
    faces: u64,
    /// When the person was created.
    #[serde(with = "facescan_clock::rfc3339")]
    created_at: OffsetDateTime,
}

impl Listed for PersonResponse {
    const DESCRIPTION: &'static str = "A page of people, oldest first.";
}

/// The name of a person.
// With `Option::deserialize`, a field can be null but must not be absent.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PersonName {
    /// The name, up to 200 characters. Null removes it.
    #[serde(deserialize_with = "Option::deserialize")]
    #[schema(required, value_type = Option<Text>)]
    name: Option<String>,
}

/// People who are one person.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PeopleMerge {
    /// The person who stays, with the name.
    into: Uuid,
    /// The people whose faces the person gets. They are deleted.
    #[schema(min_items = 1, max_items = 500)]
    people: Vec<Uuid>,
}

/// Faces of a person that show another one.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PersonSplit {
    /// The ids of the enrolled faces.
    #[schema(min_items = 1, max_items = 500)]
    faces: Vec<Uuid>,
}

/// Who a face shows.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FacePerson {
    /// The person. Null: the face shows nobody whom a clustering may find.
    #[serde(deserialize_with = "Option::deserialize")]
    #[schema(required)]
    person_id: Option<Uuid>,
}

impl From<Person> for PersonResponse {
    fn from(person: Person) -> Self {
        Self {
            id: person.id,
            name: person.name,
            faces: person.faces,
            created_at: person.created_at,
        }
    }
}

/// Lists the people of a library.
#[utoipa::path(
    get, path = "/collections/{id}/people", operation_id = "list_people", tag = "recognition",
    security(("key" = ["search"])),
    params(("id" = Uuid, Path, description = "The id of the library"), PageQuery),
    responses(LibraryFailures)
)]
pub async fn list(
    request: CollectionRequest,
) -> Result<Negotiated<Page<PersonResponse>>, ApiError> {
    let library = request.library().await?;
    let cursor = Cursor::read(&request)?;
    request
        .record_read("list_people", library.id, json!({"after": cursor.after}))
        .await?;
    let store = &request.state.collections.store;
    let listed = store.people(key(&library), cursor.wanted()).await?;
    let page = cursor.page(listed, |person| person.id, PersonResponse::from);
    request.small(&page)
}

/// Reads a person.
#[utoipa::path(
    get, path = "/collections/{id}/people/{person}", operation_id = "read_person", tag = "recognition",
    security(("key" = ["search"])),
    params(
        ("id" = Uuid, Path, description = "The id of the library"),
        ("person" = Uuid, Path, description = "The id of the person"),
    ),
    responses(LibraryFailures)
)]
pub async fn read(request: CollectionRequest) -> Result<Negotiated<PersonResponse>, ApiError> {
    let library = request.library().await?;
    let id = request.member()?;
    request
        .record_read("read_person", id, json!({"collection": library.id}))
        .await?;
    let person = person_of(&request, &library, id).await?;
    request.small(&PersonResponse::from(person))
}

async fn person_of(
    request: &CollectionRequest,
    library: &Collection,
    id: Uuid,
) -> Result<Person, ApiError> {
    let store = &request.state.collections.store;
    let person = store.person(key(library), id).await?;
    Ok(person.ok_or(RecognitionError::NoPerson(id))?)
}

/// Names a person.
#[utoipa::path(
    patch, path = "/collections/{id}/people/{person}", operation_id = "rename_person", tag = "recognition",
    security(("key" = ["enroll"])),
    params(
        ("id" = Uuid, Path, description = "The id of the library"),
        ("person" = Uuid, Path, description = "The id of the person"),
    ),
    request_body = PersonName,
    responses(CollectionFailures)
)]
pub async fn rename(
    request: CollectionRequest,
    body: Result<JsonObject<PersonName>, ApiError>,
) -> Result<Negotiated<PersonResponse>, ApiError> {
    let library = request.library().await?;
    let person = request.member()?;
    let JsonObject(PersonName { name }) = body?;
    if let Some(name) = &name {
        check_text("name", name)?;
    }
    let decision = Decision::Rename { person, name };
    change(&request, &library, decision, person).await
}

/// Takes a decision, and answers with a person as it is afterwards.
async fn change(
    request: &CollectionRequest,
    library: &Collection,
    decision: Decision,
    person: Uuid,
) -> Result<Negotiated<PersonResponse>, ApiError> {
    decide(request, library, &decision).await?;
    let person = person_of(request, library, person).await?;
    request.small(&PersonResponse::from(person))
}

async fn decide(
    request: &CollectionRequest,
    library: &Collection,
    decision: &Decision,
) -> Result<(), ApiError> {
    let collections = &request.state.collections;
    Ok(collections
        .decide(&request.context, library, decision)
        .await?)
}

/// Erases a person with all faces that are assigned to this person.
#[utoipa::path(
    delete, path = "/collections/{id}/people/{person}", operation_id = "erase_person", tag = "recognition",
    security(("key" = ["erase"])),
    params(
        ("id" = Uuid, Path, description = "The id of the library"),
        ("person" = Uuid, Path, description = "The id of the person"),
    ),
    responses(LibraryEraseFailures)
)]
pub async fn erase(request: CollectionRequest) -> Result<Deletion, ApiError> {
    let library = request.library().await?;
    let id = request.member()?;
    person_of(&request, &library, id).await?;
    erase_from_collection(&request, ErasureTarget::Person(id)).await
}

/// Makes one person of several.
///
/// All their faces are pinned: no clustering changes them.
#[utoipa::path(
    post, path = "/collections/{id}/people/merge", operation_id = "merge_people", tag = "recognition",
    security(("key" = ["enroll"])),
    params(("id" = Uuid, Path, description = "The id of the library")),
    request_body = PeopleMerge,
    responses(CollectionFailures)
)]
pub async fn merge(
    request: CollectionRequest,
    body: Result<JsonObject<PeopleMerge>, ApiError>,
) -> Result<Negotiated<PersonResponse>, ApiError> {
    let library = request.library().await?;
    let JsonObject(PeopleMerge { into, people }) = body?;
    check_members("people", &people)?;
    if people.contains(&into) {
        let detail = "must not contain `into`, which is the person who stays";
        return Err(ApiError::invalid_option("people", detail));
    }
    let decision = Decision::Merge { into, people };
    change(&request, &library, decision, into).await
}

/// Makes a new person of some faces of a person.
///
/// All faces of both are pinned: no clustering changes them.
#[utoipa::path(
    post, path = "/collections/{id}/people/{person}/split", operation_id = "split_person", tag = "recognition",
    security(("key" = ["enroll"])),
    params(
        ("id" = Uuid, Path, description = "The id of the library"),
        ("person" = Uuid, Path, description = "The id of the person"),
    ),
    request_body = PersonSplit,
    responses(CollectionFailures)
)]
pub async fn split(
    request: CollectionRequest,
    body: Result<JsonObject<PersonSplit>, ApiError>,
) -> Result<Negotiated<PersonResponse>, ApiError> {
    let library = request.library().await?;
    let person = request.member()?;
    let JsonObject(PersonSplit { faces }) = body?;
    check_members("faces", &faces)?;
    let new = request.state.collections.clock.new_id();
    let decision = Decision::Split { person, faces, new };
    change(&request, &library, decision, new).await
}

fn check_members(name: &str, members: &[Uuid]) -> Result<(), ApiError> {
    match (1..=MAX_MEMBERS).contains(&members.len()) {
        true => Ok(()),
        false => Err(ApiError::invalid_option(
            name,
            format!("must have from 1 to {MAX_MEMBERS} ids"),
        )),
    }
}

/// Decides who a face shows.
///
/// The face is pinned: no clustering changes it.
#[utoipa::path(
    put, path = "/collections/{id}/enrollments/{enrollment}/person", operation_id = "assign_face", tag = "recognition",
    security(("key" = ["enroll"])),
    params(
        ("id" = Uuid, Path, description = "The id of the library"),
        ("enrollment" = Uuid, Path, description = "The id of the enrolled face"),
    ),
    request_body = FacePerson,
    responses(CollectionFailures)
)]
pub async fn assign(
    request: CollectionRequest,
    body: Result<JsonObject<FacePerson>, ApiError>,
) -> Result<NoContent, ApiError> {
    let library = request.library().await?;
    let face = request.member()?;
    let JsonObject(FacePerson { person_id }) = body?;
    let decision = Decision::Assign {
        face,
        person: person_id,
    };
    decide(&request, &library, &decision).await?;
    Ok(NoContent)
}

/// Lets clusterings decide again who a face shows.
#[utoipa::path(
    delete, path = "/collections/{id}/enrollments/{enrollment}/person", operation_id = "unpin_face", tag = "recognition",
    security(("key" = ["enroll"])),
    params(
        ("id" = Uuid, Path, description = "The id of the library"),
        ("enrollment" = Uuid, Path, description = "The id of the enrolled face"),
    ),
    responses(LibraryFailures)
)]
pub async fn unpin(request: CollectionRequest) -> Result<NoContent, ApiError> {
    let library = request.library().await?;
    let face = request.member()?;
    decide(&request, &library, &Decision::Unpin { face }).await?;
    Ok(NoContent)
}
