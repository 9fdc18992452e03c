//! Refuses paths and queries with a NUL character, which no database text can have.

use axum::{
    extract::Request,
    middleware::Next,
    response::{IntoResponse, Response},
};
use facescan_pipeline::ingest::text::NUL;

use crate::http::error::ApiError;

/// Refuses a request whose path or query has a NUL character.
pub async fn check(request: Request, next: Next) -> Response {
    let uri = request.uri();
    // An address has it only in this form.
    let has_nul = |text: &str| text.contains("%00");
    let refused = match uri.query() {
        Some(query) if has_nul(query) => Some("query"),
        _ => has_nul(uri.path()).then_some("path"),
    };
    match refused {
        Some(part) => ApiError::invalid_option(part, NUL).into_response(),
        None => next.run(request).await,
    }
}
