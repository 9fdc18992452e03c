//! `GET /livez` and `GET /readyz`.

use std::collections::BTreeMap;

use axum::{Json, extract::State, http::StatusCode};
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{
    app::store_fault,
    http::{AppState, openapi::failures::OpenFailures},
    telemetry::causes::with_causes,
};
use facescan_inference::device::DeviceState;

/// Whether the server can serve requests.
#[derive(Debug, Serialize, ToSchema)]
pub struct Readiness {
    /// Whether there is no reason against it.
    ready: bool,
    /// The reasons why the server is not ready. Empty if it is ready.
    reasons: Vec<String>,
    /// The device placement of each operation.
    #[schema(value_type = BTreeMap<String, DeviceState>)]
    devices: BTreeMap<&'static str, DeviceState>,
}

/// Returns the routes of this module.
pub fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .routes(routes!(livez))
        .routes(routes!(readyz))
}

/// Checks that the process responds.
#[utoipa::path(
    get, path = "/livez", operation_id = "check_liveness", tag = "service",
    security(()),
    responses(
        (status = 200, description = "The process responds", body = String, content_type = "text/plain"),
        OpenFailures,
    )
)]
pub async fn livez() -> &'static str {
    "ok"
}

/// Checks that the server can serve requests.
///
/// The models are loaded before the server listens. It is not ready if it stores results by default and cannot use the
/// database, or if it is shutting down.
#[utoipa::path(
    get, path = "/readyz", operation_id = "check_readiness", tag = "service",
    security(()),
    responses(
        (status = 200, description = "Ready", body = Readiness),
        (status = 503, description = "Not ready, with the reasons", body = Readiness),
        OpenFailures,
    )
)]
pub async fn readyz(State(state): State<AppState>) -> (StatusCode, Json<Readiness>) {
    let mut reasons = Vec::new();
    if state.lifecycle.is_stopping() {
        reasons.push("the server is shutting down".to_owned());
    }
    if state.config.store.enabled {
        let fault = match (state.store_fault.get(), state.store.ping().await) {
            (Some(fault), _) => Some(fault),
            (None, Ok(())) => None,
            (None, Err(error)) => {
                tracing::warn!(error = %with_causes(&error), "the database cannot be used");
                Some(store_fault::reason(&error))
            }
        };
        reasons.extend(fault.map(|fault| format!("{fault}; requests with store=false are served")));
    }
    state.metrics.checked_readiness(reasons.is_empty());
    let status = if reasons.is_empty() {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    let readiness = Readiness {
        ready: reasons.is_empty(),
        reasons,
        devices: state
            .pipeline
            .devices
            .iter()
            .map(|(operation, state)| (operation.name(), state))
            .collect(),
    };
    (status, Json(readiness))
}
