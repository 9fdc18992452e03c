//! The models of the registry that the pipeline runs, one file each, and the input rows that they need.

use std::{collections::BTreeMap, sync::Arc};

use facescan_config::Padding;
use facescan_imaging::precision::NumericPrecision;
use facescan_inference::{
    device_task::{DeviceTask, Workload},
    registry::{ModelSpec, Role},
};
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use self::{
    crop_model::FaceModel, detector::Detector, embedder::Embedder, encoder::Encoder,
    loaded::LoadedModel,
};
use crate::core::error::PipelineError;

pub mod crop_model;
pub mod detector;
pub mod embedder;
pub mod encoder;
pub mod grader;
pub mod loaded;
pub mod preprocessing;
pub mod row_job;

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

/// A registry entry in use, with the vector space of its vectors. The vector space is a digest, which responses need often.
#[derive(Clone)]
struct Entry {
    spec: Arc<ModelSpec>,
    vector_space: Arc<str>,
}

/// The models that made a response.
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

/// An embedder, by id and vector space.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct EmbedderUsed {
    /// The id in the registry.
    pub id: String,
    /// The length of its vectors.
    pub dim: usize,
    /// The vector space of its vectors. Vectors with different vector spaces cannot be compared.
    pub vector_space: String,
}

impl Models {
    /// Creates the models from the loaded ones. Returns `None` if a required model is missing.
    pub fn new(mut loaded: BTreeMap<Role, LoadedModel>, padding: Padding) -> Option<Self> {
        let entry = |model: &LoadedModel| Entry {
            spec: Arc::clone(&model.spec),
            vector_space: model.spec.vector_space().into(),
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

    /// Checks that the models of `tasks` are loaded.
    ///
    /// # Errors
    /// [`PipelineError::NoModel`] with the role of the first missing model.
    pub fn check(&self, tasks: &[DeviceTask]) -> Result<(), PipelineError> {
        for task in tasks {
            if let Workload::Model(role) = task.workload()
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

    /// Returns the model that `task` runs on aligned crops. Returns `None` if it runs none.
    pub fn of_face(&self, task: DeviceTask) -> Option<&dyn FaceModel> {
        match task.workload() {
            Workload::Model(Role::Embedder) => Some(&self.embedder),
            Workload::Model(Role::Detector | Role::Encoder) | Workload::Graphs(_) => None,
        }
    }

    /// Returns the tasks that run a model on aligned crops, with their models.
    pub fn of_faces(&self, tasks: &[DeviceTask]) -> Vec<(DeviceTask, &dyn FaceModel)> {
        let models = tasks.iter();
        let models = models.filter_map(|&task| Some((task, self.of_face(task)?)));
        models.collect()
    }

    /// Returns the entry of the model that a task runs. Returns `None` if it runs none.
    fn entry_of(&self, task: DeviceTask) -> Option<&Entry> {
        match task.workload() {
            Workload::Model(role) => self.entries.get(&role),
            Workload::Graphs(_) => None,
        }
    }

    /// Returns the first of `tasks` that computes vectors.
    pub(crate) fn vector_task(tasks: &[DeviceTask]) -> Option<DeviceTask> {
        let mut tasks = tasks.iter().copied();
        tasks.find(|task| matches!(task.workload(), Workload::Model(role) if role.has_vector()))
    }

    /// Returns the precision of a vector that `task` computes now. Returns `None` if it computes none, or if a remote server
    /// runs the model.
    pub(crate) fn current_precision(&self, task: DeviceTask) -> Option<NumericPrecision> {
        match task.workload() {
            Workload::Model(Role::Embedder) => self.embedder.current_precision(),
            Workload::Model(Role::Encoder) => self.encoder.as_ref()?.current_precision(),
            Workload::Model(Role::Detector) | Workload::Graphs(_) => None,
        }
    }

    /// Returns the length of the vectors that `tasks` compute, or 0 if they compute none.
    pub fn vector_len(&self, tasks: &[DeviceTask]) -> usize {
        let entry = Self::vector_task(tasks).and_then(|task| self.entry_of(task));
        entry.and_then(|entry| entry.spec.dim).unwrap_or(0)
    }

    /// Returns the model that computes the vectors of `task`. Returns `None` if it computes none.
    pub(crate) fn embedder_used(&self, task: DeviceTask) -> Option<EmbedderUsed> {
        let Entry { spec, vector_space } = self.entry_of(task)?;
        spec.role.has_vector().then(|| EmbedderUsed {
            id: spec.id.clone(),
            dim: spec.dim.unwrap_or(0),
            vector_space: vector_space.as_ref().to_owned(),
        })
    }

    /// Returns what decides the results of a task's model, for scan keys. `precision` is the precision of vectors.
    /// Returns null if the task runs no model.
    pub fn key(&self, task: DeviceTask, precision: Option<NumericPrecision>) -> Value {
        let Some(Entry { spec, vector_space }) = self.entry_of(task) else {
            return Value::Null;
        };
        match spec.role.has_vector() {
            true => json!([vector_space.as_ref(), precision]),
            false => json!([spec.sha256, spec.family, spec.input]),
        }
    }

    /// Returns the models of a response that used `tasks`.
    pub fn used(&self, tasks: &[DeviceTask]) -> ModelsUsed {
        let used = |task| tasks.contains(&task).then_some(task);
        let embedder = |task| used(task).and_then(|task| self.embedder_used(task));
        let detector = used(DeviceTask::FaceDetection).and_then(|task| self.entry_of(task));
        ModelsUsed {
            detector: detector.map(|Entry { spec, .. }| ModelUsed {
                id: spec.id.clone(),
                sha256: spec.sha256.clone(),
            }),
            embedder: embedder(DeviceTask::FaceEmbedding),
            encoder: embedder(DeviceTask::ImageEmbedding),
        }
    }
}
