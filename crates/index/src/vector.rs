//! Checks of f32 vectors, and the codes of a row.

use crate::{error::IndexError, query::UNIT};

/// The highest dimension of a slab.
pub const MAX_DIM: usize = 4096;

/// The largest absolute value of a code of a row.
const MAX_CODE: f64 = 127.0;

/// Checks that a slab can have this dimension.
pub(crate) fn check_dim(dim: usize) -> Result<(), IndexError> {
    if (1..=MAX_DIM).contains(&dim) {
        Ok(())
    } else {
        Err(IndexError::UnsupportedDimension(dim))
    }
}

/// Returns the Euclidean length of a vector that has `dim` finite values, not all of them zero.
///
/// The sum is in f64, where the squares of f32 values neither overflow nor vanish.
pub(crate) fn length(vector: &[f32], dim: usize) -> Result<f64, IndexError> {
    if vector.len() != dim {
        return Err(IndexError::WrongDimension {
            expected: dim,
            found: vector.len(),
        });
    }
    if let Some(at) = vector.iter().position(|value| !value.is_finite()) {
        return Err(IndexError::NotFinite(at));
    }
    let squares: f64 = vector.iter().map(|&value| f64::from(value).powi(2)).sum();
    if squares == 0.0 {
        return Err(IndexError::Zero);
    }
    Ok(squares.sqrt())
}

/// A quantized row: `codes[i] · scale · UNIT` approximates value `i` of the vector at length 1.
pub(crate) struct Row {
    /// One code a dimension, from −127 to 127.
    pub(crate) codes: Vec<i8>,
    /// The cosine similarity that one unit of an integer product with a [`crate::Query`] stands for. Finite and positive.
    pub(crate) scale: f32,
}

impl Row {
    /// Quantizes a vector of any length. The largest absolute value becomes 127.
    pub(crate) fn new(vector: &[f32], dim: usize) -> Result<Self, IndexError> {
        let length = length(vector, dim)?;
        let largest = vector.iter().fold(0.0, |max: f32, x| max.max(x.abs()));
        let step = f64::from(largest) / MAX_CODE;
        let per_step = 1.0 / step;
        Ok(Self {
            codes: vector
                .iter()
                .map(|&value| (f64::from(value) * per_step).round() as i8)
                .collect(),
            scale: (step / length / f64::from(UNIT)) as f32,
        })
    }
}
