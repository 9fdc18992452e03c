//! Limits the time of a request.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use axum::{
    body::{Body, HttpBody},
    extract::{MatchedPath, Request, State},
    http::{HeaderMap, HeaderName, Method},
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
    let progress = Arc::new(Progress::default());
    if is_submission(&request) {
        let request = request.map(|body| watch(body, &progress));
        return while_arriving(next.run(request), limit_ms, &progress).await;
    }
    if let Some(context) = request.extensions_mut().get_mut::<RequestContext>() {
        context.deadline = Some(state.pipeline.clock.monotonic() + limit);
    }
    let request = request.map(|body| watch(body, &progress));
    match tokio::time::timeout(limit, next.run(request)).await {
        Ok(response) => response,
        Err(_) => progress.error(limit_ms).into_response(),
    }
}

/// Returns whether a request submits items of batches. Its body can be of any length, so its time has no limit.
fn is_submission(request: &Request) -> bool {
    let path = request.extensions().get::<MatchedPath>();
    request.method() == Method::POST
        && path.is_some_and(|path| ["/batches", "/batches/{id}/items"].contains(&path.as_str()))
}

/// Runs a handler as long as data of its body arrives. `limit_ms` limits the time without data.
async fn while_arriving(
    response: impl Future<Output = Response>,
    limit_ms: u64,
    progress: &Progress,
) -> Response {
    let mut response = std::pin::pin!(response);
    let mut seen = 0;
    loop {
        let limit = Duration::from_millis(limit_ms);
        if let Ok(response) = tokio::time::timeout(limit, &mut response).await {
            return response;
        }
        let frames = progress.frames.load(Ordering::Relaxed);
        if frames == seen {
            return progress.error(limit_ms).into_response();
        }
        seen = frames;
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

/// How much of a body has arrived.
#[derive(Debug, Default)]
struct Progress {
    /// Whether the handler waits for more data.
    is_arriving: AtomicBool,
    /// The frames that have arrived.
    frames: AtomicU64,
}

impl Progress {
    /// Returns the error of a request that took too long.
    fn error(&self, limit_ms: u64) -> ApiError {
        // If the client did not send all of its body, the delay is not caused by the server.
        match self.is_arriving.load(Ordering::Relaxed) {
            true => ApiError::RequestTimeout { limit_ms },
            false => ApiError::DeadlineExceeded { limit_ms },
        }
    }
}

fn watch(body: Body, progress: &Arc<Progress>) -> Body {
    if body.is_end_stream() {
        return body;
    }
    Body::new(WatchedBody {
        body,
        progress: Arc::clone(progress),
    })
}

/// The body of a request. It records whether the handler waits for more data.
struct WatchedBody {
    body: Body,
    progress: Arc<Progress>,
}

impl HttpBody for WatchedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        self.progress.is_arriving.store(true, Ordering::Relaxed);
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        self.progress.is_arriving.store(false, Ordering::Relaxed);
        self.progress.frames.fetch_add(1, Ordering::Relaxed);
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
