//! `GET` and `DELETE /faces/{id}`.

use axum::{http::StatusCode, response::Response};
use utoipa_axum::{router::OpenApiRouter, routes};

use super::images::StoredFaceAnswer;
use crate::http::{
    AppState, error::ApiError, extract::stored_request::StoredRequest,
    openapi::failures::StoredFailures,
};

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
    let StoredRequest { tenant, id, .. } = &request;
    let face = request.state.store.face(tenant, *id).await?;
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
        StoredFailures,
    )
)]
pub async fn erase(request: StoredRequest) -> Result<StatusCode, ApiError> {
    let StoredRequest { tenant, id, .. } = &request;
    let is_erased = request.state.store.delete_face(tenant, *id).await?;
    request.erasure_status("face", is_erased)
}
