//! A quantized query.

use crate::{
    error::IndexError,
    vector::{check_dim, length},
};

/// The code of 1.0 in a query.
///
/// It is the largest value that fits into i16, because a value of a vector of length 1 is at most 1. Sums of products with
/// a row fit into i32. By Cauchy–Schwarz, the absolute value of a sum over any subset of the dimensions is at most the
/// product of the lengths. For `n` dimensions, the codes of a row have a length of at most `127·√n`, and those of a query
/// one of at most `UNIT + √n/2`, because rounding moves each code by at most ½. For 4096 dimensions the product is
/// 8128 · 32,799 < 2²⁸, whatever the length of the vectors before they are normalized.
pub(crate) const UNIT: i16 = i16::MAX;

/// A vector to search for, at length 1, with 16 bits for each value.
pub struct Query {
    codes: Box<[i16]>,
}

impl Query {
    /// Quantizes a vector of `dim` values. Its length does not matter.
    ///
    /// # Errors
    /// Returns an error if `dim` is not from 1 to [`MAX_DIM`](crate::MAX_DIM), or if the vector has another dimension, a
    /// value that is not finite, or length zero.
    pub fn new(dim: usize, vector: &[f32]) -> Result<Self, IndexError> {
        check_dim(dim)?;
        let factor = f64::from(UNIT) / length(vector, dim)?;
        let code = |&value: &f32| (f64::from(value) * factor).round() as i16;
        Ok(Self {
            codes: vector.iter().map(code).collect(),
        })
    }

    /// Returns the number of values.
    pub fn dim(&self) -> usize {
        self.codes.len()
    }

    /// Returns one code a dimension; [`UNIT`] stands for 1.0.
    pub(crate) fn codes(&self) -> &[i16] {
        &self.codes
    }
}
