//! `POST /erasures` and `GET /erasures/{id}`.

use std::time::Duration;

use facescan_pipeline::core::options::source_text;
use facescan_store::{Erasure, ErasureTarget};
use serde::Deserialize;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::{
    erasure::{host, report::ErasureReport},
    http::{
        error::ApiError,
        extract::{
            api_request::ApiRequest,
            collection_request::CollectionRequest,
            json_object::JsonObject,
            stored_request::{StoredRequest, not_found},
        },
        openapi::failures::{ErasureFailures, StoredFailures},
        respond::negotiated::{Deletion, DoneOrQueued, Negotiated, NoContent},
    },
};

/// How long a request waits for its erasure. The erasure goes on afterwards.
const WAIT: Duration = Duration::from_secs(10);

/// What to erase. Exactly one field is set.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
#[schema(as = NewErasure, min_properties = 1, max_properties = 1)]
pub struct ErasureBody {
    /// The `image_id` of an image.
    #[schema(nullable = false)]
    image: Option<Uuid>,
    /// The `source` of images. Images that have other sources too are erased.
    #[schema(
        nullable = false,
        min_length = 1,
        max_length = 512,
        pattern = "^[^\\x00]*$"
    )]
    source: Option<String>,
    /// The host of images: that of their `source_url`, or of the URL that a batch fetches them from.
    #[schema(
        nullable = false,
        example = "img.example.com",
        pattern = "^([a-z0-9]+(-[a-z0-9]+)*\\.)*[a-z][a-z0-9]*(-[a-z0-9]+)*$|^((25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])(\\.|$)){4}$"
    )]
    host: Option<String>,
    /// The id of a batch.
    #[schema(nullable = false)]
    batch: Option<Uuid>,
    /// The id of a collection.
    #[schema(nullable = false)]
    collection: Option<Uuid>,
    /// The id of a subject of a collection.
    #[schema(nullable = false)]
    subject: Option<Uuid>,
    /// The id of a person of a library.
    #[schema(nullable = false)]
    person: Option<Uuid>,
    /// The tenant of the caller, to erase everything that it has stored. Keys and the audit trail stay.
    #[schema(nullable = false)]
    tenant: Option<String>,
}

impl ErasureBody {
    fn target(self, tenant: &str) -> Result<ErasureTarget, ApiError> {
        let targets = [
            self.image.map(ErasureTarget::Image).map(Ok),
            self.source.map(target_source),
            self.host.map(|host| target_host(&host)),
            self.batch.map(ErasureTarget::Batch).map(Ok),
            self.collection.map(ErasureTarget::Collection).map(Ok),
            self.subject.map(ErasureTarget::Subject).map(Ok),
            self.person.map(ErasureTarget::Person).map(Ok),
            self.tenant.map(|named| target_tenant(&named, tenant)),
        ];
        let mut targets = targets.into_iter().flatten();
        match (targets.next(), targets.next()) {
            (Some(target), None) => target,
            _ => Err(ApiError::invalid_field(
                "",
                "set exactly one of image, source, host, batch, collection, subject, person and tenant",
            )),
        }
    }
}

fn target_source(source: String) -> Result<ErasureTarget, ApiError> {
    match source_text(Some(source))? {
        Some(source) => Ok(ErasureTarget::Source(source)),
        None => Err(ApiError::invalid_option("source", "must not be empty")),
    }
}

/// Writes a host as the URLs of images have it.
fn target_host(host: &str) -> Result<ErasureTarget, ApiError> {
    match host::canonical(host) {
        Some(host) => Ok(ErasureTarget::Host(host)),
        None => Err(ApiError::invalid_option(
            "host",
            "must be a host without scheme, port and path, such as img.example.com",
        )),
    }
}

fn target_tenant(named: &str, own: &str) -> Result<ErasureTarget, ApiError> {
    match named == own {
        true => Ok(ErasureTarget::Tenant),
        false => Err(ApiError::invalid_option(
            "tenant",
            "must be the tenant of your key; a key erases only what its own tenant has stored",
        )),
    }
}

/// Erases images, a batch, a collection, a subject, a person, or everything that the tenant has stored.
///
/// The response is a report of what was erased, and where copies can be. An erasure that takes longer than ten seconds goes on in
/// the background.
#[utoipa::path(
    post, path = "/erasures", operation_id = "create_erasure", tag = "store",
    security(("key" = ["erase"])),
    request_body = ErasureBody,
    responses(ErasureFailures)
)]
pub async fn create(
    request: ApiRequest,
    body: Result<JsonObject<ErasureBody>, ApiError>,
) -> Result<DoneOrQueued<ErasureReport>, ApiError> {
    let JsonObject(body) = body?;
    let target = body.target(request.tenant())?;
    let erasure = erase(&request, target).await?;
    let report = ErasureReport::new(erasure, &request.state.config);
    let body = request.small(&report)?;
    Ok(if report.is_erased() {
        DoneOrQueued::Done(body)
    } else {
        DoneOrQueued::Queued(body)
    })
}

/// Reads the report of an erasure.
#[utoipa::path(
    get, path = "/erasures/{id}", operation_id = "read_erasure", tag = "store",
    security(("key" = ["erase"])),
    params(("id" = Uuid, Path, description = "The id of the erasure")),
    responses(StoredFailures)
)]
pub async fn read(request: StoredRequest) -> Result<Negotiated<ErasureReport>, ApiError> {
    let store = &request.state.store;
    let erasure = store.erasure(request.tenant(), request.id).await?;
    let erasure = erasure.ok_or_else(|| not_found("erasure", request.id))?;
    let report = ErasureReport::new(erasure, &request.state.config);
    request.large(report).await
}

/// Erases what the path of a request names, for the routes that answer only with a status.
///
/// # Errors
/// [`ApiError::NotFound`] if there is no such thing, or an error of the database or of the store of images.
pub async fn erase_named(
    request: &StoredRequest,
    target: ErasureTarget,
) -> Result<NoContent, ApiError> {
    erase(request, target).await?;
    Ok(NoContent)
}

/// Erases a collection, or what the path of a request names in it.
///
/// # Errors
/// As for [`erase_named`].
pub async fn erase_from_collection(
    request: &CollectionRequest,
    target: ErasureTarget,
) -> Result<Deletion, ApiError> {
    let erasure = erase(request, target).await?;
    Ok(match erasure.erased_at {
        Some(_) => Deletion::Done,
        None => Deletion::Queued,
    })
}

async fn erase(request: &ApiRequest, target: ErasureTarget) -> Result<Erasure, ApiError> {
    let (kind, named) = (target.kind(), target.value(request.tenant()));
    let erasures = &request.state.erasures;
    let erasure = erasures.erase(&request.context, target, WAIT).await?;
    erasure.ok_or_else(|| not_found(kind, named))
}
