//! Counts requests and answers during a run.

use std::{collections::BTreeMap, time::Instant};

use http::StatusCode;
use serde::Serialize;

use super::connection::Answer;
use crate::{
    math::{Durations, Percentiles},
    workload::Window,
};

/// Counts requests and their answers.
pub struct Tally {
    window: Window,
    ok: Durations,
    rejected: Durations,
    lag: Durations,
    ok_within: u64,
    counts: Counts,
}

/// The number of requests in the window and their outcomes.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Counts {
    /// The number of requests that were due in the window.
    pub requests: u64,
    /// Their answers by status, including late ones.
    pub answers: BTreeMap<u16, u64>,
    /// The number of requests whose connection failed.
    pub failed: u64,
    /// The error of the first failure.
    pub first_failure: Option<String>,
    /// The number of requests without an answer when the wait for late answers ended.
    pub unanswered: u64,
    /// The bytes of the request bodies that were sent and answered.
    pub bytes_sent: u64,
    /// The bytes of the answer bodies.
    pub bytes_received: u64,
}

/// The totals of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Totals {
    /// The counts.
    #[serde(flatten)]
    pub counts: Counts,
    /// The number of requests per second that were due.
    pub offered: f64,
    /// The number of answers with 200 per second that arrived within the window.
    pub throughput: f64,
    /// The latency of the answers with 200, measured from the due time of each request.
    pub latency_ms: Option<Percentiles>,
    /// The latency of the answers with 429.
    pub rejected_ms: Option<Percentiles>,
    /// The delay of the generator before it sent a request of an open loop. The latencies contain it.
    pub lag_ms: Option<Percentiles>,
}

impl Tally {
    /// Creates a tally of the requests that are due in `window`.
    ///
    /// # Errors
    /// Never fails with the bounds in this module.
    pub fn new(window: Window) -> anyhow::Result<Self> {
        Ok(Self {
            window,
            ok: Durations::new()?,
            rejected: Durations::new()?,
            lag: Durations::new()?,
            ok_within: 0,
            counts: Counts::default(),
        })
    }

    /// Counts a request that is due.
    pub fn due(&mut self, due: Instant) {
        if self.window.contains(due) {
            self.counts.requests += 1;
        }
    }

    /// Records that the generator started a request at `begun`.
    pub fn begun(&mut self, due: Instant, begun: Instant) {
        if self.window.contains(due) {
            self.lag.add(begun.saturating_duration_since(due));
        }
    }

    /// Records the outcome of a request with a body of `sent` bytes.
    pub fn done(
        &mut self,
        due: Instant,
        done: Instant,
        sent: usize,
        outcome: Result<Answer, anyhow::Error>,
    ) {
        let is_ok = matches!(&outcome, Ok(answer) if answer.status == StatusCode::OK);
        // Throughput counts answers within the window, including answers to requests of the warm-up.
        if is_ok && self.window.contains(done) {
            self.ok_within += 1;
        }
        if !self.window.contains(due) {
            return;
        }
        match outcome {
            Ok(answer) => {
                let latency = done.saturating_duration_since(due);
                match answer.status {
                    StatusCode::OK => self.ok.add(latency),
                    StatusCode::TOO_MANY_REQUESTS => self.rejected.add(latency),
                    _ => {}
                }
                *self
                    .counts
                    .answers
                    .entry(answer.status.as_u16())
                    .or_default() += 1;
                self.counts.bytes_sent += sent as u64;
                self.counts.bytes_received += answer.bytes;
            }
            Err(error) => {
                self.counts.failed += 1;
                self.counts
                    .first_failure
                    .get_or_insert_with(|| format!("{error:#}"));
            }
        }
    }

    /// Computes the totals.
    pub fn totals(mut self) -> Totals {
        let ended = self.counts.failed + self.counts.answers.values().sum::<u64>();
        self.counts.unanswered = self.counts.requests.saturating_sub(ended);
        let seconds = (self.window.end - self.window.start).as_secs_f64();
        Totals {
            offered: self.counts.requests as f64 / seconds,
            throughput: self.ok_within as f64 / seconds,
            latency_ms: self.ok.percentiles(),
            rejected_ms: self.rejected.percentiles(),
            lag_ms: self.lag.percentiles(),
            counts: self.counts,
        }
    }
}

impl Totals {
    /// Returns the number of answers with this status.
    pub fn answers(&self, status: StatusCode) -> u64 {
        self.counts
            .answers
            .get(&status.as_u16())
            .copied()
            .unwrap_or_default()
    }

    /// Returns the share of the requests that were answered with 429.
    pub fn rejected_share(&self) -> f64 {
        let rejected = self.answers(StatusCode::TOO_MANY_REQUESTS) as f64;
        rejected / (self.counts.requests.max(1)) as f64
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn answer(status: StatusCode) -> Result<Answer, anyhow::Error> {
        Ok(Answer { status, bytes: 10 })
    }

    #[test]
    fn requests_count_by_due_time_and_throughput_by_completion_time() {
        let start = Instant::now() + Duration::from_secs(1);
        let window = Window {
            start,
            end: start + Duration::from_secs(2),
        };
        let mut tally = Tally::new(window).unwrap();
        let at = |millis: i64| match u64::try_from(millis) {
            Ok(millis) => start + Duration::from_millis(millis),
            Err(_) => start - Duration::from_millis(millis.unsigned_abs()),
        };
        for (due, done, status) in [
            (-100, 50, StatusCode::OK),
            (0, 100, StatusCode::OK),
            (100, 103, StatusCode::TOO_MANY_REQUESTS),
            (1900, 2400, StatusCode::OK),
        ] {
            tally.due(at(due));
            tally.done(at(due), at(done), 7, answer(status));
        }
        tally.due(at(200));
        tally.done(at(200), at(201), 7, Err(anyhow::anyhow!("reset")));
        tally.due(at(300));

        let totals = tally.totals();
        let counts = &totals.counts;
        assert_eq!(counts.requests, 5);
        assert_eq!(counts.answers, BTreeMap::from([(200, 2), (429, 1)]));
        assert_eq!((counts.failed, counts.unanswered), (1, 1));
        assert_eq!(counts.first_failure.as_deref(), Some("reset"));
        assert_eq!((counts.bytes_sent, counts.bytes_received), (21, 30));
        assert_eq!((totals.offered, totals.throughput), (2.5, 1.0));
        assert_eq!(totals.rejected_share(), 0.2);
        let latency = totals.latency_ms.unwrap();
        assert_eq!(latency.count, 2);
        assert!((latency.max - 500.0).abs() < 1.0);
        assert!((totals.rejected_ms.unwrap().p99 - 3.0).abs() < 0.1);
    }
}
