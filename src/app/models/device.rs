//! Proving a device with the operation's own model.

use std::{num::NonZeroUsize, sync::Arc};

use super::{Loader, Subject, no_session};
use crate::pipeline::{preprocess::Filling, process};
use facescan_inference::{
    backend::{BackendError, Opening, Session},
    breaker::Patience,
    device::Tried,
    engine::DeviceParts,
    graphs::enhance::Steps,
    health::Health,
    operation::Operation,
    place::{Place, Precision, Provider},
    proof::{self, Probe, Proof, Tolerance},
};

/// Rows that a device is proved with: more than one, so that a row could be taken for another.
const PROOF_ROWS: usize = 2;

impl Loader<'_> {
    /// The first place that gives the CPU's answers, of the candidates at an index, the fastest precision first; or why
    /// none does. `prove` says what comes of a place that runs the small known graph.
    pub(super) fn on_device<T>(
        &self,
        name: &str,
        (candidates, index): (&[Provider], u32),
        precisions: &[Precision],
        mut prove: impl FnMut(Place) -> Result<T, String>,
    ) -> Result<T, String> {
        let mut reasons = Vec::new();
        for &provider in candidates {
            let precisions = match provider {
                Provider::OpenvinoCpu => precisions,
                _ => &[Precision::Full],
            };
            for &precision in precisions {
                let place = Place {
                    provider,
                    index: if provider.is_on_cpu() { 0 } else { index },
                    precision,
                };
                match self.prove_place(place).and_then(|()| prove(place)) {
                    Ok(found) => return Ok(found),
                    Err(reason) => reasons.push(format!("{place}: {reason}")),
                }
            }
        }
        reasons.dedup();
        let reason = reasons.join("; ");
        tracing::warn!(name, reason, "falling back to the cpu");
        Err(reason)
    }

    /// A model on a place, if it gives the answers there that it gives on the CPU.
    pub(super) fn model_at(
        &self,
        subject: &Subject,
        place: Place,
        cpu: &mut dyn Session,
    ) -> Result<(DeviceParts, Proof), String> {
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
        self.check_nodes(place, &proof)?;
        let grouping = self.grouping(subject.fixed, place);
        tracing::info!(
            model = subject.name, backend = self.backend.name(), device = %place,
            cosine = proof.cosine, nodes = ?proof.nodes, "model loaded"
        );
        let parts = DeviceParts {
            place,
            open,
            session,
            grouping,
            health: self.health(grouping.max_rows.get()),
            probe: Arc::new(probe),
            run_timeout: self.config.devices.run_timeout(),
            check_every: self.config.devices.check_interval(),
            must_give_numbers: true,
        };
        Ok((parts, proof))
    }

    /// Refuses a place whose provider left all of a graph to others, where the runtime tells.
    pub(super) fn check_nodes(&self, place: Place, proof: &Proof) -> Result<(), String> {
        let nodes = proof.nodes.get(place.provider.runtime_name());
        if !proof.nodes.is_empty() && nodes.is_none() {
            return Err(format!(
                "the provider took none of the graph's nodes ({:?})",
                proof.nodes
            ));
        }
        Ok(())
    }

    /// The health of a device that is up and takes so many rows at a time.
    pub(super) fn health(&self, most_rows: usize) -> Arc<Health> {
        let (cool_down, longest) = self.config.devices.breaker_cooldowns();
        let patience = Patience {
            failures: self.config.devices.breaker_failures,
            cool_down,
            longest,
        };
        Arc::new(Health::new(patience, most_rows))
    }

    /// Runs the small known graph at a place, once.
    pub(super) fn prove_place(&self, place: Place) -> Result<(), String> {
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

    /// Whether whole pictures are embedded on this machine.
    fn has_encoder_here(&self) -> bool {
        let encoder = self.config.models.encoder.as_ref();
        encoder
            .and_then(|id| self.registry.get(id).ok())
            .is_some_and(|spec| spec.remote.is_none())
    }

    /// Each session's share of the limit: the runtime bounds the arena of a session, not of all of them.
    pub(super) fn memory_limit(&self) -> Option<u64> {
        let devices = &self.config.devices;
        // One for each model, and one for each graph of whole pictures.
        let sessions_of = |operation| match operation {
            Operation::ImageEnhancement => Steps::ALL.len(),
            Operation::ImageProcessing => process::GRAPHS,
            Operation::ImageEmbedding if !self.has_encoder_here() => 0,
            _ => 1,
        };
        let models: usize = Operation::ALL
            .into_iter()
            .filter(|operation| devices.requested(*operation).is_some())
            .map(sessions_of)
            .sum();
        let preprocessing = match self.asked_for_preprocessing() {
            Some(_) => Filling::of_every_graph().count(),
            None => 0,
        };
        let sessions = models + preprocessing;
        devices
            .memory_limit()
            .map(|bytes| bytes / sessions.max(1) as u64)
    }
}
