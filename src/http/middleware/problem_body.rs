//! Writes the body of error responses, and logs 5xx errors.

use axum::{
    extract::Request,
    http::{
        HeaderValue, StatusCode,
        header::{CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE},
    },
    middleware::Next,
    response::Response,
};
use facescan_pipeline::context::RequestContext;
use facescan_telemetry::causes::with_causes;

use crate::http::problem::{CarriedError, Problem};

/// Writes the body of an error response.
pub async fn write(request: Request, next: Next) -> Response {
    let request_id = request
        .extensions()
        .get::<RequestContext>()
        .map(|context| context.id.to_string())
        .unwrap_or_default();
    let mut response = next.run(request).await;
    let Some(CarriedError(error)) = response.extensions_mut().remove::<CarriedError>() else {
        return response;
    };
    let kind = error.kind();
    if kind.status >= 500 {
        tracing::error!(
            code = kind.code,
            error = with_causes(error.as_ref()),
            "request failed"
        );
    }
    let problem = Problem {
        kind: "about:blank",
        title: kind.title,
        status: kind.status,
        detail: error.public_detail(),
        code: kind.code,
        request_id,
        errors: error.fields(),
    };
    let body = serde_json::to_vec(&problem).unwrap_or_default();
    let (mut parts, _) = response.into_parts();
    parts.headers.remove(CONTENT_LENGTH);
    parts.headers.insert(
        CONTENT_TYPE,
        HeaderValue::from_static("application/problem+json"),
    );
    if let Some(wait) = error.retry_after() {
        let seconds = wait.as_millis().div_ceil(1000).max(1);
        let seconds = u64::try_from(seconds).unwrap_or(u64::MAX);
        parts.headers.insert(RETRY_AFTER, seconds.into());
    }
    if kind.status == StatusCode::UNAUTHORIZED.as_u16() {
        parts
            .headers
            .insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    Response::from_parts(parts, body.into())
}
