//! Computes vectors of aligned crops.

use std::{sync::Arc, time::Duration};

use image::RgbImage;

use facescan_imaging::precision::NumericPrecision;
use facescan_inference::{device::DeviceRun, engine::Pending, registry::ModelSpec};

use super::{LoadedModel, crop_model::CropModel};
use crate::pipeline::error::PipelineError;

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

/// The vectors of some crops, and their times.
#[derive(Debug, Default)]
pub struct Embeddings {
    /// One for each row. `None` if the model's output has no direction.
    pub rows: Vec<Option<Embedding>>,
    /// The time that the first row waited for a session.
    pub queued: Duration,
    /// The device that ran the rows. `None` if there were no rows. If several devices ran them, this is the one that
    /// was not requested.
    pub run: Option<DeviceRun>,
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

    /// Returns the model, which runs the rows.
    pub fn model(&self) -> &CropModel {
        &self.model
    }

    /// Returns the precision of the device that runs rows now.
    ///
    /// A row that is submitted now may still run elsewhere. [`Embedding::precision`] has the precision of the actual
    /// run.
    pub fn current_precision(&self) -> Option<NumericPrecision> {
        self.model.engine().current_placement().numeric_precision()
    }

    /// Writes a crop into a row and commits it. This is CPU work. `is_last` says that the job waits for the rows next.
    pub fn submit(&self, crop: &RgbImage, is_last: bool) -> Pending {
        self.model.submit(crop, is_last)
    }

    /// Waits for the vectors. Returns one for each row, in order.
    ///
    /// # Errors
    /// The error of the engine, or [`PipelineError::UnexpectedOutput`] if a vector does not have the length in the
    /// registry.
    pub async fn finish(&self, rows: Vec<Pending>) -> Result<Embeddings, PipelineError> {
        let outputs = self.model.finish(rows).await?;
        let mut embeddings = Embeddings {
            rows: Vec::with_capacity(outputs.rows.len()),
            queued: outputs.queued,
            run: outputs.run,
        };
        for output in outputs.rows {
            let vectors = output.outputs.first();
            let vector = vectors.map(|vectors| vectors.row(output.row));
            let vector = vector
                .filter(|vector| vector.len() == self.dim)
                .ok_or_else(|| {
                    PipelineError::UnexpectedOutput(format!(
                        "the embedder {} did not return a vector of {} values",
                        self.spec().id,
                        self.dim
                    ))
                })?;
            let precision = output.ran_on.numeric_precision();
            embeddings.rows.push(normalise(vector, precision));
        }
        Ok(embeddings)
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
