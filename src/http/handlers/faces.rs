//! `GET` and `DELETE /faces/{id}`.

use axum::{http::StatusCode, response::Response};
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{erasures::erase_named, images::StoredFaceAnswer};
use crate::{
    audit::AuditEvent,
    http::{
        AppState,
        error::ApiError,
        extract::stored_request::StoredRequest,
        openapi::failures::{EraseFailures, StoredFailures},
    },
};
use facescan_store::ErasureTarget;

/// Returns the routes of this module.
pub fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new().routes(routes!(read, erase))
}

/// Reads a stored face with its vector.
#[utoipa::path(
    get, path = "/faces/{id}", operation_id = "read_face", tag = "store",
    security(("key" = ["read"])),
    params(("id" = Uuid, Path, description = "The face's `face_id`")),
    responses(
        (status = 200, description = "The face", content((StoredFaceAnswer = "application/json"), (StoredFaceAnswer = "application/msgpack"))),
        StoredFailures,
    )
)]
pub async fn read(request: StoredRequest) -> Result<Response, ApiError> {
    request
        .record(AuditEvent::read("read_face", request.id))
        .await?;
    let store = &request.state.store;
    let face = store.face(request.tenant(), request.id).await?;
    request.respond::<StoredFaceAnswer>("face", face).await
}

/// Erases a face and its vector.
///
/// Also erases the same face in other scans of the image.
#[utoipa::path(
    delete, path = "/faces/{id}", operation_id = "erase_face", tag = "store",
    security(("key" = ["erase"])),
    params(("id" = Uuid, Path, description = "The face's `face_id`")),
    responses(
        (status = 204, description = "Erased"),
        EraseFailures,
    )
)]
pub async fn erase(request: StoredRequest) -> Result<StatusCode, ApiError> {
    erase_named(&request, ErasureTarget::Face(request.id)).await
}
