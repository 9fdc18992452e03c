//! The health of an operation's device. The engine writes it; reports read it.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use serde::Serialize;
use utoipa::ToSchema;

use crate::breaker::{Breaker, BreakerSettings};

/// The reason why rows that were meant for a device ran on the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Fault {
    /// Not even a single row fits into the device's memory.
    OutOfMemory,
    /// A run ended in an error.
    Failed,
    /// A run returned non-finite values, or values that differ from the CPU's.
    WrongAnswer,
    /// A run did not end in time.
    Hung,
    /// The device was down after other faults.
    Down,
}

impl Fault {
    /// Every fault.
    pub const ALL: [Self; 5] = [
        Self::OutOfMemory,
        Self::Failed,
        Self::WrongAnswer,
        Self::Hung,
        Self::Down,
    ];

    /// Returns the name in metrics and responses.
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

/// A fault and its cause.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The kind of fault.
    pub fault: Fault,
    /// The report of the runtime.
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
    last_failure: Option<Failure>,
    /// Rows that ran on the CPU instead.
    fallbacks: BTreeMap<Fault, u64>,
    /// Rows that ran on the device.
    rows: u64,
    /// Current limit of rows in one run.
    most_rows: usize,
}

/// A report of a device's health.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct HealthReport {
    /// Whether rows go to the device: `up`, or `down` until a probe succeeds.
    #[schema(example = "up")]
    pub state: &'static str,
    /// Consecutive runs that failed.
    pub failures: u32,
    /// Milliseconds until the device is probed again; absent while it is up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_in_ms: Option<u64>,
    /// The last fault.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_fault: Option<String>,
    /// The current maximum number of rows in one run. It is less than the setting after the device ran out of memory.
    pub batch_size: usize,
    /// Rows that ran on the device.
    pub rows: u64,
    /// Rows that ran on the CPU instead, by reason.
    pub fallbacks: BTreeMap<&'static str, u64>,
}

impl Health {
    /// Creates the health of a device that is up and runs at most `most_rows` rows at once.
    pub fn new(settings: BreakerSettings, most_rows: usize) -> Self {
        Self {
            inner: Mutex::new(Inner {
                breaker: Breaker::new(settings),
                last_failure: None,
                fallbacks: BTreeMap::new(),
                rows: 0,
                most_rows,
            }),
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        // Every change is a single step, so a panic cannot leave it half done.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether the device may be used.
    pub fn is_up(&self) -> bool {
        self.inner().breaker.is_up()
    }

    /// Returns the time of the next probe, or `None` while the device is up.
    pub fn retry_at(&self) -> Option<Duration> {
        self.inner().breaker.retry_at()
    }

    /// Returns the current maximum number of rows in one run.
    pub fn most_rows(&self) -> usize {
        self.inner().most_rows
    }

    /// Sets how many rows may run at once.
    pub(crate) fn limit_rows(&self, most_rows: usize) {
        self.inner().most_rows = most_rows.max(1);
    }

    /// Records that rows ran on the device. A late success does not bring a device back that is down.
    pub fn ran(&self, rows: usize) {
        let mut inner = self.inner();
        if inner.breaker.is_up() {
            inner.breaker.succeeded();
        }
        inner.rows += rows as u64;
    }

    /// Records a failed run. Returns whether it takes the device down.
    pub fn failed(&self, failure: Failure, now: Duration) -> bool {
        let mut inner = self.inner();
        // A device that hangs or returns wrong results goes down at once.
        let is_enough = inner.breaker.failed(now);
        let is_severe = matches!(failure.fault, Fault::Hung | Fault::WrongAnswer);
        if is_severe && !is_enough {
            inner.breaker.take_down(now);
        }
        let is_down = is_enough || is_severe;
        inner.last_failure = Some(failure);
        is_down
    }

    /// Records a failed probe: the device stays down for longer.
    pub(crate) fn stays_down(&self, failure: Failure, now: Duration) {
        let mut inner = self.inner();
        inner.breaker.take_down(now);
        inner.last_failure = Some(failure);
    }

    /// Records a successful probe: the device is up.
    pub(crate) fn recovered(&self) {
        self.inner().breaker.succeeded();
    }

    /// Records that rows run on the CPU instead.
    pub fn fell_back(&self, fault: Fault, rows: usize) {
        *self.inner().fallbacks.entry(fault).or_default() += rows as u64;
    }

    /// Returns the reason why the device is down, or `None` while it is up.
    pub fn reason(&self) -> Option<String> {
        let inner = self.inner();
        (!inner.breaker.is_up()).then(|| match &inner.last_failure {
            Some(failure) => format!("the device is down: {}", failure.detail),
            None => "the device is down".to_owned(),
        })
    }

    /// Returns the report at `now`.
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
                .last_failure
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
