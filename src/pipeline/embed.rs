//! Turning aligned crops into vectors.

use std::{sync::Arc, time::Duration};

use image::RgbImage;

use crate::pipeline::error::PipelineError;
use facescan_imaging::{
    precision::NumericPrecision,
    tensor::{Normalisation, fill_row},
};
use facescan_inference::{
    engine::{Engine, Pending},
    health::Fault,
    registry::ModelSpec,
};

/// Faces of one picture that are in work at a time, at least.
const MIN_CHUNK_SIZE: usize = 16;

/// The embedder's engine.
#[derive(Clone)]
pub struct Embedder {
    /// The model.
    pub spec: Arc<ModelSpec>,
    /// The contract its vectors carry.
    pub contract: String,
    /// Length of its vectors.
    pub dim: usize,
    engine: Engine,
    normalisation: Normalisation,
    chunk_size: usize,
}

/// A face's vector.
#[derive(Clone, Debug, PartialEq)]
pub struct Embedding {
    /// The vector, of length 1.
    pub vector: Vec<f32>,
    /// Its length before; small for faces that the model could make little of.
    pub norm: f32,
    /// The precision in which the model computed it; `None` if a remote server did, which does not tell.
    pub precision: Option<NumericPrecision>,
}

/// The vectors of some crops, and the time they took.
#[derive(Debug, Default)]
pub struct Embeddings {
    /// One for each row sent; `None` where the model gave no direction.
    pub rows: Vec<Option<Embedding>>,
    /// Time that the first of them waited for a session.
    pub queued: Duration,
    /// Why a row ran on the CPU that was meant for a device.
    pub fallback: Option<Fault>,
}

impl Embedder {
    /// An embedder that runs `spec` on `engine`, in batches of at most `max_rows`.
    pub fn new(spec: Arc<ModelSpec>, engine: Engine, max_rows: usize) -> Self {
        Self {
            contract: spec.contract(),
            dim: spec.dim.unwrap_or(0),
            normalisation: spec.input.normalisation(),
            spec,
            engine,
            chunk_size: max_rows.max(MIN_CHUNK_SIZE),
        }
    }

    /// How many faces of a picture are cut and submitted at a time, so that a crowd takes no more memory than a batch.
    pub fn chunk_size(&self) -> usize {
        self.chunk_size
    }

    /// The precision in which a crop that is submitted now would be embedded.
    ///
    /// It may still run elsewhere. [`Embedding::precision`] says what ran it.
    pub fn current_precision(&self) -> Option<NumericPrecision> {
        self.engine.current_placement().numeric_precision()
    }

    /// Writes a crop into a row and lets it run. CPU work; the last that a job does where `is_last`.
    pub fn submit(&self, crop: &RgbImage, is_last: bool) -> Pending {
        let side = self.spec.input.width as usize;
        let mut row = self.engine.claim(&[3, side, side]);
        fill_row(crop, &self.normalisation, row.values());
        if is_last {
            row.commit_last()
        } else {
            row.commit()
        }
    }

    /// Waits for the vectors, one for each row, in order.
    ///
    /// # Errors
    /// A fault of the engine, or an answer of another length than the registry's.
    pub async fn finish(&self, rows: Vec<Pending>) -> Result<Embeddings, PipelineError> {
        let mut embeddings = Embeddings::default();
        for (index, pending) in rows.into_iter().enumerate() {
            let output = pending.await?;
            embeddings.fallback = embeddings.fallback.or(output.fallback);
            if index == 0 || output.queued < embeddings.queued {
                embeddings.queued = output.queued;
            }
            let vector = output
                .outputs
                .first()
                .map(|vectors| vectors.row(output.row));
            let vector = vector
                .filter(|vector| vector.len() == self.dim)
                .ok_or_else(|| {
                    PipelineError::UnexpectedOutput(format!(
                        "the embedder {} gave no vector of {} values",
                        self.spec.id, self.dim
                    ))
                })?;
            let precision = output.ran_on.numeric_precision();
            embeddings.rows.push(normalise(vector, precision));
        }
        Ok(embeddings)
    }
}

/// L2 normalisation; `None` for a vector without a direction.
pub(super) fn normalise(raw: &[f32], precision: Option<NumericPrecision>) -> Option<Embedding> {
    let norm = raw.iter().map(|value| value * value).sum::<f32>().sqrt();
    (norm.is_finite() && norm > 0.0).then(|| Embedding {
        vector: raw.iter().map(|value| value / norm).collect(),
        norm,
        precision,
    })
}

/// The cosine of two vectors of length 1.
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
