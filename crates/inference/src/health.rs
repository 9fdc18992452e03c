//! How an operation's device is doing: the one place that the engine writes to and reports read from.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use serde::Serialize;
use utoipa::ToSchema;

use super::breaker::{Breaker, Patience};

/// Why rows that were meant for a device ran on the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Fault {
    /// Not even one row found room in its memory.
    OutOfMemory,
    /// A run ended in an error.
    Failed,
    /// A run gave numbers that are none, or others than the CPU's.
    WrongAnswer,
    /// A run did not end in time.
    Hung,
    /// The device was down after other faults.
    Down,
}

impl Fault {
    /// The name in metrics and answers.
    pub fn name(self) -> &'static str {
        match self {
            Self::OutOfMemory => "out_of_memory",
            Self::Failed => "failed",
            Self::WrongAnswer => "wrong_answer",
            Self::Hung => "hung",
            Self::Down => "down",
        }
    }
}

/// A fault with what is known of it.
#[derive(Clone, Debug)]
pub struct Failure {
    /// What kind.
    pub fault: Fault,
    /// In the runtime's words.
    pub detail: String,
}

/// The state of one operation's device.
#[derive(Debug)]
pub struct Health {
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    breaker: Breaker,
    last: Option<Failure>,
    /// Rows that ran on the CPU instead.
    fallbacks: BTreeMap<Fault, u64>,
    /// Rows that ran on the device.
    rows: u64,
    /// Most rows in one run for now.
    most_rows: usize,
}

/// What is told of a device's health.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct HealthReport {
    /// Whether rows go to the device: `up`, or `down` until a probe succeeds.
    #[schema(example = "up")]
    pub state: &'static str,
    /// Runs in a row that failed.
    pub failures: u32,
    /// Milliseconds until the device is probed again; absent when it is up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_in_ms: Option<u64>,
    /// The last fault.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_fault: Option<String>,
    /// Most rows in one run for now: less than the setting after the device ran out of memory.
    pub batch_size: usize,
    /// Rows that ran on the device.
    pub rows: u64,
    /// Rows that ran on the CPU instead, by reason.
    pub fallbacks: BTreeMap<&'static str, u64>,
}

impl Health {
    /// The health of a device that is up and takes `most_rows` rows in one run.
    pub fn new(patience: Patience, most_rows: usize) -> Self {
        Self {
            inner: Mutex::new(Inner {
                breaker: Breaker::new(patience),
                last: None,
                fallbacks: BTreeMap::new(),
                rows: 0,
                most_rows,
            }),
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        // Every change to it is one step.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the device may be used.
    pub fn is_up(&self) -> bool {
        self.inner().breaker.is_up()
    }

    /// When the device is to be probed; `None` when it is up.
    pub fn retry_at(&self) -> Option<Duration> {
        self.inner().breaker.retry_at()
    }

    /// Most rows in one run for now.
    pub fn most_rows(&self) -> usize {
        self.inner().most_rows
    }

    /// Sets how many rows may run together.
    pub fn limit_rows(&self, most_rows: usize) {
        self.inner().most_rows = most_rows.max(1);
    }

    /// Rows ran on the device.
    pub fn ran(&self, rows: usize) {
        let mut inner = self.inner();
        inner.breaker.succeeded();
        inner.rows += rows as u64;
    }

    /// A run failed. Answers whether that takes the device down.
    pub fn failed(&self, failure: Failure, now: Duration) -> bool {
        let mut inner = self.inner();
        // A device that hangs or lies is not given another row to try it with.
        let is_enough = inner.breaker.failed(now);
        let is_grave = matches!(failure.fault, Fault::Hung | Fault::WrongAnswer);
        if is_grave && !is_enough {
            inner.breaker.take_down(now);
        }
        let is_down = is_enough || is_grave;
        inner.last = Some(failure);
        is_down
    }

    /// A probe failed: the device stays down, for longer.
    pub fn stays_down(&self, failure: Failure, now: Duration) {
        let mut inner = self.inner();
        inner.breaker.take_down(now);
        inner.last = Some(failure);
    }

    /// A probe succeeded.
    pub fn recovered(&self) {
        self.inner().breaker.succeeded();
    }

    /// Rows run on the CPU instead.
    pub fn fell_back(&self, fault: Fault, rows: usize) {
        *self.inner().fallbacks.entry(fault).or_default() += rows as u64;
    }

    /// Why the device is down; `None` when it is up.
    pub fn reason(&self) -> Option<String> {
        let inner = self.inner();
        (!inner.breaker.is_up()).then(|| match &inner.last {
            Some(failure) => format!("the device is down: {}", failure.detail),
            None => "the device is down".to_owned(),
        })
    }

    /// Everything, as of `now`.
    pub fn report(&self, now: Duration) -> HealthReport {
        let inner = self.inner();
        HealthReport {
            state: if inner.breaker.is_up() { "up" } else { "down" },
            failures: inner.breaker.failures(),
            retry_in_ms: inner
                .breaker
                .retry_at()
                .map(|at| u64::try_from(at.saturating_sub(now).as_millis()).unwrap_or(u64::MAX)),
            last_fault: inner
                .last
                .as_ref()
                .map(|failure| format!("{}: {}", failure.fault.name(), failure.detail)),
            batch_size: inner.most_rows,
            rows: inner.rows,
            fallbacks: inner
                .fallbacks
                .iter()
                .map(|(fault, rows)| (fault.name(), *rows))
                .collect(),
        }
    }
}
