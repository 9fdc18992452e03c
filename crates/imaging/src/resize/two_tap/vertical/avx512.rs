//! The AVX-512 form: two registers a row.

use std::{arch::x86_64::*, hint::black_box};

use bytemuck::must_cast;

use super::Weights;
use crate::resize::{
    Pixel,
    two_tap::{BLOCK, Block},
};

/// [`portable`](super::portable) in registers of 32 samples.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(crate) fn blend([upper, lower]: [&Block; 2], weights: &Weights) -> [Pixel; BLOCK] {
    let [upper, lower]: [[__m512i; 2]; 2] = [must_cast(*upper), must_cast(*lower)];
    // Read for each block: when the compiler widens the weights before the loop, it no longer recognises that the upper half
    // of a product is one instruction.
    let [above, below]: [__m512i; 2] = must_cast(black_box(weights).0);
    let level = |at: usize| {
        let sum = _mm512_add_epi16(
            _mm512_mulhi_epu16(above, upper[at]),
            _mm512_mulhi_epu16(below, lower[at]),
        );
        _mm512_srli_epi16::<2>(_mm512_add_epi16(sum, _mm512_set1_epi16(2)))
    };
    // Packing interleaves its two sources by two pixels each; this restores their order.
    let order = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
    must_cast(_mm512_permutexvar_epi64(
        order,
        _mm512_packus_epi16(level(0), level(1)),
    ))
}
