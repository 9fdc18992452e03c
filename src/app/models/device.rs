//! Tests a device with the model of the operation.

use std::{num::NonZeroUsize, sync::Arc};

use super::{Loader, Subject, no_session};
use facescan_inference::{
    backend::{BackendError, Opening, Session},
    breaker::BreakerSettings,
    device::{Active, ProviderReport},
    device_task::{DeviceTask, Workload},
    engine::DeviceParts,
    health::Health,
    placement::{DevicePlacement, Precision, Provider},
    proof::{self, Proof, SelfTest, Tolerance},
    registry::Role,
};
use facescan_pipeline::models::row_job::RowJob;

/// The number of rows in the self-test of a device. Two or more rows reveal rows that are exchanged.
const PROOF_ROWS: usize = 2;

impl Loader<'_> {
    /// Returns the first placement among the candidates whose outputs match the CPU, the fastest precision first.
    /// Returns the reasons if no placement matches. `prove` tests a placement that has passed the self-test graph.
    pub(super) fn on_device<T>(
        &self,
        name: &str,
        (candidates, index): (&[Provider], u32),
        precisions: &[Precision],
        mut prove: impl FnMut(DevicePlacement) -> Result<T, String>,
    ) -> Result<T, String> {
        let mut reasons = Vec::new();
        for &provider in candidates {
            let precisions = match provider {
                Provider::OpenvinoCpu => precisions,
                _ => &[Precision::Full],
            };
            for &precision in precisions {
                let placement = DevicePlacement {
                    provider,
                    index: if provider.is_on_cpu() { 0 } else { index },
                    precision,
                };
                match self
                    .prove_placement(placement)
                    .and_then(|()| prove(placement))
                {
                    Ok(found) => return Ok(found),
                    Err(reason) => reasons.push(format!("{placement}: {reason}")),
                }
            }
        }
        reasons.dedup();
        let reason = reasons.join("; ");
        tracing::warn!(name, reason, "falling back to the cpu");
        Err(reason)
    }

    /// Loads a model at a placement and checks that its outputs match those on the CPU.
    pub(super) fn model_at(
        &self,
        subject: &Subject,
        placement: DevicePlacement,
        cpu: &mut dyn Session,
    ) -> Result<(DeviceParts, Active), String> {
        let text = |error: BackendError| error.to_string();
        let (backend, source) = (Arc::clone(self.backend), subject.source.clone());
        let (threads, memory_limit) = (self.config.runtime.threads(), self.memory_limit());
        let open = Arc::new(move || {
            let opening = Opening {
                placement,
                memory_limit,
                ..Opening::on_cpu(source.model(), threads, 1)
            };
            backend.open(&opening)?.pop().ok_or_else(no_session)
        });
        let mut session = open().map_err(text)?;
        let rows = subject.fixed.map_or(PROOF_ROWS, NonZeroUsize::get);
        let tolerance = Tolerance::of(placement.precision);
        let self_test = SelfTest::record(cpu, &subject.row_shape, rows, tolerance).map_err(text)?;
        let proof =
            proof::prove(session.as_mut(), &self_test, self.clock.as_ref()).map_err(text)?;
        self.check_nodes(placement, &proof)?;
        let grouping = self.grouping(subject.fixed, placement);
        tracing::info!(
            model = subject.name, backend = self.backend.name(), device = %placement,
            cosine = proof.cosine, nodes = ?proof.nodes, "model loaded"
        );
        let active = Active {
            placement,
            health: self.health(grouping.max_rows.get()),
            proof,
        };
        let parts = DeviceParts {
            placement,
            open,
            session,
            grouping,
            health: Arc::clone(&active.health),
            self_test: Arc::new(self_test),
            run_timeout: self.config.devices.run_timeout_ms.duration(),
            check_every: self.config.devices.check_interval(),
            must_be_finite: true,
        };
        Ok((parts, active))
    }

    /// Returns an error if the runtime reports that the provider took no node of the graph.
    pub(super) fn check_nodes(
        &self,
        placement: DevicePlacement,
        proof: &Proof,
    ) -> Result<(), String> {
        let nodes = proof.nodes.get(placement.provider.runtime_name());
        if !proof.nodes.is_empty() && nodes.is_none() {
            return Err(format!(
                "the provider took none of the graph's nodes ({:?})",
                proof.nodes
            ));
        }
        Ok(())
    }

    /// Creates the health record of a working device that runs at most `most_rows` rows at once.
    pub(super) fn health(&self, most_rows: usize) -> Arc<Health> {
        let devices = &self.config.devices;
        let settings = BreakerSettings {
            failures: devices.breaker_failures,
            cool_down: devices.breaker_cooldown_ms.duration(),
            max_cool_down: devices.breaker_max_cooldown_ms.duration(),
        };
        Arc::new(Health::new(settings, most_rows))
    }

    /// Runs the self-test graph once at a placement and remembers the result.
    pub(super) fn prove_placement(&self, placement: DevicePlacement) -> Result<(), String> {
        if let Some(known) = self.placements().known.get(&placement) {
            return known.clone();
        }
        let refused = proof::prove_placement(
            self.backend.as_ref(),
            placement,
            self.config.runtime.threads(),
        )
        .err();
        let outcome = match &refused {
            Some(error) => Err(error.to_string()),
            None => Ok(()),
        };
        let mut placements = self.placements();
        placements.known.insert(placement, outcome.clone());
        let tried = ProviderReport::new(placement, refused);
        if !placements
            .tried
            .iter()
            .any(|known| known.device == tried.device)
        {
            placements.tried.push(tried);
        }
        outcome
    }

    /// Returns whether this machine runs the model of a role.
    fn runs_here(&self, role: Role) -> bool {
        let id = self.config.models.id(role);
        let spec = id.and_then(|id| self.registry.get(id).ok());
        spec.is_some_and(|spec| spec.remote.is_none())
    }

    /// Returns the share of the memory limit for each session. The runtime limits the arena of each session, not their
    /// sum.
    pub(super) fn memory_limit(&self) -> Option<u64> {
        let devices = &self.config.devices;
        // One session for each model and for each graph.
        let sessions_of = |task: DeviceTask| match task.workload() {
            Workload::Model(role) => usize::from(self.runs_here(role)),
            Workload::Graphs(work) => work.graphs().len(),
        };
        let models: usize = DeviceTask::ALL
            .into_iter()
            .filter(|task| devices.requested(*task).is_some())
            .map(sessions_of)
            .sum();
        let preprocessing = match self.asked_for_preprocessing() {
            Some(_) => RowJob::probes().count(),
            None => 0,
        };
        let sessions = models + preprocessing;
        devices
            .memory_limit()
            .map(|bytes| bytes / sessions.max(1) as u64)
    }
}
