//! Interpolation between two rows that are interpolated along x.
//!
//! # Method
//! Rows have 7 fractional bits and weights 11. The upper half of a 16 × 16-bit product has 2 fractional bits; two of
//! them are added and rounded. All forms are exact.
//!
//! # CPU
//! * portable: no feature; plain Rust, compiled for several instruction sets.
//! * AVX2: registers of 16 samples. This form letterboxes 1.3 times as many images per second as the portable form. The
//!   compiler does not recognize the multiplication that keeps the upper halves in every instruction set. A form for
//!   AVX-512 was not faster.

#[cfg(target_arch = "x86_64")]
pub(crate) mod avx2;

use multiversion::multiversion;

use super::{BLOCK, Block, Pixel, RowPair};

/// The weights of the upper and the lower row, in 2¹¹ths, repeated for a register.
#[repr(align(32))]
pub(crate) struct Weights([[u16; 16]; 2]);

impl Weights {
    /// Creates the weights of the upper and the lower row.
    pub(super) fn new(weights: [u16; 2]) -> Self {
        Self(weights.map(|weight| [weight; 16]))
    }
}

/// Blends a block of two rows and rounds to the nearest level, on any CPU.
#[inline(always)]
pub(crate) fn portable([upper, lower]: [&Block; 2], weights: &Weights) -> [Pixel; BLOCK] {
    let [[above, ..], [below, ..]] = weights.0;
    let high = |a: u16, b: u16| ((u32::from(a) * u32::from(b)) >> 16) as u16;
    // Two loops: the first stays in 16 bits, and only its results are narrowed.
    let mut levels = [0u16; 4 * BLOCK];
    for ((level, &upper), &lower) in levels.iter_mut().zip(upper).zip(lower) {
        *level = (high(above, upper) + high(below, lower) + 2) >> 2;
    }
    let mut narrow = [0u8; 4 * BLOCK];
    for (narrow, level) in narrow.iter_mut().zip(levels) {
        *narrow = level as u8;
    }
    bytemuck::must_cast(narrow)
}

/// Blends a row.
#[multiversion(targets = "simd")]
pub(crate) fn blend(pair: &RowPair<'_>, out: &mut [[Pixel; BLOCK]]) {
    let [upper, lower] = pair.rows;
    for ((out, upper), lower) in out.iter_mut().zip(upper).zip(lower) {
        *out = portable([upper, lower], &pair.weights);
    }
}
