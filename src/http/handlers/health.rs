//! `GET /livez` and `GET /readyz`.

use std::collections::BTreeMap;

use axum::{
    Json,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use facescan_store::StoreError;
use facescan_telemetry::causes::with_causes;
use serde::Serialize;
use utoipa::ToSchema;

use crate::{
    app::store_fault,
    http::{
        AppState,
        openapi::{
            documented::{Description, Documented},
            failures::OpenFailures,
        },
    },
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

impl IntoResponse for Readiness {
    fn into_response(self) -> Response {
        let status = if self.ready {
            StatusCode::OK
        } else {
            StatusCode::SERVICE_UNAVAILABLE
        };
        (status, Json(self)).into_response()
    }
}

impl Documented for Readiness {
    fn describe(description: &mut Description) {
        let (types, text) = (["application/json"], "Not ready, with the reasons");
        description.body::<Self>(StatusCode::OK, "Ready", &types);
        description.body::<Self>(StatusCode::SERVICE_UNAVAILABLE, text, &types);
    }
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
/// database, if a write has failed and the database cannot be written yet, or if it is shutting down.
#[utoipa::path(
    get, path = "/readyz", operation_id = "check_readiness", tag = "service",
    security(()),
    responses(OpenFailures)
)]
pub async fn readyz(State(state): State<AppState>) -> Readiness {
    let mut reasons = Vec::new();
    if state.lifecycle.is_stopping() {
        reasons.push("the server is shutting down".to_owned());
    }
    if state.config.store.enabled {
        let fault = match (state.store_fault.get(), check_store(&state).await) {
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
    Readiness {
        ready: reasons.is_empty(),
        reasons,
        devices: state
            .pipeline
            .devices
            .iter()
            .map(|(operation, state)| (operation.name(), state))
            .collect(),
    }
}

/// Checks that the database answers, and, after a write has failed, that it can be written again.
async fn check_store(state: &AppState) -> Result<(), StoreError> {
    state.store.ping().await?;
    state.store.check_writes().await
}
