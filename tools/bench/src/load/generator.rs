//! The closed and the open loop that send requests.

use std::{
    cell::RefCell,
    thread,
    time::{Duration, Instant},
};

use anyhow::Context;
use facescan::cli::bench::images::Image;
use futures::{StreamExt, stream::FuturesUnordered};
use http::{
    Request,
    header::{CONTENT_TYPE, HOST},
};
use http_body_util::Full;
use hyper::body::Body;
use serde::Serialize;
use tokio::{
    sync::{Semaphore, mpsc},
    time::timeout_at,
};

use super::{
    arrivals::Arrivals,
    connection::{Connection, Reusable, exchange},
    tally::{Tally, Totals},
    target::Target,
};
use crate::workload::{Sequence, Window};

/// The time after the window in which answers still count as answers.
const STRAGGLERS: Duration = Duration::from_secs(10);

/// The pause of a client after a failed request. Without it, a server that refuses at once would be called in a tight
/// loop.
const AFTER_FAILURE: Duration = Duration::from_millis(10);

/// The pace of the requests.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Pace {
    /// The number of clients. Each client sends its next request when the last one is answered.
    Clients(usize),
    /// The number of requests per second. They do not wait for answers.
    Rate(f64),
}

/// Creates one request for each image.
///
/// # Errors
/// Returns an error if the target does not form a valid header.
pub fn requests(target: &Target, images: &[Image]) -> anyhow::Result<Vec<Reusable>> {
    images
        .iter()
        .map(|image| {
            Request::post(target.path.as_str())
                .header(HOST, &target.host)
                .header(CONTENT_TYPE, &image.media_type)
                .body(Full::new(image.bytes.clone()))
                .context("making a request")
        })
        .collect()
}

/// Sends requests and counts the answers.
pub struct Generator<'a> {
    /// The target of the requests.
    pub target: &'a Target,
    /// One request for each image.
    pub requests: &'a [Reusable],
    /// The order of the requests.
    pub sequence: Sequence,
    /// The time window in which requests count.
    pub window: Window,
    /// The seed of the arrival times of an open loop.
    pub seed: u64,
    /// The maximum number of connections of an open loop.
    pub most_connections: usize,
}

impl Generator<'_> {
    /// Sends requests until the window ends and the late answers have arrived.
    ///
    /// # Errors
    /// Returns an error if the timing thread of an open loop cannot start.
    pub async fn run(&self, pace: Pace) -> anyhow::Result<Totals> {
        let tally = RefCell::new(Tally::new(self.window)?);
        let give_up = (self.window.end + STRAGGLERS).into();
        // The tally counts requests that are cut off here as unanswered.
        match pace {
            Pace::Clients(clients) => timeout_at(give_up, self.closed(clients, &tally)).await.ok(),
            Pace::Rate(rate) => {
                let due = self.keep_time(rate)?;
                timeout_at(give_up, self.open(due, &tally)).await.ok()
            }
        };
        Ok(tally.into_inner().totals())
    }

    async fn closed(&self, clients: usize, tally: &RefCell<Tally>) {
        let mut running: FuturesUnordered<_> = (0..clients).map(|_| self.client(tally)).collect();
        while running.next().await.is_some() {}
    }

    async fn client(&self, tally: &RefCell<Tally>) {
        let mut connection = None;
        while Instant::now() < self.window.end {
            let request = &self.requests[self.sequence.take()];
            let sent = Instant::now();
            tally.borrow_mut().due(sent);
            let outcome = exchange(self.target, &mut connection, request).await;
            let failed = outcome.is_err();
            let length = body_length(request);
            tally
                .borrow_mut()
                .done(sent, Instant::now(), length, outcome);
            if failed {
                tokio::time::sleep(AFTER_FAILURE).await;
            }
        }
    }

    /// Starts a thread that sends the due time of each request. The timers of the async runtime have a resolution of
    /// only one millisecond.
    fn keep_time(&self, rate: f64) -> anyhow::Result<mpsc::UnboundedReceiver<Instant>> {
        let (sender, due) = mpsc::unbounded_channel();
        let (start, end) = (Instant::now(), self.window.end);
        let arrivals = Arrivals::new(rate, self.seed);
        thread::Builder::new()
            .name("arrivals".to_owned())
            .spawn(move || {
                for at in arrivals.map(|at| start + at).take_while(|at| *at < end) {
                    thread::sleep(at.saturating_duration_since(Instant::now()));
                    if sender.send(at).is_err() {
                        return;
                    }
                }
            })
            .context("starting the timing thread")?;
        Ok(due)
    }

    async fn open(&self, mut due: mpsc::UnboundedReceiver<Instant>, tally: &RefCell<Tally>) {
        let pool = Pool {
            idle: RefCell::new(Vec::new()),
            room: Semaphore::new(self.most_connections.max(1)),
        };
        let mut running = FuturesUnordered::new();
        let mut is_over = false;
        while !is_over || !running.is_empty() {
            tokio::select! {
                at = due.recv(), if !is_over => match at {
                    Some(at) => {
                        tally.borrow_mut().due(at);
                        running.push(self.arrival(at, &pool, tally));
                    }
                    None => is_over = true,
                },
                Some(()) = running.next() => {}
            }
        }
    }

    async fn arrival(&self, due: Instant, pool: &Pool, tally: &RefCell<Tally>) {
        let request = &self.requests[self.sequence.take()];
        tally.borrow_mut().begun(due, Instant::now());
        // The semaphore is never closed, so this always returns a permit.
        let _room = pool.room.acquire().await;
        // The connection that was used last is the most likely to be open.
        let mut connection = pool.idle.borrow_mut().pop();
        let outcome = exchange(self.target, &mut connection, request).await;
        let length = body_length(request);
        tally
            .borrow_mut()
            .done(due, Instant::now(), length, outcome);
        pool.idle.borrow_mut().extend(connection);
    }
}

/// The connections of an open loop.
struct Pool {
    idle: RefCell<Vec<Connection>>,
    room: Semaphore,
}

fn body_length(request: &Reusable) -> usize {
    let length = request.body().size_hint().exact().unwrap_or_default();
    usize::try_from(length).unwrap_or_default()
}
