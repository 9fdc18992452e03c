//! Opening the models: on the CPU always, and on the device that an operation's toggle asks for once it is proved there.

use std::{cell::RefCell, collections::HashMap, num::NonZeroUsize, path::PathBuf, sync::Arc};

use crate::{
    clock::Clock,
    config::{Config, CpuProvider},
    inference::{
        backend::{Backend, BackendError, Model, Opening, Session},
        breaker::Patience,
        device::{Active, Assignment, CpuProof, Tried, asked_for},
        engine::{DeviceParts, Engine, EngineParts, Grouping, Reserve, Sessions, Sizes},
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

/// A model file on its way to an engine.
struct File<'a> {
    spec: &'a ModelSpec,
    path: PathBuf,
    /// The shape of a usual row.
    row_shape: [usize; 3],
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
        let file = File {
            spec,
            path: spec.path(dir),
            row_shape: [3, side, side],
        };
        let mut on_cpu = self.on_cpu(&file)?;
        let (requested, device) = match asked_for(&self.config.devices, operation) {
            None => ("cpu".to_owned(), Err(None)),
            Some((backend, index)) => (
                format!("{backend}:{index}"),
                self.on_device(&file, Provider::candidates(backend), index, &mut on_cpu)
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
        let engine = Engine::start(EngineParts {
            sessions: on_cpu.sessions,
            grouping: self.grouping(spec, Place::CPU),
            device: parts,
            usual_row_len: file.row_shape.iter().product(),
            pool: Arc::clone(self.pool),
            clock: Arc::clone(self.clock),
            metrics: self.metrics.engine(operation),
        });
        Ok(Loaded {
            spec: Arc::new(spec.clone()),
            engine,
            assignment: Assignment {
                operation,
                requested,
                device,
                cpu: on_cpu.place,
                cpu_proof: on_cpu.proof,
            },
        })
    }

    fn grouping(&self, spec: &ModelSpec, place: Place) -> Grouping {
        let (most, sizes) = match place.provider {
            Provider::Cpu => (self.config.batching.cpu_batch_size, Sizes::Any),
            _ => (
                NonZeroUsize::new(self.config.devices.batch_size).unwrap_or(NonZeroUsize::MIN),
                Sizes::Buckets,
            ),
        };
        let fixed = spec.batch.fixed();
        Grouping {
            max_rows: fixed.unwrap_or(most),
            sizes: if fixed.is_some() { Sizes::Fixed } else { sizes },
            max_delay: self.config.batching.max_queue_delay(),
        }
    }

    /// One session of one thread for each thread of the pool, and one over all of them. Many cores share few sessions
    /// of several threads instead, as each holds memory of its own.
    fn on_cpu(&self, file: &File<'_>) -> anyhow::Result<OnCpu> {
        let threads = self.pool.threads();
        let count = threads.min(MOST_SESSIONS);
        let each = NonZeroUsize::new(threads / count).unwrap_or(NonZeroUsize::MIN);
        let all = self.config.runtime.threads();
        let open = |place: Place, threads: NonZeroUsize, count: usize| {
            self.backend.open(&Opening {
                place,
                ..Opening::on_cpu(Model::File(&file.path), threads, count)
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
        file.spec.check_signature(session.signature())?;
        let (place, proof) = self.choose_for_cpu(file, session, each);
        let mut sessions = open_all(place)?;
        if place != Place::CPU {
            let (backend, path) = (Arc::clone(self.backend), file.path.clone());
            let reserve: Reserve = Arc::new(move || {
                let opening = Opening::on_cpu(Model::File(&path), each, 1);
                backend.open(&opening)?.pop().ok_or_else(no_session)
            });
            sessions.reserve = Some(reserve);
        }
        tracing::info!(model = file.spec.id, role = %file.spec.role, backend = self.backend.name(), device = "cpu", provider = place.provider.name(), "model loaded");
        Ok(OnCpu {
            sessions,
            place,
            proof,
        })
    }

    /// What runs a model on the CPU: the runtime's own kernels, unless another provider is right and faster.
    fn choose_for_cpu(
        &self,
        file: &File<'_>,
        own: &mut Box<dyn Session>,
        threads: NonZeroUsize,
    ) -> (Place, Option<CpuProof>) {
        let asked = self.config.cpu.provider;
        if asked == CpuProvider::Default {
            return (Place::CPU, None);
        }
        let mut detail = String::new();
        for &precision in precisions(file.spec) {
            let place = Place {
                provider: Provider::OpenvinoCpu,
                index: 0,
                precision,
            };
            match self.compare_on_cpu(file, own, place, threads) {
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
                model = file.spec.id,
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
        file: &File<'_>,
        own: &mut Box<dyn Session>,
        place: Place,
        threads: NonZeroUsize,
    ) -> Result<(Proof, Proof), String> {
        self.prove_place(place)?;
        let text = |error: BackendError| error.to_string();
        let opening = Opening {
            place,
            ..Opening::on_cpu(Model::File(&file.path), threads, 1)
        };
        let mut theirs = self.backend.open(&opening).map_err(text)?;
        let theirs = theirs.first_mut().ok_or_else(|| text(no_session()))?;
        let rows = file.spec.batch.fixed().map_or(1, NonZeroUsize::get);
        let tolerance = Tolerance::of(place.precision);
        let probe = Probe::ask(own.as_mut(), &file.row_shape, rows, tolerance).map_err(text)?;
        let clock = self.clock.as_ref();
        let theirs = proof::prove(theirs.as_mut(), &probe, clock).map_err(text)?;
        let ours = proof::prove(own.as_mut(), &probe, clock).map_err(text)?;
        Ok((theirs, ours))
    }

    /// The first of `candidates` that gives the CPU's answers with the model; or why none does.
    fn on_device(
        &self,
        file: &File<'_>,
        candidates: &[Provider],
        index: u32,
        on_cpu: &mut OnCpu,
    ) -> Result<(DeviceParts, Proof), String> {
        let mut reasons = Vec::new();
        for &provider in candidates {
            let precisions = match provider {
                Provider::OpenvinoCpu => precisions(file.spec),
                _ => &[Precision::Full],
            };
            for &precision in precisions {
                let place = Place {
                    provider,
                    index: if provider.is_on_cpu() { 0 } else { index },
                    precision,
                };
                match self.on_place(file, place, on_cpu) {
                    Ok(found) => return Ok(found),
                    Err(reason) => reasons.push(format!("{place}: {reason}")),
                }
            }
        }
        reasons.dedup();
        let reason = reasons.join("; ");
        tracing::warn!(model = file.spec.id, reason, "falling back to the cpu");
        Err(reason)
    }

    fn on_place(
        &self,
        file: &File<'_>,
        place: Place,
        on_cpu: &mut OnCpu,
    ) -> Result<(DeviceParts, Proof), String> {
        self.prove_place(place)?;
        let text = |error: BackendError| error.to_string();
        let (backend, path) = (Arc::clone(self.backend), file.path.clone());
        let (threads, memory_limit) = (self.config.runtime.threads(), self.memory_limit());
        let open = Arc::new(move || {
            let opening = Opening {
                place,
                memory_limit,
                ..Opening::on_cpu(Model::File(&path), threads, 1)
            };
            backend.open(&opening)?.pop().ok_or_else(no_session)
        });
        let mut session = open().map_err(text)?;
        let rows = file
            .spec
            .batch
            .fixed()
            .map_or(PROOF_ROWS, NonZeroUsize::get);
        let cpu = on_cpu
            .sessions
            .narrow
            .first_mut()
            .ok_or_else(|| text(no_session()))?;
        let tolerance = Tolerance::of(place.precision);
        let probe = Probe::ask(cpu.as_mut(), &file.row_shape, rows, tolerance).map_err(text)?;
        let proof = proof::prove(session.as_mut(), &probe, self.clock.as_ref()).map_err(text)?;
        let nodes = proof.nodes.get(place.provider.runtime_name());
        if !proof.nodes.is_empty() && nodes.is_none() {
            return Err(format!(
                "the provider took none of the graph's nodes ({:?})",
                proof.nodes
            ));
        }
        let grouping = self.grouping(file.spec, place);
        let (cool_down, longest) = self.config.devices.cool_downs();
        let patience = Patience {
            failures: self.config.devices.failures_to_trip,
            cool_down,
            longest,
        };
        tracing::info!(
            model = file.spec.id, role = %file.spec.role, backend = self.backend.name(), device = %place,
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
        let sessions = [Operation::FaceDetection, Operation::FaceEmbedding]
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
fn precisions(spec: &ModelSpec) -> &'static [Precision] {
    match spec.role {
        Role::Embedder => &[Precision::Reduced, Precision::Full],
        Role::Detector => &[Precision::Full],
    }
}

fn no_session() -> BackendError {
    BackendError::Unavailable {
        detail: "the backend opened no session".to_owned(),
    }
}
