//! Proving a device for work on whole pictures.

use std::sync::Arc;

use super::Loader;
use crate::inference::{
    backend::{Model, Opening},
    device::Assignment,
    operation::Operation,
    pictures::{self, GraphOpener, PictureDevice, PictureLane, PictureWork, Probe},
    place::{Place, Precision},
    proof::Proof,
};

impl Loader<'_> {
    /// The lane of an operation on whole pictures, on the device that the settings ask for once it does `known` right.
    pub fn load_pictures<W>(&self, operation: Operation, known: W) -> (PictureLane, Assignment)
    where
        W: PictureWork<Answer: Sync>,
    {
        let probe = pictures::probe(known);
        let (device, assignment) = self.assign(operation, |candidates, index| {
            let name = operation.name();
            let precisions = &[Precision::Full];
            self.on_device(name, (candidates, index), precisions, |place| {
                self.pictures_at(operation, place, &probe)
            })
        });
        let metrics = self.metrics.engine(operation);
        let lane = PictureLane::new(device, Arc::clone(self.clock), metrics);
        (lane, assignment)
    }

    fn pictures_at(
        &self,
        operation: Operation,
        place: Place,
        probe: &Probe,
    ) -> Result<(PictureDevice, Proof), String> {
        let backend = Arc::clone(self.backend);
        let (threads, memory_limit) = (self.config.runtime.threads(), self.memory_limit());
        let open: GraphOpener = Arc::new(move |graph| {
            backend.open_graph(&Opening {
                place,
                memory_limit,
                ..Opening::on_cpu(Model::Graph(graph), threads, 1)
            })
        });
        let proof = pictures::prove(Arc::clone(&open), probe, self.clock.as_ref())
            .map_err(|failure| failure.detail)?;
        self.check_nodes(place, &proof)?;
        tracing::info!(
            operation = operation.name(), backend = self.backend.name(), device = %place,
            cosine = proof.cosine, nodes = ?proof.nodes, "graphs loaded"
        );
        let device = PictureDevice {
            place,
            open,
            health: self.health(1),
            probe: Arc::clone(probe),
            run_timeout: self.config.devices.run_timeout(),
            check_every: self.config.devices.check_every(),
        };
        Ok((device, proof))
    }
}
