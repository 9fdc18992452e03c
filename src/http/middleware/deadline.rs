//! No request takes longer than the settings allow.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use axum::{
    body::{Body, HttpBody},
    extract::{Request, State},
    http::{HeaderMap, HeaderName},
    middleware::Next,
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};

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
    let is_arriving = Arc::new(AtomicBool::new(false));
    let request = request.map(|body| watch(body, &is_arriving));
    match tokio::time::timeout(limit, next.run(request)).await {
        Ok(response) => response,
        // The client has not sent all of its body, so the server did not make it wait.
        Err(_) if is_arriving.load(Ordering::Relaxed) => {
            ApiError::RequestTimeout { limit_ms }.into_response()
        }
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

fn watch(body: Body, is_arriving: &Arc<AtomicBool>) -> Body {
    if body.is_end_stream() {
        return body;
    }
    Body::new(WatchedBody {
        body,
        is_arriving: Arc::clone(is_arriving),
    })
}

/// A request's body that tells whether the handler waits for more of it.
struct WatchedBody {
    body: Body,
    is_arriving: Arc<AtomicBool>,
}

impl HttpBody for WatchedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        self.is_arriving.store(true, Ordering::Relaxed);
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        self.is_arriving.store(false, Ordering::Relaxed);
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
