//! `GET` and `DELETE /faces/{id}`.

use axum::{
    extract::State,
    http::{HeaderMap, StatusCode},
    response::Response,
};
use uuid::Uuid;

use super::images::StoredFaceAnswer;
use crate::{
    context::RequestContext,
    http::error::ApiError,
    http::{
        AppState,
        extract::stored_id::StoredId,
        openapi::failures::StoredFailures,
        respond::{Accepted, respond},
    },
};

fn missing(id: Uuid) -> ApiError {
    ApiError::NotFound(format!("there is no face {id}, or it was erased"))
}

/// A stored face with its vector.
#[utoipa::path(
    get, path = "/faces/{id}", operation_id = "read_face", tag = "store",
    params(("id" = Uuid, Path, description = "The face's `face_id`")),
    responses(
        (status = 200, description = "The face", content((StoredFaceAnswer = "application/json"), (StoredFaceAnswer = "application/msgpack"))),
        StoredFailures,
    )
)]
pub async fn read(
    State(state): State<AppState>,
    context: RequestContext,
    headers: HeaderMap,
    StoredId(id): StoredId,
) -> Result<Response, ApiError> {
    let pipeline = &state.pipeline;
    let face = state
        .store
        .face(&context.principal.tenant, id)
        .await?
        .ok_or_else(|| missing(id))?;
    let answer = StoredFaceAnswer::from(face);
    respond(Accepted::structured(&headers), &pipeline.pool, answer).await
}

/// Erases a face and its vector, and the same face where other scans of the picture found it.
#[utoipa::path(
    delete, path = "/faces/{id}", operation_id = "erase_face", tag = "store",
    params(("id" = Uuid, Path, description = "The face's `face_id`")),
    responses(
        (status = 204, description = "Erased"),
        StoredFailures,
    )
)]
pub async fn erase(
    State(state): State<AppState>,
    context: RequestContext,
    StoredId(id): StoredId,
) -> Result<StatusCode, ApiError> {
    if state
        .store
        .delete_face(&context.principal.tenant, id)
        .await?
    {
        Ok(StatusCode::NO_CONTENT)
    } else {
        Err(missing(id))
    }
}
