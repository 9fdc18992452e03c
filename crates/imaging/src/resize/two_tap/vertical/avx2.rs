//! The AVX2 form: four registers per row.

use std::{arch::x86_64::*, hint::black_box};

use bytemuck::must_cast;

use super::Weights;
use crate::resize::{
    Pixel,
    two_tap::{BLOCK, Block},
};

/// Computes the same as [`portable`](super::portable) in registers of 16 samples.
#[inline]
#[target_feature(enable = "avx2")]
pub(crate) fn blend([upper, lower]: [&Block; 2], weights: &Weights) -> [Pixel; BLOCK] {
    let [upper, lower]: [[__m256i; 4]; 2] = [must_cast(*upper), must_cast(*lower)];
    // The weights are read for each block. When the compiler widens them before the loop, it no longer recognizes that
    // the upper half of a product is one instruction.
    let [above, below]: [__m256i; 2] = must_cast(black_box(weights).0);
    let level = |at: usize| {
        let sum = _mm256_add_epi16(
            _mm256_mulhi_epu16(above, upper[at]),
            _mm256_mulhi_epu16(below, lower[at]),
        );
        _mm256_srli_epi16::<2>(_mm256_add_epi16(sum, _mm256_set1_epi16(2)))
    };
    let pixels = |first, second| {
        let packed = _mm256_packus_epi16(level(first), level(second));
        _mm256_permute4x64_epi64::<0b11_01_10_00>(packed)
    };
    must_cast([pixels(0, 1), pixels(2, 3)])
}
