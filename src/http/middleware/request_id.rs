//! Every request has an id: the caller's own, when it is sane, or a new one.

use std::{convert::Infallible, fmt, sync::Arc};

use axum::{
    extract::{FromRequestParts, Request, State},
    http::{HeaderName, HeaderValue, request::Parts},
    middleware::Next,
    response::Response,
};

use crate::http::AppState;

/// The header that carries the id, in and out.
pub const HEADER: HeaderName = HeaderName::from_static("x-request-id");

/// Longest id that is taken over from a caller.
const MAX_LENGTH: usize = 128;

/// The id of the request being handled.
#[derive(Clone, Debug, Default)]
pub struct RequestId(Arc<str>);

impl RequestId {
    /// The id of a request that has passed [`assign`].
    pub fn of(request: &Request) -> Self {
        request
            .extensions()
            .get::<Self>()
            .cloned()
            .unwrap_or_default()
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl<S: Sync> FromRequestParts<S> for RequestId {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Infallible> {
        Ok(parts.extensions.get::<Self>().cloned().unwrap_or_default())
    }
}

/// Gives the request its id, and the response the same.
pub async fn assign(State(state): State<AppState>, mut request: Request, next: Next) -> Response {
    let sent = request
        .headers()
        .get(&HEADER)
        .and_then(|value| value.to_str().ok());
    let id: Arc<str> = match sent {
        Some(id) if is_sane(id) => id.into(),
        _ => state.pipeline.clock.new_id().to_string().into(),
    };
    request.extensions_mut().insert(RequestId(Arc::clone(&id)));
    let mut response = next.run(request).await;
    if let Ok(value) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(HEADER, value);
    }
    response
}

/// Ids end up in logs, so they are short and have no characters that could forge a line.
fn is_sane(id: &str) -> bool {
    !id.is_empty() && id.len() <= MAX_LENGTH && id.bytes().all(|byte| byte.is_ascii_graphic())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_that_could_forge_a_log_line_are_refused() {
        assert!(is_sane("crawler-7/abc.1"));
        for id in ["", "a b", "a\tb", "é", &"x".repeat(129)] {
            assert!(!is_sane(id), "{id:?}");
        }
    }
}
