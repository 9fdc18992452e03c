//! Computes vectors of aligned crops.

use std::sync::Arc;

use facescan_imaging::precision::NumericPrecision;
use facescan_inference::{engine::RowOutput, registry::ModelSpec};

use super::{
    LoadedModel,
    crop_model::{CropModel, FaceModel},
};
use crate::pipeline::{error::PipelineError, faces::Face};

/// The embedder. Cheap to clone.
#[derive(Clone)]
pub struct Embedder {
    /// The contract of its vectors.
    pub contract: String,
    /// The length of its vectors.
    pub dim: usize,
    model: CropModel,
}

/// A face's vector.
#[derive(Clone, Debug, PartialEq)]
pub struct Embedding {
    /// The vector, of length 1.
    pub vector: Vec<f32>,
    /// The length before normalisation. It is small for faces that the model could hardly use.
    pub norm: f32,
    /// The precision that the model used. `None` if a remote server ran the model, because it does not report its
    /// precision.
    pub precision: Option<NumericPrecision>,
}

impl Embedder {
    /// Creates an embedder of a loaded model.
    pub fn new(loaded: LoadedModel) -> Self {
        Self {
            contract: loaded.spec.contract(),
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
    pub fn current_precision(&self) -> Option<NumericPrecision> {
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
        Ok(normalise(vector, output.ran_on.numeric_precision()))
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

/// Normalises a vector to length 1. Returns `None` if it has no direction.
pub(super) fn normalise(raw: &[f32], precision: Option<NumericPrecision>) -> Option<Embedding> {
    let norm = raw.iter().map(|value| value * value).sum::<f32>().sqrt();
    (norm.is_finite() && norm > 0.0).then(|| Embedding {
        vector: raw.iter().map(|value| value / norm).collect(),
        norm,
        precision,
    })
}

/// Returns the cosine of two vectors of length 1.
pub fn cosine(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_have_length_one_and_keep_their_norm() {
        let embedding = normalise(&[3.0, 4.0], Some(NumericPrecision::Bf16)).unwrap();
        assert_eq!(embedding.norm, 5.0);
        assert_eq!(embedding.vector, [0.6, 0.8]);
        assert_eq!(embedding.precision, Some(NumericPrecision::Bf16));
    }

    #[test]
    fn a_vector_without_direction_is_none() {
        assert_eq!(normalise(&[0.0, 0.0], None), None);
        assert_eq!(normalise(&[f32::NAN, 1.0], None), None);
        assert_eq!(normalise(&[], None), None);
    }
}
