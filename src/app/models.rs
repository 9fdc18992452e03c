//! Loads the models. Every model runs on the CPU. It also runs on the device that its operation's toggle selects, if
//! the device passes the self-test.

use std::{
    collections::HashMap,
    num::NonZeroUsize,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use anyhow::Context as _;
use facescan_clock::Clock;
use facescan_config::Config;
use facescan_imaging::warp::ALIGNED_SIDE;
use facescan_inference::pool::CpuPool;
use facescan_inference::{
    accelerator::Accelerator,
    backend::{Backend, BackendError, Model, Session},
    device::{Active, Assignment, CpuProof, ProviderReport},
    device_task::DeviceTask,
    engine::{BatchSizes, DeviceParts, Engine, EngineParts, Grouping, Sessions},
    graphs::{ImageGraph, quality, session::GraphModel},
    placement::{DevicePlacement, Precision, Provider},
    prepare::prepare,
    proof::DetectorInput,
    registry::{ModelSpec, PrepareSpec, Registry, RoleInput},
};
use facescan_pipeline::{encoder_process::EncoderProcesses, models::loaded::LoadedModel};
use facescan_telemetry::metrics::Metrics;

mod cpu;
mod device;
mod image_executor;
mod remote;

/// Loads models and starts their engines.
pub(super) struct Loader<'a> {
    pub config: &'a Config,
    pub registry: &'a Registry,
    pub backend: &'a Arc<dyn Backend>,
    pub pool: &'a Arc<CpuPool>,
    /// Runs what holds its turn for long.
    pub long_pool: &'a Arc<CpuPool>,
    pub encoders: Option<&'a EncoderProcesses>,
    pub clock: &'a Arc<dyn Clock>,
    pub metrics: &'a Metrics,
    /// The results of the self-test graph at each placement.
    pub placements: Mutex<CheckedPlacements>,
}

/// The results of the self-test graph at each placement, and their reports.
#[derive(Default)]
pub(super) struct CheckedPlacements {
    known: HashMap<DevicePlacement, Result<(), String>>,
    tried: Vec<ProviderReport>,
}

/// A model or graph to load.
struct Subject {
    /// The name in the log.
    name: String,
    source: Source,
    /// The batch size, if the graph has a fixed one.
    fixed: Option<NonZeroUsize>,
    /// The precisions that OpenVINO may use on the CPU, the fastest first.
    precisions: &'static [Precision],
    /// The shape of a typical row.
    row_shape: [usize; 3],
    /// What the comparison of faces needs, if it is a detector.
    detector: Option<DetectorInput>,
}

#[derive(Clone)]
enum Source {
    File(PathBuf),
    Graph(Arc<GraphModel>),
}

impl Source {
    fn model(&self) -> Model<'_> {
        match self {
            Self::File(path) => Model::File(path),
            Self::Graph(graph) => Model::Graph(graph),
        }
    }
}

/// The sessions on the CPU, and the result of testing another execution provider for them.
struct OnCpu {
    sessions: Sessions,
    /// A session of the runtime's own kernels. It is the reference for all other outputs.
    own: Box<dyn Session>,
    placement: DevicePlacement,
    proof: Option<CpuProof>,
}

impl Loader<'_> {
    /// Takes the reports of the execution providers that were tried, in order.
    pub fn take_tried(&self) -> Vec<ProviderReport> {
        std::mem::take(&mut self.placements().tried)
    }

    fn placements(&self) -> MutexGuard<'_, CheckedPlacements> {
        self.placements
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Prepares a model whose file is missing while the shipped one is there, as after the installation of a package.
    fn prepare_missing(&self, spec: &ModelSpec, dir: &Path) -> anyhow::Result<()> {
        let shipped = self.config.runtime.shipped();
        let can_be_made = |recipe: &PrepareSpec| shipped.join(&recipe.file).is_file();
        if spec.path(dir).exists() || !spec.prepare.as_ref().is_some_and(can_be_made) {
            return Ok(());
        }
        let prepared = prepare(spec, &shipped, dir);
        let prepared = prepared.with_context(|| format!("cannot prepare `{}`", spec.id))?;
        tracing::info!(model = spec.id, path = %prepared.path.display(), "model prepared");
        Ok(())
    }

    /// Checks a model's file and graph against the registry and starts the engine of its operation.
    pub fn load(
        &self,
        spec: &ModelSpec,
        task: DeviceTask,
    ) -> anyhow::Result<(LoadedModel, Assignment)> {
        let dir = &self.config.models_dir();
        self.prepare_missing(spec, dir)?;
        spec.verify_file(dir)?;
        let side = self.config.detection.det_size.side() as usize;
        let subject = Subject {
            name: spec.id.clone(),
            source: Source::File(spec.path(dir)),
            fixed: spec.batch.fixed(),
            precisions: spec.role.cpu_precisions(),
            row_shape: match spec.role.input() {
                RoleInput::Letterbox => [3, side, side],
                RoleInput::AlignedCrop | RoleInput::Image => spec.input.row_shape(),
            },
            detector: spec.family.head().map(|head| DetectorInput {
                head,
                normalization: spec.input.normalization(),
            }),
        };
        let mut on_cpu = self.on_cpu(&subject, spec)?;
        let (parts, assignment) = self.assign_model(&subject, task, on_cpu.own.as_mut());
        let engine = self.engine(&subject, on_cpu.sessions, parts, (task, self.pool));
        let long = self.long_engine(&subject, on_cpu.own, task);
        let waiting = engine.queue_depth();
        let long_waiting = long.as_ref().map(Engine::queue_depth);
        self.metrics.watch_queue(task.name(), move || {
            waiting() + long_waiting.as_ref().map_or(0, |waiting| waiting())
        });
        let model = LoadedModel {
            spec: Arc::new(spec.clone()),
            engine,
            long,
        };
        let assignment = Assignment {
            cpu: on_cpu.placement,
            cpu_proof: on_cpu.proof,
            ..assignment
        };
        Ok((model, assignment))
    }

    /// Returns an engine for measuring quality if the settings select a device and the device passes its self-test.
    /// Returns `None` otherwise: the CPU then measures quality directly on the pixels, which is faster than through an
    /// engine.
    pub fn load_quality(&self) -> (Option<Engine>, Assignment) {
        let side = ALIGNED_SIDE as usize;
        let subject = Subject {
            name: "quality".to_owned(),
            source: Source::Graph(Arc::new(ImageGraph::Quality.model())),
            fixed: None,
            precisions: &[Precision::Full],
            row_shape: [3, side, side],
            detector: None,
        };
        let task = DeviceTask::QualityChecks;
        let mut cpu = quality::OnCpu::default();
        let (parts, assignment) = self.assign_model(&subject, task, &mut cpu);
        let engine = parts.map(|parts| {
            let per_worker = (0..self.pool.threads())
                .map(|_| Box::new(quality::OnCpu::default()) as Box<dyn Session>)
                .collect();
            let sessions = Sessions::own(per_worker);
            let engine = self.engine(&subject, sessions, Some(parts), (task, self.pool));
            self.metrics.watch_queue(task.name(), engine.queue_depth());
            engine
        });
        (engine, assignment)
    }

    /// Prepares a device for a model if the settings select one.
    fn assign_model(
        &self,
        subject: &Subject,
        task: DeviceTask,
        cpu: &mut dyn Session,
    ) -> (Option<DeviceParts>, Assignment) {
        let asked = self.config.devices.requested(task);
        let named = (subject.name.as_str(), subject.precisions);
        self.assign(task, asked, named, |placement| {
            self.model_at(subject, placement, cpu)
        })
    }

    /// Prepares the device in `asked`, if there is one. `prove` returns what runs at a placement, and its entry for reports.
    fn assign<T>(
        &self,
        task: DeviceTask,
        asked: Option<(Accelerator, u32)>,
        (name, precisions): (&str, &[Precision]),
        prove: impl FnMut(DevicePlacement) -> Result<(T, Active), String>,
    ) -> (Option<T>, Assignment) {
        let (requested, found) = match asked {
            None => ("cpu".to_owned(), Err(None)),
            Some((backend, index)) => {
                let candidates = (Provider::candidates(backend), index);
                let found = self.on_device(name, candidates, precisions, prove);
                (format!("{backend}:{index}"), found.map_err(Some))
            }
        };
        let (parts, device) = match found {
            Ok((parts, active)) => (Some(parts), Ok(active)),
            Err(reason) => (None, Err(reason)),
        };
        let assignment = Assignment {
            task,
            requested,
            device,
            cpu: DevicePlacement::CPU,
            cpu_proof: None,
        };
        (parts, assignment)
    }

    fn engine(
        &self,
        subject: &Subject,
        sessions: Sessions,
        device: Option<DeviceParts>,
        (task, pool): (DeviceTask, &Arc<CpuPool>),
    ) -> Engine {
        Engine::start(EngineParts {
            sessions,
            grouping: self.grouping(subject.fixed, DevicePlacement::CPU),
            device,
            usual_row_len: subject.row_shape.iter().product(),
            pool: Arc::clone(pool),
            clock: Arc::clone(self.clock),
            metrics: self.metrics.engine(task.name()),
        })
    }

    /// Returns the engine of a detector's large rows, whose runs take seconds. They wait for one session, which leaves the
    /// cores to usual rows.
    fn long_engine(
        &self,
        subject: &Subject,
        session: Box<dyn Session>,
        task: DeviceTask,
    ) -> Option<Engine> {
        subject.detector.as_ref()?;
        let sessions = Sessions::own(vec![session]);
        Some(self.engine(subject, sessions, None, (task, self.long_pool)))
    }

    /// Returns how rows are grouped at a device placement. `fixed` is the batch size of a graph with a fixed one.
    fn grouping(&self, fixed: Option<NonZeroUsize>, placement: DevicePlacement) -> Grouping {
        let on_device = NonZeroUsize::new(self.config.devices.batch_size);
        let on_device = on_device.unwrap_or(NonZeroUsize::MIN);
        let (most, sizes) = match placement.provider {
            Provider::Cpu => (self.config.batching.cpu_batch_size, BatchSizes::Any),
            // A remote server does not compile a graph for each shape, so the number of shapes does not matter.
            Provider::Kserve => (on_device, BatchSizes::Any),
            _ => (on_device, BatchSizes::Buckets),
        };
        Grouping {
            max_rows: fixed.unwrap_or(most),
            sizes: fixed.map_or(sizes, |_| BatchSizes::Fixed),
            max_delay: self.config.batching.max_queue_delay(),
        }
    }
}

fn no_session() -> BackendError {
    BackendError::unavailable("the backend opened no session")
}
