//! The models of the registry that the pipeline runs, one file each.

use std::{collections::BTreeMap, sync::Arc};

use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use facescan_imaging::precision::NumericPrecision;
use facescan_inference::{
    device_task::{DeviceTask, Workload},
    engine::Engine,
    registry::{ModelSpec, Role},
};

use crate::{config::Padding, pipeline::error::PipelineError};
use crop_model::FaceModel;
use detector::Detector;
use embedder::Embedder;
use encoder::Encoder;

pub mod crop_model;
pub mod detector;
pub mod embedder;
pub mod encoder;

/// The models that made an answer.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct ModelsUsed {
    /// The model that found the faces.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detector: Option<ModelUsed>,
    /// The model that made the vectors of faces.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub embedder: Option<EmbedderUsed>,
    /// The model that made the vectors of whole images.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encoder: Option<EmbedderUsed>,
}

/// A model without vectors, by id and content.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ModelUsed {
    /// The id in the registry.
    pub id: String,
    /// The sha256 of the model file.
    pub sha256: String,
}

/// An embedder, by id and contract.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct EmbedderUsed {
    /// The id in the registry.
    pub id: String,
    /// The length of its vectors.
    pub dim: usize,
    /// The contract of its vectors. Vectors with different contracts cannot be compared.
    pub contract: String,
}

/// A model with the engine that runs it.
#[derive(Clone)]
pub struct LoadedModel {
    /// The entry of the registry.
    pub spec: Arc<ModelSpec>,
    /// The engine.
    pub engine: Engine,
    /// The engine of rows that take much longer than others on the CPU, if the model can have such rows.
    pub long: Option<Engine>,
}

/// The models in use. Cheap to clone.
#[derive(Clone)]
pub struct Models {
    /// Finds faces.
    pub detector: Detector,
    /// Computes the vectors of faces.
    pub embedder: Embedder,
    encoder: Option<Encoder>,
    entries: BTreeMap<Role, Entry>,
}

/// A registry entry in use, with the contract of its vectors. The contract is a digest, which answers need often.
#[derive(Clone)]
struct Entry {
    spec: Arc<ModelSpec>,
    contract: Arc<str>,
}

impl Models {
    /// Creates the models from the loaded ones. Returns `None` if a required model is missing.
    pub fn new(mut loaded: BTreeMap<Role, LoadedModel>, padding: Padding) -> Option<Self> {
        let entry = |model: &LoadedModel| Entry {
            spec: Arc::clone(&model.spec),
            contract: model.spec.contract().into(),
        };
        let entries = loaded.iter().map(|(role, model)| (*role, entry(model)));
        Some(Self {
            entries: entries.collect(),
            detector: Detector::new(loaded.remove(&Role::Detector)?, padding)?,
            embedder: Embedder::new(loaded.remove(&Role::Embedder)?),
            encoder: loaded.remove(&Role::Encoder).map(Encoder::new),
        })
    }

    /// Returns the entries of all loaded models.
    pub fn specs(&self) -> impl Iterator<Item = &ModelSpec> {
        self.entries.values().map(|entry| entry.spec.as_ref())
    }

    /// Checks that the models of `operations` are loaded.
    ///
    /// # Errors
    /// [`PipelineError::NoModel`] with the role of the first missing model.
    pub fn check(&self, operations: &[DeviceTask]) -> Result<(), PipelineError> {
        for operation in operations {
            if let Workload::Model(role) = operation.workload()
                && !self.entries.contains_key(&role)
            {
                return Err(PipelineError::NoModel(role));
            }
        }
        Ok(())
    }

    /// Returns the encoder of whole images.
    ///
    /// # Errors
    /// [`PipelineError::NoModel`] if the settings name no encoder.
    pub fn encoder(&self) -> Result<&Encoder, PipelineError> {
        let encoder = self.encoder.as_ref();
        encoder.ok_or(PipelineError::NoModel(Role::Encoder))
    }

    /// Returns the model that `operation` runs on aligned crops. Returns `None` if it runs none.
    pub fn of_face(&self, operation: DeviceTask) -> Option<&dyn FaceModel> {
        match operation.workload() {
            Workload::Model(Role::Embedder) => Some(&self.embedder),
            Workload::Model(Role::Detector | Role::Encoder) | Workload::Graphs(_) => None,
        }
    }

    /// Returns the operations that run a model on aligned crops, with their models.
    pub fn of_faces(&self, operations: &[DeviceTask]) -> Vec<(DeviceTask, &dyn FaceModel)> {
        let operations = operations.iter();
        let models =
            operations.filter_map(|&operation| Some((operation, self.of_face(operation)?)));
        models.collect()
    }

    /// Returns the entry of the model that an operation runs. Returns `None` if it runs none.
    fn entry_of(&self, operation: DeviceTask) -> Option<&Entry> {
        match operation.workload() {
            Workload::Model(role) => self.entries.get(&role),
            Workload::Graphs(_) => None,
        }
    }

    /// Returns the model that computes the vectors of `operation`. Returns `None` if it computes none.
    pub fn embedder_used(&self, operation: DeviceTask) -> Option<EmbedderUsed> {
        let entry = self.entry_of(operation)?;
        entry
            .spec
            .role
            .has_vector()
            .then(|| EmbedderUsed::new(entry))
    }

    /// Returns what decides the results of an operation's model, for scan keys. `precision` is the precision of vectors.
    /// Returns null if the operation runs no model.
    pub fn key(&self, operation: DeviceTask, precision: Option<NumericPrecision>) -> Value {
        let Some(Entry { spec, contract }) = self.entry_of(operation) else {
            return Value::Null;
        };
        match spec.role.has_vector() {
            true => json!([contract.as_ref(), precision]),
            false => json!([spec.sha256, spec.family, spec.input]),
        }
    }

    /// Returns the models of an answer that used `operations`.
    pub fn used(&self, operations: &[DeviceTask]) -> ModelsUsed {
        let entry = |operation| {
            let is_used = operations.contains(&operation);
            is_used.then(|| self.entry_of(operation)).flatten()
        };
        ModelsUsed {
            detector: entry(DeviceTask::FaceDetection).map(ModelUsed::new),
            embedder: entry(DeviceTask::FaceEmbedding).map(EmbedderUsed::new),
            encoder: entry(DeviceTask::ImageEmbedding).map(EmbedderUsed::new),
        }
    }
}

impl ModelUsed {
    fn new(Entry { spec, .. }: &Entry) -> Self {
        Self {
            id: spec.id.clone(),
            sha256: spec.sha256.clone(),
        }
    }
}

impl EmbedderUsed {
    fn new(Entry { spec, contract }: &Entry) -> Self {
        Self {
            id: spec.id.clone(),
            dim: spec.dim.unwrap_or(0),
            contract: contract.as_ref().to_owned(),
        }
    }
}
