//! Opening the models: on the CPU always, and on the device that an operation's toggle asks for once it is proved there.

use std::{cell::RefCell, collections::HashMap, num::NonZeroUsize, path::PathBuf, sync::Arc};

use crate::{config::Config, telemetry::metrics::Metrics};
use facescan_clock::Clock;
use facescan_imaging::warp::ALIGNED_SIDE;
use facescan_inference::pool::CpuPool;
use facescan_inference::{
    accelerator::Accelerator,
    backend::{Backend, BackendError, Model, Session},
    device::{Active, Assignment, CpuProof, ProviderReport},
    engine::{BatchSizes, DeviceParts, Engine, EngineParts, Grouping, Sessions},
    graphs::{quality, session::GraphModel},
    image_executor::ImageDevice,
    operation::{Operation, Workload},
    placement::{DevicePlacement, Precision, Provider},
    proof::Proof,
    registry::{ModelSpec, Registry, Role},
};

mod cpu;
mod device;
mod pictures;
mod remote;

pub(super) use remote::Connected;

/// Opens models and starts their engines.
pub(super) struct Loader<'a> {
    pub config: &'a Config,
    pub registry: &'a Registry,
    pub backend: &'a Arc<dyn Backend>,
    pub pool: &'a Arc<CpuPool>,
    pub clock: &'a Arc<dyn Clock>,
    pub metrics: &'a Metrics,
    /// The places that ran the small known graph, and those that did not.
    pub placements: RefCell<CheckedPlacements>,
}

/// What was found of each place.
#[derive(Default)]
pub(super) struct CheckedPlacements {
    known: HashMap<DevicePlacement, Result<(), String>>,
    tried: Vec<ProviderReport>,
}

/// A model that is ready.
pub(super) struct Loaded {
    pub spec: Arc<ModelSpec>,
    pub engine: Engine,
    pub assignment: Assignment,
}

/// A model or graph on its way to an engine.
struct Subject {
    /// What it is called in the log.
    name: String,
    source: Source,
    /// The number of rows of a run, where the graph takes no other.
    fixed: Option<NonZeroUsize>,
    /// What OpenVINO may compute it in on the CPU, the fastest first.
    precisions: &'static [Precision],
    /// The shape of a usual row.
    row_shape: [usize; 3],
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

/// The sessions on the CPU, and what was found about another provider for them.
struct OnCpu {
    sessions: Sessions,
    /// One of the runtime's own kernels, which every other answer is compared with.
    own: Box<dyn Session>,
    placement: DevicePlacement,
    proof: Option<CpuProof>,
}

impl Loader<'_> {
    /// The providers that were tried, in order.
    pub fn into_tried(self) -> Vec<ProviderReport> {
        self.placements.into_inner().tried
    }

    /// Checks a model's file and graph against the registry and starts the engine of its operation.
    pub fn load(&self, id: &str, operation: Operation) -> anyhow::Result<Loaded> {
        let spec = self.registry.get(id)?;
        let Workload::Model(role) = operation.workload() else {
            anyhow::bail!("{} runs no model of the registry", operation.name());
        };
        anyhow::ensure!(
            spec.role == role,
            "model {id}, field role: is {}, and models.{role} names it",
            spec.role
        );
        let dir = &self.config.models.dir;
        spec.verify_file(dir)?;
        let side = self.config.detection.det_size as usize;
        let subject = Subject {
            name: spec.id.clone(),
            source: Source::File(spec.path(dir)),
            fixed: spec.batch.fixed(),
            precisions: precisions(role),
            row_shape: match role {
                Role::Detector => [3, side, side],
                Role::Embedder | Role::Encoder => spec.input.row_shape(),
            },
        };
        let mut on_cpu = self.on_cpu(&subject, spec)?;
        let (parts, assignment) = self.assign_model(&subject, operation, on_cpu.own.as_mut());
        Ok(Loaded {
            spec: Arc::new(spec.clone()),
            engine: self.engine(&subject, on_cpu.sessions, parts, operation),
            assignment: Assignment {
                cpu: on_cpu.placement,
                cpu_proof: on_cpu.proof,
                ..assignment
            },
        })
    }

    /// An engine for measuring quality, where that is asked of a device and one is proved. Without one the measures are
    /// taken where the pixels are, which no engine is faster than.
    pub fn load_quality(&self) -> (Option<Engine>, Assignment) {
        let side = ALIGNED_SIDE as usize;
        let subject = Subject {
            name: "quality".to_owned(),
            source: Source::Graph(Arc::new(quality::graph())),
            fixed: None,
            precisions: &[Precision::Full],
            row_shape: [3, side, side],
        };
        let operation = Operation::QualityChecks;
        let mut cpu = quality::OnCpu::default();
        let (parts, assignment) = self.assign_model(&subject, operation, &mut cpu);
        let engine = parts.map(|parts| {
            let per_worker = (0..self.pool.threads())
                .map(|_| Box::new(quality::OnCpu::default()) as Box<dyn Session>)
                .collect();
            let sessions = Sessions {
                per_worker,
                all_cores: None,
                replacement: None,
                placement: DevicePlacement::CPU,
            };
            self.engine(&subject, sessions, Some(parts), operation)
        });
        (engine, assignment)
    }

    /// The encoder of whole pictures, from its file or on the server that its entry names.
    pub fn load_encoder(
        &self,
        spec: &ModelSpec,
        connected: Option<Connected>,
    ) -> anyhow::Result<Loaded> {
        let operation = Operation::ImageEmbedding;
        match connected {
            Some(connected) => Ok(self.load_remote(spec, connected, operation)),
            None => self.load(&spec.id, operation),
        }
    }

    /// A device for a model, where the settings ask for one.
    fn assign_model(
        &self,
        subject: &Subject,
        operation: Operation,
        cpu: &mut dyn Session,
    ) -> (Option<DeviceParts>, Assignment) {
        self.assign(operation, |candidates, index| {
            let precisions = subject.precisions;
            self.on_device(
                &subject.name,
                (candidates, index),
                precisions,
                |placement| self.model_at(subject, placement, cpu),
            )
        })
    }

    /// Finds the device that the settings ask for, if they do.
    fn assign<T: OnDevice>(
        &self,
        operation: Operation,
        find: impl FnOnce(&[Provider], u32) -> Result<(T, Proof), String>,
    ) -> (Option<T>, Assignment) {
        self.assign_to(operation, self.config.devices.requested(operation), find)
    }

    /// Finds the device that is asked for, if one is.
    fn assign_to<T: OnDevice>(
        &self,
        operation: Operation,
        asked: Option<(Accelerator, u32)>,
        find: impl FnOnce(&[Provider], u32) -> Result<(T, Proof), String>,
    ) -> (Option<T>, Assignment) {
        let (requested, found) = match asked {
            None => ("cpu".to_owned(), Err(None)),
            Some((backend, index)) => (
                format!("{backend}:{index}"),
                find(Provider::candidates(backend), index).map_err(Some),
            ),
        };
        let (parts, device) = match found {
            Ok((parts, proof)) => {
                let active = parts.active(proof);
                (Some(parts), Ok(active))
            }
            Err(reason) => (None, Err(reason)),
        };
        let assignment = Assignment {
            operation,
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
        operation: Operation,
    ) -> Engine {
        let engine = Engine::start(EngineParts {
            sessions,
            grouping: self.grouping(subject.fixed, DevicePlacement::CPU),
            device,
            usual_row_len: subject.row_shape.iter().product(),
            pool: Arc::clone(self.pool),
            clock: Arc::clone(self.clock),
            metrics: self.metrics.engine(operation.name()),
        });
        self.metrics
            .watch_queue(operation.name(), engine.queue_depth());
        engine
    }

    /// How rows are grouped at a place; `fixed` is the number of rows of a graph that takes no other.
    fn grouping(&self, fixed: Option<NonZeroUsize>, placement: DevicePlacement) -> Grouping {
        let on_device = NonZeroUsize::new(self.config.devices.batch_size);
        let on_device = on_device.unwrap_or(NonZeroUsize::MIN);
        let (most, sizes) = match placement.provider {
            Provider::Cpu => (self.config.batching.cpu_batch_size, BatchSizes::Any),
            // It compiles no shapes that would want to be few.
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

/// What runs on a device that was found.
trait OnDevice {
    /// What is told of it.
    fn active(&self, proof: Proof) -> Active;
}

impl OnDevice for DeviceParts {
    fn active(&self, proof: Proof) -> Active {
        Active {
            placement: self.placement,
            health: Arc::clone(&self.health),
            proof,
        }
    }
}

impl OnDevice for ImageDevice {
    fn active(&self, proof: Proof) -> Active {
        Active {
            placement: self.placement,
            health: Arc::clone(&self.health),
            proof,
        }
    }
}

/// What OpenVINO may compute a model in on the CPU, the fastest first. bf16 leaves faces where they are in an embedder's
/// space: of 807 pictures the median cosine to 32 bits is 0.9999 and the least 0.9967. A detector's boxes it moves by
/// pixels.
fn precisions(role: Role) -> &'static [Precision] {
    match role {
        Role::Embedder => &[Precision::Reduced, Precision::Full],
        // Of what other models make of bf16 nothing is known.
        Role::Detector | Role::Encoder => &[Precision::Full],
    }
}

fn no_session() -> BackendError {
    BackendError::Unavailable {
        detail: "the backend opened no session".to_owned(),
    }
}
