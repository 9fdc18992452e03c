//! Limits the time of a request.

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

/// The header with which a client sets an earlier deadline, in milliseconds.
pub const HEADER: HeaderName = HeaderName::from_static("x-request-timeout-ms");

/// Drops the handler at the deadline. Queued work of the request is then skipped.
pub async fn enforce(State(state): State<AppState>, mut request: Request, next: Next) -> Response {
    let limit_ms = match requested_limit_ms(request.headers()) {
        Ok(requested) => {
            let limit = state.config.server.request_timeout_ms;
            requested.map_or(limit, |requested| requested.min(limit))
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
        // The client did not send all of its body, so the delay is not caused by the server.
        Err(_) if is_arriving.load(Ordering::Relaxed) => {
            ApiError::RequestTimeout { limit_ms }.into_response()
        }
        Err(_) => ApiError::DeadlineExceeded { limit_ms }.into_response(),
    }
}

/// Returns the limit that the client asks for.
///
/// # Errors
/// [`ApiError::Pipeline`] if the header is not a whole number from 1.
pub(in crate::http) fn requested_limit_ms(headers: &HeaderMap) -> Result<Option<u64>, ApiError> {
    let Some(value) = headers.get(HEADER) else {
        return Ok(None);
    };
    let milliseconds = value.to_str().ok().and_then(|text| text.parse().ok());
    match milliseconds {
        Some(1..) => Ok(milliseconds),
        Some(0) | None => Err(ApiError::invalid_option(
            HEADER.as_str(),
            "must be a whole number of milliseconds, at least 1",
        )),
    }
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

/// The body of a request. It records whether the handler waits for more data.
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
