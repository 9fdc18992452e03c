//! No request takes longer than the settings allow.

use axum::{
    extract::{Request, State},
    middleware::Next,
    response::{IntoResponse, Response},
};

use crate::{error::Error, http::AppState};

/// Drops the handler at the deadline; its queued work is then skipped.
pub async fn enforce(State(state): State<AppState>, request: Request, next: Next) -> Response {
    let server = &state.config.server;
    match tokio::time::timeout(server.request_timeout(), next.run(request)).await {
        Ok(response) => response,
        Err(_) => {
            let limit_ms = server.request_timeout_ms;
            Error::DeadlineExceeded { limit_ms }.into_response()
        }
    }
}
