//! Creates the sessions on the CPU and chooses their execution provider.

use std::{num::NonZeroUsize, sync::Arc};

use super::{Loader, OnCpu, Subject, no_session};
use crate::config::CpuProvider;
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

/// The speed-up over the runtime's own kernels that another provider needs to replace them on the CPU.
const WORTH_IT: f64 = 1.25;

/// The number of times that both are timed again.
const ROUNDS: usize = 3;

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
        let open_all = |placement: DevicePlacement| -> Result<Sessions, BackendError> {
            Ok(Sessions {
                per_worker: open(placement, each, count)?,
                all_cores: if all > each {
                    open(placement, all, 1)?.pop()
                } else {
                    None
                },
                replacement: None,
                placement,
            })
        };
        let mut own = open(DevicePlacement::CPU, each, 1)?
            .pop()
            .ok_or_else(no_session)?;
        spec.check_signature(own.signature())?;
        let (placement, proof) = self.choose_for_cpu(subject, own.as_mut(), each);
        let mut sessions = open_all(placement)?;
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
            proof,
        })
    }

    /// Chooses the provider that runs a model on the CPU. It is the runtime's own kernels, unless another provider
    /// returns correct outputs and is faster.
    fn choose_for_cpu(
        &self,
        subject: &Subject,
        own: &mut dyn Session,
        threads: NonZeroUsize,
    ) -> (DevicePlacement, Option<CpuProof>) {
        let asked = self.config.cpu.provider;
        if asked == CpuProvider::Default {
            return (DevicePlacement::CPU, None);
        }
        let mut detail = String::new();
        for &precision in subject.precisions {
            let placement = DevicePlacement {
                provider: Provider::OpenvinoCpu,
                index: 0,
                precision,
            };
            match self.compare_on_cpu(subject, own, placement, threads) {
                Ok((theirs, ours)) => {
                    detail = format!(
                        "{precision}: cosine {:.5}, {:.1} ms per row, own kernels {:.1} ms",
                        theirs.cosine, theirs.row_ms, ours.row_ms
                    );
                    let used =
                        asked == CpuProvider::Openvino || theirs.row_ms * WORTH_IT <= ours.row_ms;
                    if used {
                        return (placement, Some(CpuProof { used, detail }));
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
            DevicePlacement::CPU,
            Some(CpuProof {
                used: false,
                detail,
            }),
        )
    }

    /// Compares a provider with the runtime's own kernels on one row.
    fn compare_on_cpu(
        &self,
        subject: &Subject,
        own: &mut dyn Session,
        placement: DevicePlacement,
        threads: NonZeroUsize,
    ) -> Result<(Proof, Proof), String> {
        self.prove_placement(placement)?;
        let text = |error: BackendError| error.to_string();
        let opening = Opening {
            placement,
            ..Opening::on_cpu(subject.source.model(), threads, 1)
        };
        let mut theirs = self.backend.open(&opening).map_err(text)?;
        let theirs = theirs.first_mut().ok_or_else(|| text(no_session()))?;
        let rows = subject.fixed.map_or(1, NonZeroUsize::get);
        let tolerance = Tolerance::of(placement.precision);
        let self_test = SelfTest::record(own, &subject.row_shape, rows, tolerance).map_err(text)?;
        let clock = self.clock.as_ref();
        let mut found = proof::prove(theirs.as_mut(), &self_test, clock).map_err(text)?;
        let mut ours = proof::prove(own, &self_test, clock).map_err(text)?;
        // The two are timed in turn and the fastest of several runs counts, because other processes may use the cores.
        for _ in 0..ROUNDS {
            let again = proof::prove(theirs.as_mut(), &self_test, clock).map_err(text)?;
            found.row_ms = found.row_ms.min(again.row_ms);
            let again = proof::prove(own, &self_test, clock).map_err(text)?;
            ours.row_ms = ours.row_ms.min(again.row_ms);
        }
        Ok((found, ours))
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
