//! Errors as `application/problem+json` (RFC 9457).
//!
//! A handler's error is in the extensions of the response. Only [`describe`] writes the body, adds the request id, and
//! logs 5xx errors.

use std::sync::Arc;

use axum::{
    extract::Request,
    http::{
        HeaderValue, StatusCode,
        header::{CONTENT_TYPE, RETRY_AFTER},
    },
    middleware::Next,
    response::{IntoResponse, Response},
};
use serde::Serialize;
use utoipa::ToSchema;

use crate::{context::RequestContext, http::error::ApiError, telemetry::causes::with_causes};

/// The body of an error response.
#[derive(Debug, Serialize, ToSchema)]
pub struct Problem {
    /// Always `about:blank`. The code names the kind of error.
    #[serde(rename = "type")]
    #[schema(example = "about:blank")]
    pub kind: &'static str,
    /// A short description of the kind of error.
    #[schema(example = "invalid option")]
    pub title: &'static str,
    /// The HTTP status.
    #[schema(example = 422)]
    pub status: u16,
    /// What is wrong and what to do.
    pub detail: String,
    /// The stable code.
    #[schema(example = "invalid_option")]
    pub code: &'static str,
    /// The id of the request, as in the log.
    pub request_id: String,
}

#[derive(Clone)]
struct Carried(Arc<ApiError>);

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let status =
            StatusCode::from_u16(self.kind().status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = status.into_response();
        response.extensions_mut().insert(Carried(Arc::new(self)));
        response
    }
}

/// Writes the body of an error response.
pub async fn describe(request: Request, next: Next) -> Response {
    let request_id = request
        .extensions()
        .get::<RequestContext>()
        .map(|context| context.id.to_string())
        .unwrap_or_default();
    let mut response = next.run(request).await;
    let Some(Carried(error)) = response.extensions_mut().remove::<Carried>() else {
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
    };
    let body = serde_json::to_vec(&problem).unwrap_or_default();
    let (mut parts, _) = response.into_parts();
    parts.headers.remove(axum::http::header::CONTENT_LENGTH);
    parts.headers.insert(
        CONTENT_TYPE,
        HeaderValue::from_static("application/problem+json"),
    );
    if kind.status == StatusCode::TOO_MANY_REQUESTS.as_u16() {
        // Requests take fractions of a second, so the server usually has capacity after one second.
        parts
            .headers
            .insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    Response::from_parts(parts, body.into())
}
