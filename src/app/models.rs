//! Opening the models: on the CPU always, and on the device that an operation's toggle asks for once it is proved there.

use std::{cell::RefCell, collections::HashMap, num::NonZeroUsize, path::PathBuf, sync::Arc};

use crate::{
    clock::Clock,
    config::{Config, CpuProvider},
    imaging::warp::ALIGNED_SIDE,
    inference::{
        backend::{Backend, BackendError, Model, Opening, Session},
        breaker::Patience,
        device::{Active, Assignment, CpuProof, Tried, asked_for},
        engine::{DeviceParts, Engine, EngineParts, Grouping, Reserve, Sessions, Sizes},
        graphs::{quality, session::GraphModel},
        health::Health,
        operation::Operation,
        place::{Place, Precision, Provider},
        proof::{self, Probe, Proof, Tolerance},
        registry::{ModelSpec, Registry, Role},
    },
    pool::CpuPool,
    telemetry::metrics::Metrics,
};

/// Sessions of one model on the CPU at most.
const MOST_SESSIONS: usize = 16;

/// Rows that a device is proved with: more than one, so that a row could be taken for another.
const PROOF_ROWS: usize = 2;

/// A provider has to be so many times as fast as the runtime's own kernels to take their place on the CPU.
const WORTH_IT: f64 = 1.25;

/// Opens models and starts their engines.
pub(super) struct Loader<'a> {
    pub config: &'a Config,
    pub registry: &'a Registry,
    pub backend: &'a Arc<dyn Backend>,
    pub pool: &'a Arc<CpuPool>,
    pub clock: &'a Arc<dyn Clock>,
    pub metrics: &'a Metrics,
    /// The places that ran the small known graph, and those that did not.
    pub places: RefCell<Places>,
}

/// What was found of each place.
#[derive(Default)]
pub(super) struct Places {
    known: HashMap<Place, Result<(), String>>,
    tried: Vec<Tried>,
}

impl Places {
    /// What was tried, in order.
    pub fn into_tried(self) -> Vec<Tried> {
        self.tried
    }
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
    place: Place,
    proof: Option<CpuProof>,
}

impl Loader<'_> {
    /// Checks a model's file and graph against the registry and starts the engine of its operation.
    pub fn load(&self, id: &str, operation: Operation) -> anyhow::Result<Loaded> {
        let spec = self.registry.get(id)?;
        let role = match operation {
            Operation::FaceEmbedding => Role::Embedder,
            _ => Role::Detector,
        };
        anyhow::ensure!(
            spec.role == role,
            "model {id}, field role: is {}, and models.{role} names it",
            spec.role
        );
        let dir = &self.config.models.dir;
        spec.verify_file(dir)?;
        let side = match role {
            Role::Detector => self.config.detection.det_size,
            Role::Embedder => spec.input.width,
        } as usize;
        let subject = Subject {
            name: spec.id.clone(),
            source: Source::File(spec.path(dir)),
            fixed: spec.batch.fixed(),
            precisions: precisions(role),
            row_shape: [3, side, side],
        };
        let mut on_cpu = self.on_cpu(&subject, spec)?;
        let cpu = on_cpu.sessions.narrow.first_mut().ok_or_else(no_session)?;
        let (parts, assignment) = self.assign(&subject, operation, cpu.as_mut());
        Ok(Loaded {
            spec: Arc::new(spec.clone()),
            engine: self.engine(&subject, on_cpu.sessions, parts, operation),
            assignment: Assignment {
                cpu: on_cpu.place,
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
        let (parts, assignment) = self.assign(&subject, operation, &mut quality::OnCpu::default());
        let engine = parts.map(|parts| {
            let narrow = (0..self.pool.threads())
                .map(|_| Box::new(quality::OnCpu::default()) as Box<dyn Session>)
                .collect();
            let sessions = Sessions {
                narrow,
                wide: None,
                reserve: None,
            };
            self.engine(&subject, sessions, Some(parts), operation)
        });
        (engine, assignment)
    }

    /// Finds the device that the settings ask for, if they do.
    fn assign(
        &self,
        subject: &Subject,
        operation: Operation,
        cpu: &mut dyn Session,
    ) -> (Option<DeviceParts>, Assignment) {
        let (requested, device) = match asked_for(&self.config.devices, operation) {
            None => ("cpu".to_owned(), Err(None)),
            Some((backend, index)) => (
                format!("{backend}:{index}"),
                self.on_device(subject, Provider::candidates(backend), index, cpu)
                    .map_err(Some),
            ),
        };
        let (parts, device) = match device {
            Ok((parts, proof)) => {
                let active = Active {
                    place: parts.place,
                    health: Arc::clone(&parts.health),
                    proof,
                };
                (Some(parts), Ok(active))
            }
            Err(reason) => (None, Err(reason)),
        };
        let assignment = Assignment {
            operation,
            requested,
            device,
            cpu: Place::CPU,
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
        Engine::start(EngineParts {
            sessions,
            grouping: self.grouping(subject, Place::CPU),
            device,
            usual_row_len: subject.row_shape.iter().product(),
            pool: Arc::clone(self.pool),
            clock: Arc::clone(self.clock),
            metrics: self.metrics.engine(operation),
        })
    }

    fn grouping(&self, subject: &Subject, place: Place) -> Grouping {
        let (most, sizes) = match place.provider {
            Provider::Cpu => (self.config.batching.cpu_batch_size, Sizes::Any),
            _ => (
                NonZeroUsize::new(self.config.devices.batch_size).unwrap_or(NonZeroUsize::MIN),
                Sizes::Buckets,
            ),
        };
        Grouping {
            max_rows: subject.fixed.unwrap_or(most),
            sizes: if subject.fixed.is_some() {
                Sizes::Fixed
            } else {
                sizes
            },
            max_delay: self.config.batching.max_queue_delay(),
        }
    }

    /// One session of one thread for each thread of the pool, and one over all of them. Many cores share few sessions
    /// of several threads instead, as each holds memory of its own.
    fn on_cpu(&self, subject: &Subject, spec: &ModelSpec) -> anyhow::Result<OnCpu> {
        let threads = self.pool.threads();
        let count = threads.min(MOST_SESSIONS);
        let each = NonZeroUsize::new(threads / count).unwrap_or(NonZeroUsize::MIN);
        let all = self.config.runtime.threads();
        let open = |place: Place, threads: NonZeroUsize, count: usize| {
            self.backend.open(&Opening {
                place,
                ..Opening::on_cpu(subject.source.model(), threads, count)
            })
        };
        let open_all = |place: Place| -> Result<Sessions, BackendError> {
            Ok(Sessions {
                narrow: open(place, each, count)?,
                wide: if all > each {
                    open(place, all, 1)?.pop()
                } else {
                    None
                },
                reserve: None,
            })
        };
        let mut own = open(Place::CPU, each, 1)?;
        let session = own.first_mut().ok_or_else(no_session)?;
        spec.check_signature(session.signature())?;
        let (place, proof) = self.choose_for_cpu(subject, session, each);
        let mut sessions = open_all(place)?;
        if place != Place::CPU {
            let (backend, source) = (Arc::clone(self.backend), subject.source.clone());
            let reserve: Reserve = Arc::new(move || {
                let opening = Opening::on_cpu(source.model(), each, 1);
                backend.open(&opening)?.pop().ok_or_else(no_session)
            });
            sessions.reserve = Some(reserve);
        }
        tracing::info!(model = subject.name, role = %spec.role, backend = self.backend.name(), device = "cpu", provider = place.provider.name(), "model loaded");
        Ok(OnCpu {
            sessions,
            place,
            proof,
        })
    }

    /// What runs a model on the CPU: the runtime's own kernels, unless another provider is right and faster.
    fn choose_for_cpu(
        &self,
        subject: &Subject,
        own: &mut Box<dyn Session>,
        threads: NonZeroUsize,
    ) -> (Place, Option<CpuProof>) {
        let asked = self.config.cpu.provider;
        if asked == CpuProvider::Default {
            return (Place::CPU, None);
        }
        let mut detail = String::new();
        for &precision in subject.precisions {
            let place = Place {
                provider: Provider::OpenvinoCpu,
                index: 0,
                precision,
            };
            match self.compare_on_cpu(subject, own, place, threads) {
                Ok((theirs, ours)) => {
                    detail = format!(
                        "{precision}: cosine {:.5}, {:.1} ms a row against {:.1} ms",
                        theirs.cosine, theirs.row_ms, ours.row_ms
                    );
                    let used =
                        asked == CpuProvider::Openvino || theirs.row_ms * WORTH_IT <= ours.row_ms;
                    if used {
                        return (place, Some(CpuProof { used, detail }));
                    }
                }
                Err(error) => detail = format!("{precision}: {error}"),
            }
        }
        if asked == CpuProvider::Openvino {
            tracing::warn!(
                model = subject.name,
                reason = detail,
                "falling back to the runtime's own kernels on the cpu"
            );
        }
        (
            Place::CPU,
            Some(CpuProof {
                used: false,
                detail,
            }),
        )
    }

    /// How a provider does beside the runtime's own kernels, on one row.
    fn compare_on_cpu(
        &self,
        subject: &Subject,
        own: &mut Box<dyn Session>,
        place: Place,
        threads: NonZeroUsize,
    ) -> Result<(Proof, Proof), String> {
        self.prove_place(place)?;
        let text = |error: BackendError| error.to_string();
        let opening = Opening {
            place,
            ..Opening::on_cpu(subject.source.model(), threads, 1)
        };
        let mut theirs = self.backend.open(&opening).map_err(text)?;
        let theirs = theirs.first_mut().ok_or_else(|| text(no_session()))?;
        let rows = subject.fixed.map_or(1, NonZeroUsize::get);
        let tolerance = Tolerance::of(place.precision);
        let probe = Probe::ask(own.as_mut(), &subject.row_shape, rows, tolerance).map_err(text)?;
        let clock = self.clock.as_ref();
        let theirs = proof::prove(theirs.as_mut(), &probe, clock).map_err(text)?;
        let ours = proof::prove(own.as_mut(), &probe, clock).map_err(text)?;
        Ok((theirs, ours))
    }

    /// The first of `candidates` that gives the CPU's answers with the model; or why none does.
    fn on_device(
        &self,
        subject: &Subject,
        candidates: &[Provider],
        index: u32,
        cpu: &mut dyn Session,
    ) -> Result<(DeviceParts, Proof), String> {
        let mut reasons = Vec::new();
        for &provider in candidates {
            let precisions = match provider {
                Provider::OpenvinoCpu => subject.precisions,
                _ => &[Precision::Full],
            };
            for &precision in precisions {
                let place = Place {
                    provider,
                    index: if provider.is_on_cpu() { 0 } else { index },
                    precision,
                };
                match self.on_place(subject, place, cpu) {
                    Ok(found) => return Ok(found),
                    Err(reason) => reasons.push(format!("{place}: {reason}")),
                }
            }
        }
        reasons.dedup();
        let reason = reasons.join("; ");
        tracing::warn!(model = subject.name, reason, "falling back to the cpu");
        Err(reason)
    }

    fn on_place(
        &self,
        subject: &Subject,
        place: Place,
        cpu: &mut dyn Session,
    ) -> Result<(DeviceParts, Proof), String> {
        self.prove_place(place)?;
        let text = |error: BackendError| error.to_string();
        let (backend, source) = (Arc::clone(self.backend), subject.source.clone());
        let (threads, memory_limit) = (self.config.runtime.threads(), self.memory_limit());
        let open = Arc::new(move || {
            let opening = Opening {
                place,
                memory_limit,
                ..Opening::on_cpu(source.model(), threads, 1)
            };
            backend.open(&opening)?.pop().ok_or_else(no_session)
        });
        let mut session = open().map_err(text)?;
        let rows = subject.fixed.map_or(PROOF_ROWS, NonZeroUsize::get);
        let tolerance = Tolerance::of(place.precision);
        let probe = Probe::ask(cpu, &subject.row_shape, rows, tolerance).map_err(text)?;
        let proof = proof::prove(session.as_mut(), &probe, self.clock.as_ref()).map_err(text)?;
        let nodes = proof.nodes.get(place.provider.runtime_name());
        if !proof.nodes.is_empty() && nodes.is_none() {
            return Err(format!(
                "the provider took none of the graph's nodes ({:?})",
                proof.nodes
            ));
        }
        let grouping = self.grouping(subject, place);
        let (cool_down, longest) = self.config.devices.cool_downs();
        let patience = Patience {
            failures: self.config.devices.failures_to_trip,
            cool_down,
            longest,
        };
        tracing::info!(
            model = subject.name, backend = self.backend.name(), device = %place,
            cosine = proof.cosine, nodes = ?proof.nodes, "model loaded"
        );
        let parts = DeviceParts {
            place,
            open,
            session,
            grouping,
            health: Arc::new(Health::new(patience, grouping.max_rows.get())),
            probe: Arc::new(probe),
            run_timeout: self.config.devices.run_timeout(),
            check_every: self.config.devices.check_every(),
        };
        Ok((parts, proof))
    }

    /// Runs the small known graph at a place, once.
    fn prove_place(&self, place: Place) -> Result<(), String> {
        if let Some(known) = self.places.borrow().known.get(&place) {
            return known.clone();
        }
        let refused =
            proof::prove_place(self.backend.as_ref(), place, self.config.runtime.threads()).err();
        let outcome = match &refused {
            Some(error) => Err(error.to_string()),
            None => Ok(()),
        };
        let mut places = self.places.borrow_mut();
        places.known.insert(place, outcome.clone());
        let tried = Tried::new(place, refused);
        if !places
            .tried
            .iter()
            .any(|known| known.device == tried.device)
        {
            places.tried.push(tried);
        }
        outcome
    }

    /// Each session's share of the limit: the runtime bounds the arena of a session, not of all of them.
    fn memory_limit(&self) -> Option<u64> {
        let devices = &self.config.devices;
        let sessions = Operation::ALL
            .into_iter()
            .filter(|operation| asked_for(devices, *operation).is_some())
            .count();
        devices
            .memory_limit()
            .map(|bytes| bytes / sessions.max(1) as u64)
    }
}

/// What OpenVINO may compute a model in on the CPU, the fastest first. bf16 leaves faces where they are in an embedder's
/// space: of 807 pictures the median cosine to 32 bits is 0.9999 and the least 0.9967. A detector's boxes it moves by
/// pixels.
fn precisions(role: Role) -> &'static [Precision] {
    match role {
        Role::Embedder => &[Precision::Reduced, Precision::Full],
        Role::Detector => &[Precision::Full],
    }
}

fn no_session() -> BackendError {
    BackendError::Unavailable {
        detail: "the backend opened no session".to_owned(),
    }
}
