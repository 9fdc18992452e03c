//! Work in the background that is repeated until the process stops.

use std::{error::Error, time::Duration};

use tokio_util::sync::CancellationToken;

use super::{
    causes::with_causes,
    metrics::{Metrics, labels::Sweep},
};

/// The times at which a task in the background sweeps: at once, and again after each period.
pub struct Sweeps {
    task: Sweep,
    period: Duration,
    stop: CancellationToken,
    metrics: Metrics,
    is_first: bool,
}

impl Sweeps {
    /// Returns the sweeps of a task until `stop` is cancelled. The period begins at the end of a sweep.
    pub fn new(task: Sweep, period: Duration, stop: CancellationToken, metrics: &Metrics) -> Self {
        Self {
            task,
            period,
            stop,
            metrics: metrics.clone(),
            is_first: true,
        }
    }

    /// Waits for the next sweep. Returns false if there is none.
    pub async fn next(&mut self) -> bool {
        if std::mem::take(&mut self.is_first) {
            return true;
        }
        let pause = tokio::time::sleep(self.period);
        self.stop.run_until_cancelled(pause).await.is_some()
    }

    /// Logs and counts a failure. The next sweep does the rest.
    pub fn record<E: Error>(&self, result: Result<(), E>) {
        if let Err(error) = result {
            sweep_failed(&self.metrics, self.task, &error);
        }
    }
}

/// Logs and counts a failure of a task that is repeated.
pub fn sweep_failed(metrics: &Metrics, task: Sweep, error: &dyn Error) {
    let (error, task_name) = (with_causes(error), task.name());
    tracing::warn!(
        error,
        task = task_name,
        "a task in the background failed; it is tried again"
    );
    metrics.sweep_failed(task);
}
