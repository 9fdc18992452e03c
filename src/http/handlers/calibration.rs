//! `GET /calibration`.

use axum::{Json, extract::State};
use facescan_recognition::calibration::Calibration;
use serde::Serialize;
use utoipa::ToSchema;

use crate::http::{AppState, openapi::failures::ServiceFailures};

/// The error rates of the embedders.
#[derive(Debug, Serialize, ToSchema)]
pub struct CalibrationResponse {
    /// One table for each vector space that has one.
    calibrations: Vec<Calibration>,
}

/// Lists the error rates that responses use.
#[utoipa::path(
    get, path = "/calibration", operation_id = "list_calibrations", tag = "recognition",
    security(("key" = ["read"])),
    responses(ServiceFailures)
)]
pub async fn list(State(state): State<AppState>) -> Json<CalibrationResponse> {
    Json(CalibrationResponse {
        calibrations: state.calibrations.iter().cloned().collect(),
    })
}
