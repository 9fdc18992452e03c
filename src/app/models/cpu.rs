//! Creates the sessions on the CPU and chooses their execution provider.

use std::{fmt, num::NonZeroUsize, sync::Arc};

use super::{Loader, OnCpu, Subject, no_session};
use facescan_config::CpuProvider;
use facescan_inference::{
    backend::{BackendError, Opening, Session},
    device::CpuProof,
    engine::{SessionOpener, Sessions},
    placement::{DevicePlacement, Provider},
    proof::{self, Proof, SelfTest, Tolerance},
    registry::ModelSpec,
};

/// The maximum number of sessions of one model on the CPU.
const MAX_SESSIONS: usize = 16;

/// The speed-up over the runtime's own kernels that another provider needs to replace them on the CPU. It also takes
/// more memory and a longer start.
const WORTH_IT: f64 = 1.15;

/// The number of times that both are timed again. OpenVINO compiles for the shape of the rows during the first of them.
const ROUNDS: usize = 16;

impl Loader<'_> {
    /// Opens one session with one thread for each thread of the pool, and one session over all cores. With many cores,
    /// it opens fewer sessions with several threads each, because every session takes memory.
    pub(super) fn on_cpu(&self, subject: &Subject, spec: &ModelSpec) -> anyhow::Result<OnCpu> {
        let threads = self.pool.threads();
        let count = threads.min(MAX_SESSIONS);
        let each = NonZeroUsize::new(threads / count).unwrap_or(NonZeroUsize::MIN);
        let all = self.config.runtime.threads();
        let open = |placement: DevicePlacement, threads: NonZeroUsize, count: usize| {
            self.backend.open(&Opening {
                placement,
                ..Opening::on_cpu(subject.source.model(), threads, count)
            })
        };
        // A detector's rows can be large, and this session later runs those that are.
        let mut own = self.backend.open(&Opening {
            keeps_memory: subject.detector.is_none(),
            ..Opening::on_cpu(subject.source.model(), each, 1)
        })?;
        let mut own = own.pop().ok_or_else(no_session)?;
        spec.check_signature(own.signature())?;
        let chosen = self.choose_for_cpu(subject, own.as_mut(), (each, count));
        let per_worker = match chosen.sessions {
            Some(sessions) => sessions,
            None => open(DevicePlacement::CPU, each, count)?,
        };
        let placement = chosen.placement;
        let mut sessions = Sessions {
            per_worker,
            all_cores: if all > each {
                open(placement, all, 1)?.pop()
            } else {
                None
            },
            replacement: None,
            placement,
        };
        if placement != DevicePlacement::CPU {
            let (backend, source) = (Arc::clone(self.backend), subject.source.clone());
            let replacement: SessionOpener = Arc::new(move || {
                let opening = Opening::on_cpu(source.model(), each, 1);
                backend.open(&opening)?.pop().ok_or_else(no_session)
            });
            sessions.replacement = Some(replacement);
        }
        warm_up(&mut sessions, subject)?;
        tracing::info!(model = subject.name, role = %spec.role, backend = self.backend.name(), device = "cpu", provider = placement.provider.name(), "model loaded");
        Ok(OnCpu {
            sessions,
            own,
            placement,
            proof: chosen.proof,
        })
    }

    /// Chooses the provider that runs a model on the CPU. It is the runtime's own kernels, unless another provider
    /// returns correct outputs and is faster.
    fn choose_for_cpu(
        &self,
        subject: &Subject,
        own: &mut dyn Session,
        resources: (NonZeroUsize, usize),
    ) -> CpuChoice {
        let asked = self.config.cpu.provider;
        // OpenVINO keeps kernels and memory for each shape of the input, and a detector's input has the shape of the image.
        // With images of many shapes it is slower than the runtime's own kernels, and takes as much memory as the server.
        let is_compared = asked == CpuProvider::Openvino || subject.detector.is_none();
        if asked == CpuProvider::Default || !is_compared {
            return CpuChoice::own_kernels(None);
        }
        let mut detail = String::new();
        for &precision in subject.precisions {
            let placement = DevicePlacement::first(Provider::OpenvinoCpu, precision);
            match self.compare_on_cpu(subject, own, placement, resources) {
                Ok((compared, sessions)) => {
                    detail = format!("{precision}: {compared}");
                    if asked == CpuProvider::Openvino || compared.is_worth_it() {
                        return CpuChoice {
                            placement,
                            sessions: Some(sessions),
                            proof: Some(CpuProof { used: true, detail }),
                        };
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
        CpuChoice::own_kernels(Some(detail))
    }

    /// Compares a provider with the runtime's own kernels on one row. Returns the figures and the provider's sessions,
    /// whose threads and number are in `resources`.
    fn compare_on_cpu(
        &self,
        subject: &Subject,
        own: &mut dyn Session,
        placement: DevicePlacement,
        (threads, count): (NonZeroUsize, usize),
    ) -> Result<(Comparison, Vec<Box<dyn Session>>), String> {
        self.prove_placement(placement)?;
        let text = |error: BackendError| error.to_string();
        let opening = Opening {
            placement,
            ..Opening::on_cpu(subject.source.model(), threads, count)
        };
        let mut sessions = self.backend.open(&opening).map_err(text)?;
        let theirs = sessions.first_mut().ok_or_else(|| text(no_session()))?;
        let self_test = self_test(subject, own, placement).map_err(text)?;
        let clock = self.clock.as_ref();
        let mut found = proof::prove(theirs.as_mut(), &self_test, clock).map_err(text)?;
        let mut ours = proof::prove(own, &self_test, clock).map_err(text)?;
        // The two are timed in turn and the fastest of several runs counts, because other processes may use the cores.
        for _ in 0..ROUNDS {
            let again = proof::time_row(theirs.as_mut(), &self_test, clock).map_err(text)?;
            found.row_ms = found.row_ms.min(again);
            let again = proof::time_row(own, &self_test, clock).map_err(text)?;
            ours.row_ms = ours.row_ms.min(again);
        }
        let comparison = Comparison {
            measure: self_test.measure(),
            theirs: found,
            ours,
        };
        Ok((comparison, sessions))
    }
}

/// Records the outputs of the runtime's own kernels for the rows of a self-test.
fn self_test(
    subject: &Subject,
    own: &mut dyn Session,
    placement: DevicePlacement,
) -> Result<SelfTest, BackendError> {
    let rows = subject.fixed.map_or(1, NonZeroUsize::get);
    match subject.detector {
        Some(detector) => SelfTest::record_faces(own, &subject.row_shape, rows, detector),
        None => {
            let tolerance = Tolerance::of(placement.precision);
            SelfTest::record(own, &subject.row_shape, rows, tolerance)
        }
    }
}

/// The provider that runs a model on the CPU.
struct CpuChoice {
    placement: DevicePlacement,
    /// One for each thread of the pool, if the comparison opened them.
    sessions: Option<Vec<Box<dyn Session>>>,
    proof: Option<CpuProof>,
}

impl CpuChoice {
    /// Chooses the runtime's own kernels. `detail` is the result of comparing another provider, if one was compared.
    fn own_kernels(detail: Option<String>) -> Self {
        Self {
            placement: DevicePlacement::CPU,
            sessions: None,
            proof: detail.map(|detail| CpuProof {
                used: false,
                detail,
            }),
        }
    }
}

/// The figures of a provider and of the runtime's own kernels on the same rows.
struct Comparison {
    /// The name of the figure that says how well the outputs agree.
    measure: &'static str,
    theirs: Proof,
    ours: Proof,
}

impl Comparison {
    fn is_worth_it(&self) -> bool {
        self.theirs.row_ms * WORTH_IT <= self.ours.row_ms
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {:.5}, {:.1} ms per row, own kernels {:.1} ms",
            self.measure, self.theirs.cosine, self.theirs.row_ms, self.ours.row_ms
        )
    }
}

/// Runs every session, so that the first requests are as fast as later ones, and the server's memory is known from the
/// start. The session over all cores would otherwise take its memory in a quiet hour.
fn warm_up(sessions: &mut Sessions, subject: &Subject) -> Result<(), BackendError> {
    let rows = subject.fixed.map_or(1, NonZeroUsize::get);
    let sessions = sessions
        .per_worker
        .iter_mut()
        .chain(&mut sessions.all_cores);
    proof::warm_up(sessions, &subject.row_shape, rows)
}
