//! `GET` and `DELETE /faces/{id}`.

use facescan_audit::AuditEvent;

use super::{erasures::erase_named, images::StoredFaceResponse};
use crate::http::{
    error::ApiError,
    extract::stored_request::{StoredRequest, not_found},
    openapi::failures::{EraseFailures, StoredFailures},
    respond::negotiated::{Negotiated, NoContent},
};
use facescan_store::ErasureTarget;

/// Reads a stored face with its vector.
#[utoipa::path(
    get, path = "/faces/{id}", operation_id = "read_face", tag = "store",
    security(("key" = ["read"])),
    params(("id" = Uuid, Path, description = "The id of the face")),
    responses(StoredFailures)
)]
pub async fn read(request: StoredRequest) -> Result<Negotiated<StoredFaceResponse>, ApiError> {
    request
        .record(AuditEvent::read("read_face", request.id))
        .await?;
    let store = &request.state.store;
    let face = store.face(request.tenant(), request.id).await?;
    let face = face.ok_or_else(|| not_found("face", request.id))?;
    request.large(face.into()).await
}

/// Erases a face and its vector.
///
/// Also erases the same face in other scans of the image.
#[utoipa::path(
    delete, path = "/faces/{id}", operation_id = "erase_face", tag = "store",
    security(("key" = ["erase"])),
    params(("id" = Uuid, Path, description = "The id of the face")),
    responses(EraseFailures)
)]
pub async fn erase(request: StoredRequest) -> Result<NoContent, ApiError> {
    erase_named(&request, ErasureTarget::Face(request.id)).await
}
