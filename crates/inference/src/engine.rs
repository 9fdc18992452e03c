//! An engine runs the rows of many requests together on one model.
//!
//! A caller claims a row, writes its pixels directly into batch memory and commits it. The reply contains the outputs
//! of the whole batch and the index of the caller's row.
//!
//! Every engine has sessions on the CPU (`engine/cpu.rs`) and can have a device (`engine/device.rs`). Rows go to the
//! device while it is up. Rows that the device fails on run on the CPU, from the same memory.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use thiserror::Error;
use tokio::{
    runtime::Handle,
    sync::{Notify, oneshot},
};
use tracing::Span;

use crate::{
    backend::BackendError,
    batcher::{Batcher, Reply, Route, RouteGroupings},
    device::{DeviceRun, supervisor::Supervisor},
    metrics::EngineMetrics,
    placement::DevicePlacement,
    pool::CpuPool,
    tensor::Tensor,
};
use facescan_clock::Clock;

use crate::backend::Session;
pub use crate::batcher::{BatchSizes, Grouping};
use cpu::CpuSessions;
pub use cpu::{SessionOpener, Sessions};
pub use device::DeviceParts;
use rows::SubBatch;
pub use rows::{Pending, Row};

mod cpu;
mod device;
mod rows;
mod watch;

/// The total size in bytes of the buffers that are kept for reuse, unless the sessions need more. It is enough to reuse
/// the buffers of small rows after a burst of requests, and small next to the memory of a model.
const SPARE_BYTES: usize = 16 << 20;

/// Runs rows of many requests on one model. Cheap to clone.
#[derive(Clone)]
pub struct Engine {
    shared: Arc<Shared>,
}

/// The parts of an engine.
pub struct EngineParts {
    /// The sessions on the CPU, all of one model.
    pub sessions: Sessions,
    /// How rows are grouped on the CPU.
    pub grouping: Grouping,
    /// The device that rows go to while it is up.
    pub device: Option<DeviceParts>,
    /// The number of values in a usual row. Buffers of larger rows are not kept.
    pub usual_row_len: usize,
    /// Where the CPU's sessions run.
    pub pool: Arc<CpuPool>,
    /// Times runs and waits.
    pub clock: Arc<dyn Clock>,
    /// Counts rows and batches.
    pub metrics: Arc<dyn EngineMetrics>,
}

struct Shared {
    batcher: Mutex<Batcher<ReplySender>>,
    /// Sub-batches that wait for a session on the CPU.
    sub_batches: Mutex<VecDeque<SubBatch>>,
    sessions: Mutex<CpuSessions>,
    /// Where the sessions on the CPU were opened.
    cpu_placement: DevicePlacement,
    groupings: RouteGroupings,
    device: Option<DeviceLink>,
    pool: Arc<CpuPool>,
    clock: Arc<dyn Clock>,
    metrics: Arc<dyn EngineMetrics>,
    /// Spawns delay timers for rows that threads outside the runtime claim.
    runtime: Handle,
}

/// What the rest of the engine knows about its device.
struct DeviceLink {
    /// Wakes the device's task when a batch may be ready, when the device's state changes, or when the engine is
    /// dropped.
    wake: Arc<Notify>,
    supervisor: Arc<Supervisor<Box<dyn Session>>>,
}

/// The reason why an engine returned no result.
#[derive(Clone, Debug, Error)]
pub enum EngineError {
    /// The run failed.
    #[error(transparent)]
    Backend(#[from] Arc<BackendError>),
    /// The engine has stopped.
    #[error("the inference engine has stopped; restart the server")]
    Stopped,
}

/// The outputs of the batch that a row ran in.
#[derive(Clone, Debug)]
pub struct RowOutput {
    /// The graph's outputs. Their first dimension is the number of rows that ran.
    pub outputs: Arc<[Tensor]>,
    /// The row's index in the outputs.
    pub row: usize,
    /// Time between the row's commit and its run.
    pub queued: Duration,
    /// Where the row ran, and the reason if it did not run on the device.
    pub run: DeviceRun,
}

struct ReplySender {
    sender: oneshot::Sender<Result<RowOutput, EngineError>>,
    /// The row from its commit to its reply.
    span: Span,
}

impl Reply for ReplySender {
    fn is_abandoned(&self) -> bool {
        self.sender.is_closed()
    }
}

impl Engine {
    /// Starts an engine. Must be called within the async runtime.
    pub fn start(parts: EngineParts) -> Self {
        let groupings = RouteGroupings {
            cpu: parts.grouping,
            device: parts.device.as_ref().map(|device| device.grouping),
        };
        let buffer_bytes = parts.grouping.max_rows.get() * parts.usual_row_len * size_of::<f32>();
        // A session can use two buffers, because callers write the rows of the next one while one runs. The session
        // over all cores is not in `per_worker`.
        let in_use = 2 * (parts.sessions.per_worker.len() + 1);
        let spare = in_use.max(SPARE_BYTES / buffer_bytes.max(1));
        let (device, driver) = parts
            .device
            .map(|device| device::start(device, &parts.clock))
            .unzip();
        let shared = Arc::new(Shared {
            batcher: Mutex::new(Batcher::new(groupings, spare, parts.usual_row_len)),
            sub_batches: Mutex::default(),
            cpu_placement: parts.sessions.placement,
            sessions: Mutex::new(CpuSessions::new(parts.sessions)),
            groupings,
            device,
            pool: parts.pool,
            clock: parts.clock,
            metrics: parts.metrics,
            runtime: Handle::current(),
        });
        if let Some(driver) = driver {
            tokio::spawn(driver.drive(Arc::downgrade(&shared)));
        }
        Self { shared }
    }

    /// Claims a row of a batch. Write it at once: the batch cannot run before all of its rows are written.
    pub fn claim(&self, row_shape: &[usize]) -> Row {
        Row::claim(&self.shared, row_shape)
    }

    /// Returns where a row that is committed now would run: on the device while it is up, and on the CPU otherwise.
    ///
    /// The row may still run elsewhere. [`RowOutput::run`] has the actual placement.
    pub fn current_placement(&self) -> DevicePlacement {
        match &self.shared.device {
            Some(device) if device.supervisor.health().is_up() => device.supervisor.placement(),
            _ => self.shared.cpu_placement,
        }
    }

    /// Returns whether the engine has a device, which may be down.
    pub fn has_device(&self) -> bool {
        self.shared.device.is_some()
    }

    /// Returns a function that counts the committed rows that wait to run. It does not keep the engine alive.
    pub fn queue_depth(&self) -> impl Fn() -> usize + Send + Sync + use<> {
        let shared = Arc::downgrade(&self.shared);
        move || shared.upgrade().map_or(0, |shared| shared.waiting_rows())
    }
}

/// When the pool runs the next batch.
#[derive(Clone, Copy)]
enum RunTiming {
    /// When a thread of the pool is free.
    Queued,
    /// When the current job ends, on the same thread.
    Next,
}

impl Shared {
    fn batcher(&self) -> MutexGuard<'_, Batcher<ReplySender>> {
        // The batcher calls no caller's code, so a panic cannot leave it half changed.
        self.batcher.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn waiting_rows(&self) -> usize {
        let divided: usize = self.sub_batches().iter().map(|it| it.callers.len()).sum();
        divided + self.batcher().waiting_rows()
    }

    /// Dispatches the route's next batch when the open buffer has waited for its whole delay.
    fn start_delay_timer(self: &Arc<Self>, route: Route) {
        let delay = self.groupings.of(route).max_delay;
        if delay.is_zero() {
            return;
        }
        let shared = Arc::clone(self);
        self.runtime.spawn(async move {
            tokio::time::sleep(delay).await;
            let route = shared.batcher().effective_route(route);
            shared.dispatch(route, RunTiming::Queued);
        });
    }

    /// Wakes the threads or the task that run the rows of this route. The device's task always wakes, because it may
    /// still have to run rows that were claimed before the route changed.
    fn dispatch(self: &Arc<Self>, route: Route, timing: RunTiming) {
        if let Some(device) = &self.device {
            device.wake.notify_one();
        }
        match (route, timing) {
            (Route::Device, _) => {}
            (Route::Cpu, RunTiming::Queued) => self.queue_dispatch(),
            (Route::Cpu, RunTiming::Next) => self.dispatch_next(),
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if let Some(device) = &self.device {
            device.wake.notify_one();
        }
    }
}

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
