//! No request takes longer than the settings allow.

use std::time::Duration;

use axum::{
    extract::{Request, State},
    http::{HeaderMap, HeaderName},
    middleware::Next,
    response::{IntoResponse, Response},
};

use crate::{
    context::RequestContext,
    http::{AppState, error::ApiError},
};

/// The header by which a client makes its own deadline earlier, in milliseconds.
pub const HEADER: HeaderName = HeaderName::from_static("x-request-timeout-ms");

/// Drops the handler at the deadline, between any two of its stages; work of it that is queued is then skipped.
pub async fn enforce(State(state): State<AppState>, mut request: Request, next: Next) -> Response {
    let limit_ms = match asked(request.headers()) {
        Ok(asked) => {
            let limit = state.config.server.request_timeout_ms;
            asked.map_or(limit, |asked| asked.min(limit))
        }
        Err(error) => return error.into_response(),
    };
    let limit = Duration::from_millis(limit_ms);
    if let Some(context) = request.extensions_mut().get_mut::<RequestContext>() {
        context.deadline = Some(state.pipeline.clock.monotonic() + limit);
    }
    match tokio::time::timeout(limit, next.run(request)).await {
        Ok(response) => response,
        Err(_) => ApiError::DeadlineExceeded { limit_ms }.into_response(),
    }
}

fn asked(headers: &HeaderMap) -> Result<Option<u64>, ApiError> {
    let Some(value) = headers.get(HEADER) else {
        return Ok(None);
    };
    let milliseconds = value.to_str().ok().and_then(|text| text.parse().ok());
    milliseconds.map(Some).ok_or_else(|| {
        ApiError::invalid_option(HEADER.as_str(), "must be a whole number of milliseconds")
    })
}
