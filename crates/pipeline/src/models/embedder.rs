//! Computes vectors of aligned crops.

use std::sync::Arc;

use facescan_imaging::precision::NumericPrecision;
use facescan_inference::{engine::RowOutput, registry::ModelSpec};

use super::{
    crop_model::{CropModel, FaceModel},
    loaded::LoadedModel,
};
use crate::core::{
    error::PipelineError,
    scan::{Embedding, Face},
};

/// The embedder. Cheap to clone.
#[derive(Clone)]
pub struct Embedder {
    /// The vector space of its vectors.
    pub vector_space: String,
    /// The length of its vectors.
    pub dim: usize,
    model: CropModel,
}

impl Embedder {
    /// Creates an embedder of a loaded model.
    pub fn new(loaded: LoadedModel) -> Self {
        Self {
            vector_space: loaded.spec.vector_space(),
            dim: loaded.spec.dim.unwrap_or(0),
            model: CropModel::new(loaded),
        }
    }

    /// Returns the entry of the registry.
    pub fn spec(&self) -> &Arc<ModelSpec> {
        &self.model.spec
    }

    /// Returns the precision of the device that runs rows now.
    ///
    /// A row that is submitted now may still run elsewhere. [`Embedding::precision`] has the precision of the actual
    /// run.
    pub(crate) fn current_precision(&self) -> Option<NumericPrecision> {
        self.model.engine().current_placement().numeric_precision()
    }

    /// Returns the vector in the output of a row, or `None` if it has no direction.
    ///
    /// # Errors
    /// [`PipelineError::UnexpectedOutput`] if the vector does not have the length in the registry.
    pub fn embedding(&self, output: &RowOutput) -> Result<Option<Embedding>, PipelineError> {
        let vectors = output.outputs.first();
        let vector = vectors.map(|vectors| vectors.row(output.row));
        let vector = vector.filter(|vector| vector.len() == self.dim);
        let vector = vector.ok_or_else(|| {
            PipelineError::UnexpectedOutput(format!(
                "the embedder {} did not return a vector of {} values",
                self.spec().id,
                self.dim
            ))
        })?;
        Ok(Embedding::from_raw(
            vector,
            output.run.placement.numeric_precision(),
        ))
    }
}

impl FaceModel for Embedder {
    fn model(&self) -> &CropModel {
        &self.model
    }

    fn add(&self, output: &RowOutput, face: &mut Face) -> Result<(), PipelineError> {
        face.embedding = self.embedding(output)?;
        Ok(())
    }
}
