//! `GET /calibration`.

use axum::{Json, extract::State};
use facescan_recognition::calibration::Calibration;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;

use crate::http::{
    AppState,
    openapi::{failures::ServiceFailures, routes::routes},
};

/// The error rates of the embedders.
#[derive(Debug, Serialize, ToSchema)]
pub struct CalibrationAnswer {
    /// One table for each vector space that has one.
    calibrations: Vec<Calibration>,
}

/// Returns the routes of this module.
pub fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new().routes(routes!(list))
}

/// Lists the error rates that answers use.
#[utoipa::path(
    get, path = "/calibration", operation_id = "list_calibrations", tag = "recognition",
    security(("key" = ["read"])),
    responses(ServiceFailures)
)]
pub async fn list(State(state): State<AppState>) -> Json<CalibrationAnswer> {
    Json(CalibrationAnswer {
        calibrations: state.calibrations.iter().cloned().collect(),
    })
}
