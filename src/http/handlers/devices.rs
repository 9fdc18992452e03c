//! `GET /devices`.

use axum::{Json, extract::State};

use crate::http::{AppState, openapi::failures::ServiceFailures};
use facescan_inference::device::DevicesReport;

/// The providers with their proof or the reason against them, the devices with their memory now, and each operation's
/// toggle, device and faults.
#[utoipa::path(get, path = "/devices", operation_id = "list_devices", tag = "service", responses((status = 200, description = "What is known of the devices", body = DevicesReport), ServiceFailures))]
pub async fn list(State(state): State<AppState>) -> Json<DevicesReport> {
    Json(state.pipeline.devices.report())
}
