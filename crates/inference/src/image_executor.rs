//! Runs work on whole images: graphs on a device while it is up, SIMD code on the CPU otherwise.
//!
//! Images differ in size, so they run one at a time and not in batches. A job that fails on a device runs once on the
//! CPU. A [supervisor](crate::device) decides whether the device can be used.

use std::{num::NonZeroU64, sync::Arc, time::Duration};

use tokio::{runtime::Handle, sync::Notify};
use tracing::{Instrument, field::Empty, info_span};

use crate::{
    backend::BackendError,
    device::{
        DeviceRun,
        supervisor::{Supervisor, SupervisorParts},
    },
    health::{Failure, Fault, Health},
    metrics::{BatchRun, EngineMetrics},
    placement::{DevicePlacement, Provider},
};
use facescan_clock::Clock;

pub use crate::device::supervisor::ShapeKey;
pub use graph_sessions::{GraphOpener, GraphSessions, only_output};
pub use probe::{HealthProbe, all_probes, health_probe, prove};

mod graph_sessions;
mod probe;

/// A job on an image. A device runs a graph for it, and the CPU runs code. The results are equal within the tolerance
/// of [`compare`](Self::compare).
pub trait ImageJob: Send + Sync + 'static {
    /// The result.
    type Output: Send + 'static;

    /// Returns the graph, and the sizes that a runtime may compile it for.
    fn shape_key(&self) -> ShapeKey;

    /// Does the work on the thread of a device.
    ///
    /// # Errors
    /// Returns the runtime's error if the device fails.
    fn run_on_device(&self, graphs: &mut GraphSessions) -> Result<Self::Output, BackendError>;

    /// Does the work on the current thread.
    fn run_on_cpu(&self) -> Self::Output;

    /// Compares a device's result with the CPU's. Returns their cosine.
    ///
    /// # Errors
    /// Returns a description of the difference if it exceeds the tolerance.
    fn compare(&self, given: &Self::Output, right: &Self::Output) -> Result<f64, String>;
}

/// Runs the image jobs of one operation. Cheap to clone.
#[derive(Clone)]
pub struct ImageExecutor {
    device: Option<Device>,
    clock: Arc<dyn Clock>,
    metrics: Arc<dyn EngineMetrics>,
}

/// A device for whole images that has passed its probe.
pub struct ImageDevice {
    /// Provider, device number and precision.
    pub placement: DevicePlacement,
    /// Opens graphs on the device.
    pub open: GraphOpener,
    /// The device's state, for reports.
    pub health: Arc<Health>,
    /// Runs jobs with known results.
    pub probe: HealthProbe,
    /// The time limit of a run.
    pub run_timeout: Duration,
    /// Every `check_every`th job is repeated on the CPU and compared.
    pub check_every: Option<NonZeroU64>,
}

/// The result of an image job.
#[derive(Debug)]
pub struct Completed<T> {
    /// The result.
    pub output: T,
    /// The time that the job waited for the device.
    pub queued: Duration,
    /// Where the job ran.
    pub run: DeviceRun,
}

#[derive(Clone)]
struct Device {
    supervisor: Arc<Supervisor<GraphSessions>>,
    runtime: Handle,
}

impl ImageExecutor {
    /// Creates an executor with a device, or on the CPU alone. With a device, this must be called within the async
    /// runtime.
    pub fn new(
        device: Option<ImageDevice>,
        clock: Arc<dyn Clock>,
        metrics: Arc<dyn EngineMetrics>,
    ) -> Self {
        Self {
            device: device.map(|parts| Device::start(parts, Arc::clone(&clock))),
            clock,
            metrics,
        }
    }

    /// Returns whether there is a device, up or down. Without one, callers can use code that needs no copy of the
    /// image.
    pub fn has_device(&self) -> bool {
        self.device.is_some()
    }

    /// Runs a job. If the CPU does it, it runs on the thread that polls this future, so poll it on the CPU pool.
    pub async fn run<J: ImageJob>(&self, job: Arc<J>) -> Completed<J::Output> {
        let operation = self.metrics.operation();
        let span = info_span!(target: "otlp", "image job", operation, device = Empty);
        let completed = self.run_anywhere(job).await;
        span.record("device", completed.run.placement.provider.name());
        completed
    }

    async fn run_anywhere<J: ImageJob>(&self, job: Arc<J>) -> Completed<J::Output> {
        let Some(device) = &self.device else {
            return self.run_on_cpu(job.as_ref(), None);
        };
        let submitted_at = self.clock.monotonic();
        match device.run(&job, self.clock.as_ref()).await {
            Ok((output, elapsed)) => {
                let total = self.clock.monotonic().saturating_sub(submitted_at);
                let queued = total.saturating_sub(elapsed);
                self.metrics.ran(BatchRun {
                    device: device.supervisor.placement().provider.name(),
                    rows: 1,
                    queued,
                    elapsed,
                });
                Completed {
                    output,
                    queued,
                    run: DeviceRun {
                        placement: device.supervisor.placement(),
                        fallback: None,
                    },
                }
            }
            Err(fault) => {
                self.metrics.fell_back(fault.name(), 1);
                device.supervisor.health().fell_back(fault, 1);
                // Callers that wait behind this one go first: this thread may have to run them next.
                tokio::task::yield_now().await;
                self.run_on_cpu(job.as_ref(), Some(fault))
            }
        }
    }

    fn run_on_cpu<J: ImageJob>(&self, job: &J, fallback: Option<Fault>) -> Completed<J::Output> {
        let started_at = self.clock.monotonic();
        let output = job.run_on_cpu();
        self.metrics.ran(BatchRun {
            device: Provider::Cpu.name(),
            rows: 1,
            queued: Duration::ZERO,
            elapsed: self.clock.monotonic().saturating_sub(started_at),
        });
        Completed {
            output,
            queued: Duration::ZERO,
            run: DeviceRun {
                placement: DevicePlacement::CPU,
                fallback,
            },
        }
    }
}

impl Device {
    fn start(parts: ImageDevice, clock: Arc<dyn Clock>) -> Self {
        let open = parts.open;
        let open = Arc::new(move || Ok(GraphSessions::new(Arc::clone(&open))));
        let first = Arc::clone(&open);
        let parts = SupervisorParts {
            placement: parts.placement,
            open,
            health: parts.health,
            probe: parts.probe,
            run_timeout: parts.run_timeout,
            check_every: parts.check_every,
            clock,
            changed: Arc::new(Notify::new()),
        };
        Self {
            supervisor: Supervisor::start(parts, move || first()),
            runtime: Handle::current(),
        }
    }

    /// Runs a job on the device. Returns its result and how long it ran.
    async fn run<J: ImageJob>(
        &self,
        job: &Arc<J>,
        clock: &dyn Clock,
    ) -> Result<(J::Output, Duration), Fault> {
        let dispatch = self.supervisor.acquire().await.ok_or(Fault::Down)?;
        let slot = dispatch.slot();
        let started_at = clock.monotonic();
        let supervisor = Arc::clone(&self.supervisor);
        let (on_device, watched) = (Arc::clone(job), Arc::clone(&slot));
        let running = async move {
            let shape = on_device.shape_key();
            let run = move |graphs: &mut GraphSessions| {
                on_device.run_on_device(graphs).map_err(Failure::from)
            };
            let outcome = supervisor.run(dispatch, shape, run).await;
            outcome.map_err(|failure| {
                let fault = failure.fault;
                supervisor.failed(&watched, failure, 1);
                fault
            })
        };
        // A separate task notices a hang even if the caller has left.
        let running = self.runtime.spawn(running.in_current_span());
        let outcome = running.await.unwrap_or_else(|error| {
            tracing::error!(%error, "the task that runs an image job ended early");
            Err(Fault::Failed)
        });
        let elapsed = clock.monotonic().saturating_sub(started_at);
        let output = outcome?;
        if self.supervisor.is_check_due()
            && let Err(detail) = job.compare(&output, &job.run_on_cpu())
        {
            let fault = Fault::WrongAnswer;
            self.supervisor.failed(&slot, Failure { fault, detail }, 1);
            return Err(fault);
        }
        self.supervisor.succeeded(1);
        Ok((output, elapsed))
    }
}

#[cfg(test)]
mod tests;
