//! Resets HTTP/2 streams whose client reads the response too slowly.
//!
//! The write timeout of a connection does not see such a client: without a window nothing is written, and the client still
//! answers pings. Its responses would stay in memory.

use std::{
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, ready},
};

use axum::{
    body::{Body, HttpBody},
    response::Response,
};
use bytes::Bytes;
use hyper::{
    body::{Frame, SizeHint},
    rt::Executor,
};
use tokio::time::{Instant, sleep_until};

use super::pace::{Pace, ReadingLimit};

/// The largest part of a response that HTTP/2 gets at a time. It keeps a part in memory until the client reads it, also after
/// the response has ended.
const PART_BYTES: usize = 16 << 10;

tokio::task_local! {
    /// The stream of the current task.
    static STREAM: Arc<Stream>;
}

/// Runs each HTTP/2 stream on a task of its own, which ends when its client is below the limit.
#[derive(Clone)]
pub(super) struct StreamExecutor {
    pub reading: ReadingLimit,
}

impl<F> Executor<F> for StreamExecutor
where
    F: Future + Send + 'static,
    F::Output: Send,
{
    fn execute(&self, stream: F) {
        let reading = self.reading;
        tokio::spawn(async move {
            let state = Arc::new(Stream {
                pace: Mutex::new(Pace::new(reading)),
            });
            let served = STREAM.scope(Arc::clone(&state), stream);
            tokio::select! {
                biased;
                _ = served => {}
                // Dropping the stream resets it. The connection has other streams, so it stays open.
                () = state.is_too_slow() => {}
            }
        });
    }
}

/// How a response waits for its client.
struct Stream {
    pace: Mutex<Pace>,
}

impl Stream {
    fn pace(&self) -> MutexGuard<'_, Pace> {
        self.pace.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns when the client is too slow.
    async fn is_too_slow(&self) {
        loop {
            let now = Instant::now();
            let due = {
                let pace = self.pace();
                pace.due().unwrap_or(now + pace.grace())
            };
            if due <= now {
                return;
            }
            sleep_until(due).await;
        }
    }
}

/// Watches the response of an HTTP/2 stream. Returns other responses as they are.
pub(super) fn watch(response: Response) -> Response {
    let Ok(stream) = STREAM.try_with(Arc::clone) else {
        return response;
    };
    // Without a window, HTTP/2 does not ask for the first part.
    stream.pace().wait(Instant::now());
    response.map(|body| {
        Body::new(Watched {
            body,
            rest: Bytes::new(),
            offered: 0,
            stream,
        })
    })
}

/// The body of a response, in parts.
struct Watched {
    body: Body,
    /// The part of the last frame that HTTP/2 has not got yet.
    rest: Bytes,
    /// The length of the part that HTTP/2 has. It asks for the next one when the client has read most of it.
    offered: usize,
    stream: Arc<Stream>,
}

impl HttpBody for Watched {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let read = std::mem::take(&mut self.offered);
        self.stream.pace().read(Instant::now(), read);
        if self.rest.is_empty() {
            match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                Some(Ok(frame)) if frame.is_data() => {
                    self.rest = frame.into_data().unwrap_or_default();
                }
                other => return Poll::Ready(other),
            }
        }
        self.stream.pace().wait(Instant::now());
        let length = self.rest.len().min(PART_BYTES);
        self.offered = length;
        Poll::Ready(Some(Ok(Frame::data(self.rest.split_to(length)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (inner, rest) = (self.body.size_hint(), self.rest.len() as u64);
        let mut hint = SizeHint::new();
        hint.set_lower(inner.lower().saturating_add(rest));
        if let Some(upper) = inner.upper().and_then(|upper| upper.checked_add(rest)) {
            hint.set_upper(upper);
        }
        hint
    }
}
