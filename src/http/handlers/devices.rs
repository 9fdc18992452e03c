//! `GET /devices`.

use axum::{Json, extract::State};

use crate::http::{AppState, openapi::failures::ServiceFailures};
use facescan_inference::device::DevicesReport;

/// Describes the execution providers, the devices and the device placement of each operation.
///
/// A provider has its proof or the reason why it cannot be used. A device has its current memory. An operation has its
/// setting, its device placement and its faults.
#[utoipa::path(
    get, path = "/devices", operation_id = "list_devices", tag = "service",
    security(("key" = ["read"])),
    responses(ServiceFailures)
)]
pub async fn list(State(state): State<AppState>) -> Json<DevicesReport> {
    Json(state.pipeline.devices.report())
}
