//! The AVX-512 form: one instruction weighs eight source pixels.

use std::arch::x86_64::*;

use bytemuck::must_cast;

use super::{DotProduct, HALF, LANES, PRODUCT_BITS, SHUFFLE, WINDOW};
use crate::resize::{
    Pixel,
    triangle::{BLOCK, CHANNELS},
};

/// Runs [`weigh`](super::weigh).
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,avx512vnni")]
pub(super) fn weigh(row: &[i16], windows: &DotProduct, out: &mut [[Pixel; BLOCK]]) {
    match windows.groups {
        1 => weigh_groups::<1>(row, windows, out),
        2 => weigh_groups::<2>(row, windows, out),
        3 => weigh_groups::<3>(row, windows, out),
        _ => weigh_groups::<0>(row, windows, out),
    }
}

/// Weighs `GROUPS` groups of taps per pixel; 0 stands for any number.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,avx512vnni")]
fn weigh_groups<const GROUPS: usize>(
    row: &[i16],
    windows: &DotProduct,
    out: &mut [[Pixel; BLOCK]],
) {
    let groups = if GROUPS == 0 { windows.groups } else { GROUPS };
    let weights = windows.weights.chunks_exact(BLOCK * groups);
    let shuffle = must_cast(SHUFFLE);
    // Packing leaves one channel after the other; this restores the order of the pixels.
    let bytes = std::array::from_fn::<u8, { 2 * WINDOW }, _>(|i| (BLOCK * (i % 4) + i / 4) as u8);
    let order = must_cast(bytes);
    for ((out, first), weights) in out.iter_mut().zip(&windows.first).zip(weights) {
        let mut levels = [_mm512_setzero_si512(); 4];
        let quads = first.as_chunks::<4>().0.iter();
        let quads = quads.zip(weights.chunks_exact(4 * groups));
        for (levels, (first, weights)) in levels.iter_mut().zip(quads) {
            let mut sums = [_mm512_setzero_si512(); 4];
            let pixels = first.iter().zip(weights.chunks_exact(groups));
            for (sum, (&first, weights)) in sums.iter_mut().zip(pixels) {
                let samples = &row[first..][..CHANNELS * LANES * (groups - 1) + WINDOW];
                for (at, weights) in weights.iter().enumerate() {
                    let window = samples[CHANNELS * LANES * at..].first_chunk::<WINDOW>();
                    if let Some(&window) = window {
                        let sorted = _mm512_permutexvar_epi8(shuffle, must_cast(window));
                        let weights = _mm512_broadcast_i32x4(must_cast(*weights));
                        *sum = _mm512_dpwssd_epi32(*sum, sorted, weights);
                    }
                }
            }
            let rounded = _mm512_add_epi32(add_partial_sums(sums), _mm512_set1_epi32(HALF));
            *levels = _mm512_srai_epi32::<{ PRODUCT_BITS as u32 }>(rounded);
        }
        let [a, b, c, d] = levels;
        let levels = _mm512_packus_epi16(_mm512_packs_epi32(a, b), _mm512_packs_epi32(c, d));
        *out = must_cast(_mm512_permutexvar_epi8(order, levels));
    }
}

/// Adds the four partial sums of each channel, for four pixels.
#[inline]
#[target_feature(enable = "avx512f")]
fn add_partial_sums([a, b, c, d]: [__m512i; 4]) -> __m512i {
    let both = |a, b| _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
    let (ab, cd) = (both(a, b), both(c, d));
    _mm512_add_epi32(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd))
}
