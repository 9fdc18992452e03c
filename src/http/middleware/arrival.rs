//! Watches how the bodies of requests arrive.
//!
//! A body that arrives more slowly than the lowest rate ends with an error. Only the time in which the server waits for the client
//! counts. A connection whose body was not read to its end closes after the response, and the response says so.

#[cfg(test)]
mod tests;

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    body::{Body, HttpBody as _},
    extract::{Request, State},
    http::{HeaderValue, Version, header::CONNECTION},
    middleware::Next,
    response::Response,
};
use tokio::time::{Instant, Sleep, sleep_until};

use crate::http::{
    AppState,
    wrapped_body::{PolledFrame, wrap},
};

/// The error of a body that arrives too slowly.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the body arrives with less than {bytes_per_s} bytes a second")]
pub struct TooSlow {
    /// The lowest rate, in bytes per second.
    pub bytes_per_s: u64,
}

/// How much of a body has arrived.
#[derive(Debug, Default)]
pub struct Arrival {
    /// Whether the handler waits for more data.
    is_awaited: AtomicBool,
    frames: AtomicU64,
    has_ended: AtomicBool,
}

impl Arrival {
    /// Returns whether the handler waits for more data.
    pub fn is_awaited(&self) -> bool {
        self.is_awaited.load(Ordering::Relaxed)
    }

    /// Returns the number of frames that have arrived.
    pub fn frames(&self) -> u64 {
        self.frames.load(Ordering::Relaxed)
    }
}

/// Watches the body of a request. The request then has its [`Arrival`] as an extension.
pub async fn watch(State(state): State<AppState>, mut request: Request, next: Next) -> Response {
    if request.body().is_end_stream() {
        return next.run(request).await;
    }
    let server = &state.config.server;
    let pace = Pace {
        bytes_per_s: server.min_body_bytes_per_s,
        grace: server.header_timeout_ms.duration(),
    };
    let arrival = Arc::new(Arrival::default());
    request.extensions_mut().insert(Arc::clone(&arrival));
    let has_own_stream = request.version() >= Version::HTTP_2;
    let request = request.map(|body| watched(body, Arc::clone(&arrival), pace));
    let mut response = next.run(request).await;
    if !has_own_stream && !arrival.has_ended.load(Ordering::Relaxed) {
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(CONNECTION, close);
    }
    response
}

/// Returns a body that is watched.
fn watched(body: Body, arrival: Arc<Arrival>, pace: Pace) -> Body {
    let mut watch = Watch {
        arrival,
        pace,
        arrived: 0,
        waited: Duration::ZERO,
        waiting: None,
    };
    wrap(body, move |body, context| watch.poll(body, context))
}

/// The lowest rate of a body.
#[derive(Clone, Copy, Debug)]
struct Pace {
    /// 0 means no limit.
    bytes_per_s: u64,
    /// The time that every body may take.
    grace: Duration,
}

impl Pace {
    /// Returns the time that `bytes` bytes may take.
    fn time_for(self, bytes: u64) -> Duration {
        match self.bytes_per_s {
            0 => Duration::MAX,
            rate => self.grace + Duration::from_secs(bytes / rate),
        }
    }
}

/// Watches the body of a request.
struct Watch {
    arrival: Arc<Arrival>,
    pace: Pace,
    arrived: u64,
    /// The time in which the handler waited for data.
    waited: Duration,
    waiting: Option<Waiting>,
}

/// A wait for data.
struct Waiting {
    since: Instant,
    /// Ends when the body is too slow. `None` if it never is.
    limit: Option<Pin<Box<Sleep>>>,
}

impl Watch {
    fn wait(&self) -> Waiting {
        let since = Instant::now();
        let left = self.pace.time_for(self.arrived).saturating_sub(self.waited);
        Waiting {
            since,
            limit: since
                .checked_add(left)
                .map(|limit| Box::pin(sleep_until(limit))),
        }
    }

    /// Polls the body. Counts what arrives, and the time in which nothing does.
    fn poll(&mut self, mut body: Pin<&mut Body>, context: &mut Context<'_>) -> PolledFrame {
        self.arrival.is_awaited.store(true, Ordering::Relaxed);
        let Poll::Ready(frame) = body.as_mut().poll_frame(context) else {
            let mut waiting = self.waiting.take().unwrap_or_else(|| self.wait());
            let limit = waiting.limit.as_mut().map(|limit| limit.as_mut());
            let is_over = limit.is_some_and(|limit| limit.poll(context).is_ready());
            self.waiting = Some(waiting);
            if !is_over {
                return Poll::Pending;
            }
            let bytes_per_s = self.pace.bytes_per_s;
            return Poll::Ready(Some(Err(axum::Error::new(TooSlow { bytes_per_s }))));
        };
        self.arrival.is_awaited.store(false, Ordering::Relaxed);
        self.arrival.frames.fetch_add(1, Ordering::Relaxed);
        if let Some(waiting) = self.waiting.take() {
            self.waited += waiting.since.elapsed();
        }
        match &frame {
            Some(Ok(frame)) => {
                self.arrived += frame.data_ref().map_or(0, |data| data.len() as u64);
                if body.is_end_stream() {
                    self.end();
                }
            }
            Some(Err(_)) => {}
            None => self.end(),
        }
        Poll::Ready(frame)
    }

    fn end(&self) {
        self.arrival.has_ended.store(true, Ordering::Relaxed);
    }
}
