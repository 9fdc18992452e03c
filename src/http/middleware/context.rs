//! Opens the context of a request and the span of its log lines. This middleware runs first.

use axum::{
    extract::{MatchedPath, Request, State},
    http::{Extensions, HeaderName, HeaderValue},
    middleware::Next,
    response::Response,
};
use facescan_pipeline::context::{Principal, RequestContext, RequestId};
use facescan_telemetry::traces::{self, SpanKind, TRACERESPONSE};
use tracing::{Instrument, Span};

use crate::http::{AppState, error::ApiError};

/// The request and response header with the request id.
pub const HEADER: HeaderName = HeaderName::from_static("x-request-id");

/// The maximum length of an id from a caller, in bytes.
const MAX_LENGTH: usize = 128;

/// Returns the context of a request.
///
/// # Errors
/// [`ApiError::Internal`] if the request did not pass [`open`].
pub fn from_request(request: &Request) -> Result<RequestContext, ApiError> {
    from_extensions(request.extensions())
}

/// Returns the context in the extensions of a request.
///
/// # Errors
/// As for [`from_request`].
pub fn from_extensions(extensions: &Extensions) -> Result<RequestContext, ApiError> {
    extensions
        .get::<RequestContext>()
        .cloned()
        .ok_or_else(|| ApiError::Internal("the request has no context".to_owned()))
}

/// Opens the context, runs the request in its span, and adds the request id to the response.
pub async fn open(State(state): State<AppState>, mut request: Request, next: Next) -> Response {
    let sent = request
        .headers()
        .get(&HEADER)
        .and_then(|value| value.to_str().ok())
        .filter(|id| is_safe(id));
    let id = match sent {
        Some(id) => RequestId::from_caller(id),
        None => RequestId::generate(state.pipeline.clock.as_ref()),
    };
    let principal = Principal::of_tenant(&state.config.store.tenant);
    let context = RequestContext::new(id.clone(), principal);
    let span = context.span.clone();
    begin_trace(&span, &request, state.config.traces.accept_traceparent);
    request.extensions_mut().insert(context);
    let mut response = next.run(request).instrument(span.clone()).await;
    traces::record_status(&span, response.status().as_u16());
    if let Some(value) = traces::traceparent_header(&span) {
        response.headers_mut().insert(TRACERESPONSE, value);
    }
    if let Ok(value) = HeaderValue::from_str(id.as_str()) {
        response.headers_mut().insert(HEADER, value);
    }
    response
}

/// Begins the span of a request in the caller's trace, if that is accepted, or in a new one.
fn begin_trace(span: &Span, request: &Request, accepts_parent: bool) {
    let route = request
        .extensions()
        .get::<MatchedPath>()
        .map_or("unmatched", MatchedPath::as_str);
    let name = format_args!("{} {route}", request.method());
    let headers = accepts_parent.then(|| request.headers());
    traces::begin(span, name, SpanKind::Server, headers);
}

/// Returns whether an id is safe in logs: it must be short and have no character that could forge a line.
fn is_safe(id: &str) -> bool {
    !id.is_empty() && id.len() <= MAX_LENGTH && id.bytes().all(|byte| byte.is_ascii_graphic())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_that_could_forge_a_log_line_are_rejected() {
        assert!(is_safe("crawler-7/abc.1"));
        for id in ["", "a b", "a\tb", "é", &"x".repeat(129)] {
            assert!(!is_safe(id), "{id:?}");
        }
    }
}
