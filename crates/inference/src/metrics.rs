//! The events that engines count. The server declares the metrics. This crate only reports events.

use std::time::Duration;

use http::HeaderValue;

/// Counts the events of one operation's engine.
pub trait EngineMetrics: Send + Sync {
    /// Returns the name of the operation, such as `face_detection`.
    fn operation(&self) -> &'static str;

    /// Records that a batch ran.
    fn ran(&self, run: BatchRun);

    /// Records that `rows` rows meant for a device ran on the CPU. `reason` is a fault's name, such as `out_of_memory`.
    fn fell_back(&self, reason: &'static str, rows: usize);

    /// Records that `rows` rows did not run because their callers had left.
    fn skipped(&self, rows: usize);
}

/// One run of a batch.
#[derive(Clone, Copy, Debug)]
pub struct BatchRun {
    /// The device that ran it, such as `cpu` or `cuda`.
    pub device: &'static str,
    /// The number of rows that ran.
    pub rows: usize,
    /// The time between the commit of the first row and the run.
    pub queued: Duration,
    /// The duration of the run.
    pub elapsed: Duration,
}

/// Counts the events of one model on a remote server, and continues traces there.
pub trait RemoteMetrics: Send + Sync {
    /// Returns the header `traceparent` that names the current span. Returns `None` if the span is in no trace.
    fn traceparent(&self) -> Option<HeaderValue>;

    /// Records that a run ended. `outcome` is `ok` or the name of the failure.
    fn ran(&self, outcome: &'static str);

    /// Records that a request is repeated because of `reason`.
    fn retried(&self, reason: &'static str);
}

#[cfg(test)]
pub(crate) mod recorder {
    //! Metrics that tests read back.

    use std::{
        collections::BTreeMap,
        sync::{Arc, Mutex},
    };

    use super::*;

    /// Sums of the reported events, under the keys `rows DEVICE`, `batches`, `fell_back REASON` and `skipped`.
    #[derive(Clone, Default)]
    pub(crate) struct Recorder(Arc<Mutex<BTreeMap<String, usize>>>);

    impl Recorder {
        /// Returns the sum under `key`, or 0 if nothing was reported.
        pub(crate) fn sum(&self, key: &str) -> usize {
            self.0.lock().unwrap().get(key).copied().unwrap_or(0)
        }

        fn add(&self, key: String, count: usize) {
            *self.0.lock().unwrap().entry(key).or_default() += count;
        }
    }

    impl EngineMetrics for Recorder {
        fn operation(&self) -> &'static str {
            "recorded"
        }

        fn ran(&self, run: BatchRun) {
            self.add(format!("rows {}", run.device), run.rows);
            self.add("batches".to_owned(), 1);
        }

        fn fell_back(&self, reason: &'static str, rows: usize) {
            self.add(format!("fell_back {reason}"), rows);
        }

        fn skipped(&self, rows: usize) {
            self.add("skipped".to_owned(), rows);
        }
    }
}
