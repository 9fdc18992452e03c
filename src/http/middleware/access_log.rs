//! Writes one log line per request. It never has a body, a query value or a credential.

use axum::{
    extract::{MatchedPath, Request, State},
    http::HeaderName,
    middleware::Next,
    response::Response,
};

use crate::http::{AppState, respond::milliseconds};

/// The time from the request head to the response, in milliseconds.
pub const TOTAL_TIME: HeaderName = HeaderName::from_static("x-total-time");

/// The routes of probes and of Prometheus, which ask every few seconds. `/readyz` warns when the server is not ready.
const PROBES: [&str; 3] = ["/livez", "/readyz", "/metrics"];

/// Counts, measures and logs a request when its response is ready.
pub async fn log(State(state): State<AppState>, request: Request, next: Next) -> Response {
    let method = request.method().clone();
    let route = request
        .extensions()
        .get::<MatchedPath>()
        .map_or_else(|| "unmatched".to_owned(), |path| path.as_str().to_owned());
    let started = state.pipeline.clock.monotonic();
    let mut response = next.run(request).await;
    let elapsed = state.pipeline.clock.monotonic().saturating_sub(started);
    let status = response.status().as_u16();
    state.metrics.answered(&route, status, elapsed);
    let elapsed_ms = elapsed.as_secs_f64() * 1e3;
    if let Ok(value) = milliseconds(elapsed_ms) {
        response.headers_mut().insert(TOTAL_TIME, value);
    }
    if PROBES.contains(&&*route) {
        tracing::debug!(method = %method, route, status, elapsed_ms, "request");
    } else {
        tracing::info!(method = %method, route, status, elapsed_ms, "request");
    }
    response
}
