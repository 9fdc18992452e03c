//! Resets HTTP/2 streams whose client does not read the answer.
//!
//! The write timeout of a connection does not see such a client: without a window nothing is written, and the client still
//! answers pings. Its answers would stay in memory.

use std::{
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, ready},
    time::Duration,
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

/// The largest part of an answer that HTTP/2 gets at a time. It keeps a part in memory until the client reads it, also after
/// the answer has ended.
const PART_BYTES: usize = 16 << 10;

tokio::task_local! {
    /// The stream of the current task.
    static STREAM: Arc<Stream>;
}

/// Runs each HTTP/2 stream on a task of its own, which ends when its client reads nothing of the answer for `limit`.
#[derive(Clone)]
pub(super) struct StreamExecutor {
    pub limit: Duration,
}

impl<F> Executor<F> for StreamExecutor
where
    F: Future + Send + 'static,
    F::Output: Send,
{
    fn execute(&self, stream: F) {
        let limit = self.limit;
        tokio::spawn(async move {
            let state = Arc::new(Stream::default());
            let served = STREAM.scope(Arc::clone(&state), stream);
            tokio::select! {
                biased;
                _ = served => {}
                // Dropping the stream resets it. The connection has other streams, so it stays open.
                () = state.unread_for(limit) => {}
            }
        });
    }
}

/// Whether an answer waits for its client.
#[derive(Default)]
struct Stream {
    /// When the last part was given to HTTP/2. `None` while the answer itself is not ready.
    offered: Mutex<Option<Instant>>,
}

impl Stream {
    fn set_offered(&self, at: Option<Instant>) {
        *self.offered.lock().unwrap_or_else(PoisonError::into_inner) = at;
    }

    fn offered(&self) -> Option<Instant> {
        *self.offered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns after HTTP/2 has not asked for the next part for `limit`.
    async fn unread_for(&self, limit: Duration) {
        loop {
            let now = Instant::now();
            let due = self.offered().unwrap_or(now) + limit;
            if due <= now {
                return;
            }
            sleep_until(due).await;
        }
    }
}

/// Watches the answer of an HTTP/2 stream. Returns other answers as they are.
pub(super) fn watch(answer: Response) -> Response {
    let Ok(stream) = STREAM.try_with(Arc::clone) else {
        return answer;
    };
    // Without a window, HTTP/2 does not ask for the first part.
    stream.set_offered(Some(Instant::now()));
    answer.map(|body| {
        Body::new(Watched {
            body,
            rest: Bytes::new(),
            stream,
        })
    })
}

/// The body of an answer, in parts.
struct Watched {
    body: Body,
    /// The part of the last frame that HTTP/2 has not got yet.
    rest: Bytes,
    stream: Arc<Stream>,
}

impl HttpBody for Watched {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.rest.is_empty() {
            self.stream.set_offered(None);
            match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                Some(Ok(frame)) if frame.is_data() => {
                    self.rest = frame.into_data().unwrap_or_default();
                }
                other => return Poll::Ready(other),
            }
        }
        self.stream.set_offered(Some(Instant::now()));
        let length = self.rest.len().min(PART_BYTES);
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
