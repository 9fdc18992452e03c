//! No request takes longer than the settings allow.

use std::time::Duration;

use axum::{
    extract::{Request, State},
    middleware::Next,
    response::{IntoResponse, Response},
};

use crate::{error::Error, http::AppState};

/// Drops the handler at the deadline; its queued work is then skipped.
pub async fn enforce(State(state): State<AppState>, request: Request, next: Next) -> Response {
    let limit_ms = state.config.server.request_timeout_ms;
    match tokio::time::timeout(Duration::from_millis(limit_ms), next.run(request)).await {
        Ok(response) => response,
        Err(_) => Error::DeadlineExceeded { limit_ms }.into_response(),
    }
}
