//! Turning aligned crops into vectors.

use std::{sync::Arc, time::Duration};

use image::RgbImage;

use crate::{
    error::Error,
    imaging::tensor::{Normalisation, fill_row},
    inference::{backend::Batch, engine::Engine, registry::ModelSpec},
};

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
    max_rows: usize,
}

/// A face's vector.
#[derive(Clone, Debug, PartialEq)]
pub struct Embedding {
    /// The vector, of length 1.
    pub vector: Vec<f32>,
    /// Its length before; small for faces that the model could make little of.
    pub norm: f32,
}

/// The vectors of some crops, and the time they took.
#[derive(Debug, Default)]
pub struct Embeddings {
    /// One for each row sent; `None` where the model gave no direction.
    pub rows: Vec<Option<Embedding>>,
    /// Time spent waiting for the session.
    pub queued: Duration,
    /// Time spent running.
    pub ran: Duration,
}

impl Embedder {
    /// An embedder that runs `spec` on `engine`, at most `max_rows` crops at a time.
    pub fn new(spec: Arc<ModelSpec>, engine: Engine, max_rows: usize) -> Self {
        Self {
            contract: spec.contract(),
            dim: spec.dim.unwrap_or(0),
            normalisation: spec.input.normalisation(),
            spec,
            engine,
            max_rows: max_rows.max(1),
        }
    }

    /// Lays crops out as the model's rows, in batches of bounded size. CPU work.
    pub fn batches<'a>(&self, crops: impl IntoIterator<Item = &'a RgbImage>) -> Vec<Batch> {
        let crops: Vec<&RgbImage> = crops.into_iter().collect();
        crops
            .chunks(self.max_rows)
            .map(|chunk| self.batch(chunk))
            .collect()
    }

    fn batch(&self, crops: &[&RgbImage]) -> Batch {
        let side = self.spec.input.width as usize;
        let row_len = 3 * side * side;
        let mut data = vec![0.0; crops.len() * row_len];
        for (crop, row) in crops.iter().zip(data.chunks_exact_mut(row_len)) {
            fill_row(crop, &self.normalisation, row);
        }
        Batch {
            row_shape: vec![3, side, side],
            data,
        }
    }

    /// Runs the batches, one vector for each row, in order.
    ///
    /// # Errors
    /// A fault of the engine.
    pub async fn embed(&self, batches: Vec<Batch>) -> Result<Embeddings, Error> {
        let mut embeddings = Embeddings::default();
        for batch in batches {
            let rows = batch.rows();
            let finished = self.engine.run(batch).await?;
            embeddings.queued += finished.queued;
            embeddings.ran += finished.ran;
            let output = finished.outputs.first().ok_or_else(|| {
                Error::Internal(format!("the embedder {} gave no output", self.spec.id))
            })?;
            if output.data.len() != rows * self.dim {
                return Err(Error::Internal(format!(
                    "the embedder {} gave {} values for {rows} rows of {}",
                    self.spec.id,
                    output.data.len(),
                    self.dim
                )));
            }
            embeddings
                .rows
                .extend((0..rows).map(|row| normalise(output.row(row))));
        }
        Ok(embeddings)
    }
}

/// L2 normalisation; `None` for a vector without a direction.
fn normalise(raw: &[f32]) -> Option<Embedding> {
    let norm = raw.iter().map(|value| value * value).sum::<f32>().sqrt();
    (norm.is_finite() && norm > 0.0).then(|| Embedding {
        vector: raw.iter().map(|value| value / norm).collect(),
        norm,
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
        let embedding = normalise(&[3.0, 4.0]).unwrap();
        assert_eq!(embedding.norm, 5.0);
        assert_eq!(embedding.vector, [0.6, 0.8]);
    }

    #[test]
    fn a_vector_without_direction_is_none() {
        assert_eq!(normalise(&[0.0, 0.0]), None);
        assert_eq!(normalise(&[f32::NAN, 1.0]), None);
        assert_eq!(normalise(&[]), None);
    }
}
