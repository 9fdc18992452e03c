//! The AVX-512 form: a shuffle gathers a pair of taps of four pixels, and one instruction weighs and adds them.

use std::arch::x86_64::*;

use bytemuck::must_cast;

use super::{HALF, PRODUCT_BITS, PairedTaps, WINDOW};
use crate::resize::{
    Pixel,
    triangle::{BLOCK, CHANNELS},
};

/// Computes the same as [`portable`](super::portable) with shuffles and multiply-add instructions.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,avx512vnni")]
pub(in crate::resize::triangle) fn weigh(
    row: &[i16],
    taps: &PairedTaps,
    out: &mut [[Pixel; BLOCK]],
) {
    match taps.pairs {
        1 => weigh_pairs::<1>(row, taps, out),
        2 => weigh_pairs::<2>(row, taps, out),
        3 => weigh_pairs::<3>(row, taps, out),
        _ => weigh_pairs::<0>(row, taps, out),
    }
}

/// Weighs `PAIRS` pairs per pixel; 0 stands for any number.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,avx512vnni")]
fn weigh_pairs<const PAIRS: usize>(row: &[i16], taps: &PairedTaps, out: &mut [[Pixel; BLOCK]]) {
    let pairs = if PAIRS == 0 { taps.pairs } else { PAIRS };
    let weights = taps.weights.chunks_exact(4 * pairs);
    // Packing interleaves its two sources by 128-bit lanes; this restores the order of the pixels.
    let order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    for ((out, gathers), weights) in out.iter_mut().zip(&taps.gathers).zip(weights) {
        let mut sums = [_mm512_set1_epi32(HALF); 4];
        let quads = sums.iter_mut().zip(gathers);
        for ((sum, gather), weights) in quads.zip(weights.chunks_exact(pairs)) {
            let samples = &row[gather.first..][..2 * CHANNELS * (pairs - 1) + WINDOW];
            for (at, weights) in weights.iter().enumerate() {
                if let Some(&window) = samples[2 * CHANNELS * at..].first_chunk::<WINDOW>() {
                    let shuffle = must_cast(gather.shuffle.0);
                    let pair = _mm512_permutexvar_epi8(shuffle, must_cast(window));
                    *sum = _mm512_dpwssd_epi32(*sum, pair, must_cast(weights.0));
                }
            }
            *sum = _mm512_srai_epi32::<{ PRODUCT_BITS as u32 }>(*sum);
        }
        let [a, b, c, d] = sums;
        let levels = _mm512_packus_epi16(_mm512_packs_epi32(a, b), _mm512_packs_epi32(c, d));
        *out = must_cast(_mm512_permutexvar_epi32(order, levels));
    }
}
