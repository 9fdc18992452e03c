//! The device that makes tensor rows.

use std::sync::Arc;

use facescan_clock::Clock;
use facescan_inference::{device::Assignment, image_executor::ImageExecutor};

use super::row_job::RowJob;
use crate::core::run::millis;

/// The name of preprocessing among the devices of a response. It has its own device placement and is not a device task.
pub const PREPROCESSING: &str = "preprocessing";

/// The device of preprocessing, and its warm-up time.
#[derive(Clone)]
pub struct Preprocessing {
    /// Runs the jobs.
    pub executor: ImageExecutor,
    /// The requested device and the active device.
    pub assignment: Arc<Assignment>,
    /// The milliseconds that the device took to build the graphs and to run each one for the first time. `None` on the
    /// CPU.
    pub warm_up_ms: Option<f64>,
}

impl Preprocessing {
    /// Builds every graph and runs it once, if there is a device.
    pub async fn warm_up(&mut self, clock: &dyn Clock) {
        if !self.executor.has_device() {
            return;
        }
        let began = clock.monotonic();
        for job in RowJob::probes() {
            self.executor.run(Arc::new(job)).await;
        }
        self.warm_up_ms = Some(millis(clock.monotonic().saturating_sub(began)));
    }
}
