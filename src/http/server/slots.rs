//! The connections that are open at a time.
//!
//! If all slots are taken, the connection that has waited the longest for its client makes room. So whoever opens connections
//! and sends no request, or an unfinished one, or does not read the response, keeps nobody out. A connection with a request in
//! work is never closed for another.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use axum::{body::HttpBody as _, response::Response};
use facescan_telemetry::metrics::{Metrics, labels::ClosedConnection};
use tokio_util::sync::CancellationToken;

use crate::http::wrapped_body::wrap;

/// The slots of a listener.
pub(super) struct ConnectionSlots {
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
    slots: Arc<ConnectionSlots>,
    makes_room: CancellationToken,
    work: Mutex<Work>,
}

/// The requests in work, and the turn of a connection that has none.
struct Work {
    requests: usize,
    turn: u64,
}

/// A request of a connection. It is in work while its response, or the next part of it, is computed, and not while the client
/// reads.
struct Request {
    connection: Arc<OpenConnection>,
    is_in_work: bool,
}

impl ConnectionSlots {
    pub(super) fn new(total: usize, metrics: Metrics) -> Arc<Self> {
        Arc::new(Self {
            total,
            metrics,
            open: Mutex::default(),
        })
    }

    /// Takes a slot for a new connection. Returns `None` if every open connection has a request in work.
    pub(super) fn take(self: &Arc<Self>) -> Option<Arc<OpenConnection>> {
        let mut open = self.open();
        if open.count >= self.total && !open.close_longest_waiting(&self.metrics) {
            self.metrics.connection_closed(ClosedConnection::Refused);
            return None;
        }
        open.count += 1;
        let makes_room = CancellationToken::new();
        let turn = open.wait(makes_room.clone());
        self.metrics.connection_opened(1);
        Some(Arc::new(OpenConnection {
            slots: Arc::clone(self),
            makes_room,
            work: Mutex::new(Work { requests: 0, turn }),
        }))
    }

    /// Closes the connection that has waited the longest for its client. Returns whether there is one.
    pub(super) fn make_room(&self) -> bool {
        self.open().close_longest_waiting(&self.metrics)
    }

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

    /// Computes the response to a request. The connection has work meanwhile.
    pub(super) async fn response<E>(
        self: Arc<Self>,
        response: impl Future<Output = Result<Response, E>>,
    ) -> Result<Response, E> {
        let mut request = Request {
            connection: self,
            is_in_work: false,
        };
        request.set_in_work(true);
        let response = response.await?;
        // A client without a window does not take the first part.
        request.set_in_work(false);
        Ok(response.map(|body| {
            wrap(body, move |body, context| {
                let frame = body.poll_frame(context);
                request.set_in_work(frame.is_pending());
                frame
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
        let mut open = self.slots.open();
        open.waiting.remove(&turn);
        open.count -= 1;
        self.slots.metrics.connection_opened(-1);
    }
}

impl Request {
    fn set_in_work(&mut self, is_in_work: bool) {
        if self.is_in_work == is_in_work {
            return;
        }
        self.is_in_work = is_in_work;
        let OpenConnection {
            slots, makes_room, ..
        } = &*self.connection;
        let mut work = self.connection.work();
        if is_in_work {
            work.requests += 1;
            if work.requests == 1 {
                slots.open().waiting.remove(&work.turn);
            }
        } else {
            work.requests -= 1;
            if work.requests == 0 {
                work.turn = slots.open().wait(makes_room.clone());
            }
        }
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        self.set_in_work(false);
    }
}
