//! The connections that are open at a time.
//!
//! If all slots are taken, the connection that has waited the longest for its client makes room. So whoever opens connections
//! and sends no request, or an unfinished one, keeps nobody out. A connection with a request in work is never closed for
//! another.

use std::{
    collections::BTreeMap,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
};

use axum::{
    body::{Body, HttpBody},
    response::Response,
};
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use tokio_util::sync::CancellationToken;

use crate::telemetry::metrics::{Metrics, labels::ClosedConnection};

/// The slots of a listener. Cheap to clone.
#[derive(Clone)]
pub(super) struct ConnectionSlots {
    shared: Arc<Shared>,
}

struct Shared {
    total: usize,
    metrics: Metrics,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    count: usize,
    next_turn: u64,
    /// The connections without a request in work. The one that waits the longest is the first.
    waiting: BTreeMap<u64, CancellationToken>,
}

/// An open connection. Dropping the last reference frees its slot.
pub(super) struct OpenConnection {
    shared: Arc<Shared>,
    makes_room: CancellationToken,
    work: Mutex<Work>,
}

/// The requests in work, and the turn of a connection that has none.
struct Work {
    requests: usize,
    turn: u64,
}

/// A request in work, from its whole head to the end of its answer.
struct RequestInWork(Arc<OpenConnection>);

impl ConnectionSlots {
    pub(super) fn new(total: usize, metrics: Metrics) -> Self {
        Self {
            shared: Arc::new(Shared {
                total,
                metrics,
                open: Mutex::default(),
            }),
        }
    }

    /// Takes a slot for a new connection. Returns `None` if every open connection has a request in work.
    pub(super) fn take(&self) -> Option<Arc<OpenConnection>> {
        let shared = &self.shared;
        let mut open = shared.open();
        if open.count >= shared.total && !open.close_longest_waiting(&shared.metrics) {
            shared.metrics.connection_closed(ClosedConnection::Refused);
            return None;
        }
        open.count += 1;
        let makes_room = CancellationToken::new();
        let turn = open.wait(makes_room.clone());
        shared.metrics.connection_opened(1);
        Some(Arc::new(OpenConnection {
            shared: Arc::clone(shared),
            makes_room,
            work: Mutex::new(Work { requests: 0, turn }),
        }))
    }

    /// Closes the connection that has waited the longest for its client, if there is one.
    pub(super) fn make_room(&self) {
        self.shared
            .open()
            .close_longest_waiting(&self.shared.metrics);
    }
}

impl Shared {
    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    fn wait(&mut self, makes_room: CancellationToken) -> u64 {
        let turn = self.next_turn;
        self.next_turn += 1;
        self.waiting.insert(turn, makes_room);
        turn
    }

    fn close_longest_waiting(&mut self, metrics: &Metrics) -> bool {
        let Some((_, longest)) = self.waiting.pop_first() else {
            return false;
        };
        longest.cancel();
        metrics.connection_closed(ClosedConnection::MadeRoom);
        true
    }
}

impl OpenConnection {
    /// Returns when the connection has to make room for another.
    pub(super) async fn makes_room(&self) {
        self.makes_room.cancelled().await;
    }

    /// Answers a request. The connection has work until the whole answer was taken.
    pub(super) async fn answer<E>(
        self: Arc<Self>,
        answer: impl Future<Output = Result<Response, E>>,
    ) -> Result<Response, E> {
        let request = RequestInWork::begin(self);
        let answer = answer.await?;
        Ok(answer.map(|body| {
            Body::new(BodyInWork {
                body,
                _request: request,
            })
        }))
    }

    fn work(&self) -> MutexGuard<'_, Work> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        let turn = self.work().turn;
        let mut open = self.shared.open();
        open.waiting.remove(&turn);
        open.count -= 1;
        self.shared.metrics.connection_opened(-1);
    }
}

impl RequestInWork {
    fn begin(connection: Arc<OpenConnection>) -> Self {
        {
            let mut work = connection.work();
            work.requests += 1;
            if work.requests == 1 {
                connection.shared.open().waiting.remove(&work.turn);
            }
        }
        Self(connection)
    }
}

impl Drop for RequestInWork {
    fn drop(&mut self) {
        let mut work = self.0.work();
        work.requests -= 1;
        if work.requests == 0 {
            work.turn = self.0.shared.open().wait(self.0.makes_room.clone());
        }
    }
}

/// The body of an answer.
struct BodyInWork {
    body: Body,
    _request: RequestInWork,
}

impl HttpBody for BodyInWork {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
