//! What the engines count. The server declares the metrics; this crate only says what happened.

use std::time::Duration;

/// Counts what one operation's engine does.
pub trait EngineMetrics: Send + Sync {
    /// A batch of `rows` rows ran on `device`, such as `cpu` or `cuda`.
    fn ran(&self, device: &'static str, rows: usize, elapsed: Duration);

    /// `rows` rows meant for a device ran on the CPU, for a reason such as `out_of_memory`.
    fn fell_back(&self, reason: &'static str, rows: usize);

    /// `rows` rows did not run because their callers had left.
    fn skipped(&self, rows: usize);
}

/// Counts what one model on a remote server does.
pub trait RemoteMetrics: Send + Sync {
    /// A run ended, with `ok` or the name of its failure.
    fn ran(&self, outcome: &'static str);

    /// A request is made again because of `reason`.
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

    /// Sums of what was counted, by `rows DEVICE`, `batches`, `fell_back REASON` and `skipped`.
    #[derive(Clone, Default)]
    pub(crate) struct Recorder(Arc<Mutex<BTreeMap<String, usize>>>);

    impl Recorder {
        /// The sum under `key`; 0 for what was never counted.
        pub(crate) fn sum(&self, key: &str) -> usize {
            self.0.lock().unwrap().get(key).copied().unwrap_or(0)
        }

        fn add(&self, key: String, count: usize) {
            *self.0.lock().unwrap().entry(key).or_default() += count;
        }
    }

    impl EngineMetrics for Recorder {
        fn ran(&self, device: &'static str, rows: usize, _elapsed: Duration) {
            self.add(format!("rows {device}"), rows);
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
