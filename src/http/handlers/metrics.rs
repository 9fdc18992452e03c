//! `GET /metrics`.

use axum::{
    extract::State,
    http::header::CONTENT_TYPE,
    response::{IntoResponse, Response},
};

use crate::http::openapi::failures::ServiceFailures;
use crate::{http::AppState, http::error::ApiError};

/// The media type of OpenMetrics.
const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Returns the metrics of the server, which are those of all tenants, in the text format of OpenMetrics.
#[utoipa::path(
    get, path = "/metrics", operation_id = "read_metrics", tag = "service",
    security(("key" = ["metrics"])),
    responses(
        (
            status = 200, description = "OpenMetrics text", body = String,
            content_type = "application/openmetrics-text"
        ),
        ServiceFailures,
    )
)]
pub async fn read(State(state): State<AppState>) -> Result<Response, ApiError> {
    let text = state
        .metrics
        .text()
        .map_err(|error| ApiError::Internal(error.to_string()))?;
    Ok(([(CONTENT_TYPE, MEDIA_TYPE)], text).into_response())
}
