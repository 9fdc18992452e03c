//! The way of an image, with no HTTP, no database driver and no runtime types in it.
//!
//! [`scan`] is the stages of one image; [`stored`] puts the database around them.

use std::{collections::BTreeMap, sync::Arc};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{
    clock::Clock,
    error::Error,
    imaging::{decode::DecodeOptions, pool::CpuPool},
    inference::{
        device::{DeviceState, Devices},
        operation::Operation,
    },
    pipeline::{
        answer::{DetectorUsed, EmbedderUsed, ModelsUsed},
        detect::Detector,
        embed::Embedder,
    },
    store::Store,
};

pub mod answer;
pub mod detect;
pub mod embed;
pub mod enhance;
pub mod heads;
pub mod options;
pub mod quality;
pub mod scan;
pub mod stored;

/// Everything an image passes through. Cheap to clone.
#[derive(Clone)]
pub struct Pipeline {
    /// Where pixels are worked on.
    pub pool: Arc<CpuPool>,
    /// One permit for each picture that may be held decoded.
    pub decoded: Arc<Semaphore>,
    /// Finds faces.
    pub detector: Detector,
    /// Makes vectors.
    pub embedder: Embedder,
    /// The limits and the background of decoding.
    pub decoding: DecodeOptions,
    /// Which device each operation runs on.
    pub devices: Arc<Devices>,
    /// The database.
    pub store: Arc<dyn Store>,
    /// The tenant that rows belong to.
    pub tenant: Arc<str>,
    /// Time and identifiers.
    pub clock: Arc<dyn Clock>,
}

impl Pipeline {
    /// Waits until another picture may be held decoded; held as long as the picture is.
    async fn room(&self) -> Result<OwnedSemaphorePermit, Error> {
        Arc::clone(&self.decoded)
            .acquire_owned()
            .await
            .map_err(|closed| Error::Internal(closed.to_string()))
    }

    /// The device states of the operations that take part in a request.
    pub fn devices_of(&self, operations: &[Operation]) -> BTreeMap<&'static str, DeviceState> {
        self.devices
            .iter()
            .filter(|(operation, _)| operations.contains(operation))
            .map(|(operation, state)| (operation.name(), state.clone()))
            .collect()
    }

    /// Refuses a strict request when an operation would not run where the settings ask.
    ///
    /// # Errors
    /// [`Error::DeviceUnavailable`] naming the operation.
    pub fn check_strict(&self, strict: bool, operations: &[Operation]) -> Result<(), Error> {
        let fallen = self
            .devices
            .iter()
            .find(|(operation, state)| operations.contains(operation) && state.fell_back());
        match fallen {
            Some((operation, state)) if strict => Err(Error::DeviceUnavailable {
                operation: operation.name(),
                requested: state.requested.clone(),
                reason: state.reason.clone().unwrap_or_default(),
            }),
            _ => Ok(()),
        }
    }

    /// The models behind an answer whose operations are `operations`.
    pub fn models_used(&self, operations: &[Operation]) -> ModelsUsed {
        let detector = operations
            .contains(&Operation::FaceDetection)
            .then(|| DetectorUsed {
                id: self.detector.spec.id.clone(),
                sha256: self.detector.spec.sha256.clone(),
            });
        let embedder = operations
            .contains(&Operation::FaceEmbedding)
            .then(|| EmbedderUsed {
                id: self.embedder.spec.id.clone(),
                dim: self.embedder.dim,
                contract: self.embedder.contract.clone(),
            });
        ModelsUsed { detector, embedder }
    }
}
