//! The reasons why a vector or a slab is refused.

use thiserror::Error;

use crate::vector::MAX_DIM;

/// The reason why a vector or a slab is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum IndexError {
    /// A slab of this dimension cannot exist.
    #[error("the dimension {0} is not supported: use 1 to {MAX_DIM}")]
    UnsupportedDimension(usize),
    /// The vector has another dimension than the slab.
    #[error("the vector has {found} values: send {expected}")]
    WrongDimension {
        /// The dimension of the slab.
        expected: usize,
        /// The number of values of the vector.
        found: usize,
    },
    /// A value is NaN or infinite.
    #[error("value {0} of the vector is not finite: send finite numbers")]
    NotFinite(usize),
    /// All values are zero, so the vector has no direction.
    #[error("the vector has length zero: send at least one value that is not zero")]
    Zero,
}
