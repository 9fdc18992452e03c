//! The two loops that send requests.

use std::{
    cell::RefCell,
    thread,
    time::{Duration, Instant},
};

use anyhow::Context;
use facescan::cli::bench::pictures::Picture;
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

/// How long answers may come after the window before they count as missing.
const STRAGGLERS: Duration = Duration::from_secs(10);

/// The pause of a client whose request failed: a server that refuses at once would be asked in a tight loop.
const AFTER_FAILURE: Duration = Duration::from_millis(10);

/// How requests are paced.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Pace {
    /// This number of clients; each sends its next request when the last is answered.
    Clients(usize),
    /// This number of requests a second, whether answers come or not.
    Rate(f64),
}

/// A request for each picture.
///
/// # Errors
/// When a header cannot be made of the target.
pub fn requests(target: &Target, pictures: &[Picture]) -> anyhow::Result<Vec<Reusable>> {
    pictures
        .iter()
        .map(|picture| {
            Request::post(target.path.as_str())
                .header(HOST, &target.host)
                .header(CONTENT_TYPE, &picture.media_type)
                .body(Full::new(picture.bytes.clone()))
                .context("making a request")
        })
        .collect()
}

/// Sends requests and counts their answers.
pub struct Generator<'a> {
    /// Where to.
    pub target: &'a Target,
    /// One for each picture.
    pub requests: &'a [Reusable],
    /// Which one is next.
    pub sequence: Sequence,
    /// When what is sent counts.
    pub window: Window,
    /// The times of an open loop follow from it.
    pub seed: u64,
    /// The most connections of an open loop.
    pub most_connections: usize,
}

impl Generator<'_> {
    /// Runs until the window ends and the stragglers are answered.
    ///
    /// # Errors
    /// When the thread that keeps an open loop's time cannot be started.
    pub async fn run(&self, pace: Pace) -> anyhow::Result<Totals> {
        let tally = RefCell::new(Tally::new(self.window)?);
        let give_up = (self.window.end + STRAGGLERS).into();
        // What is cut off here is in the tally as unanswered.
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

    /// A thread that tells when each request is due: the async runtime's own timers count in whole milliseconds.
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
            .context("starting the thread that keeps time")?;
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
        // The semaphore is never closed, so that this always gives a permit.
        let _room = pool.room.acquire().await;
        // The one used last is the likeliest to be open still.
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
