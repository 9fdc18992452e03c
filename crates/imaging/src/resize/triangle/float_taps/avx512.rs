//! The AVX-512 form: one shuffle gathers a tap of four pixels.

use std::arch::x86_64::*;

use bytemuck::must_cast;

use super::{FloatTaps, WINDOW, WINDOW_TAPS};
use crate::resize::triangle::{Aligned, CHANNELS, Quad};

/// Computes the same as [`portable`](super::portable) for quads whose first taps fit one load.
#[inline]
#[target_feature(enable = "avx512f")]
pub(in crate::resize::triangle) fn weigh(
    row: &[f32],
    taps: &FloatTaps,
    shuffles: &[Aligned<[u32; 16]>],
    out: &mut [Quad],
) {
    match taps.taps {
        2 => weigh_taps::<2>(row, taps, shuffles, out),
        3 => weigh_taps::<3>(row, taps, shuffles, out),
        4 => weigh_taps::<4>(row, taps, shuffles, out),
        5 => weigh_taps::<5>(row, taps, shuffles, out),
        6 => weigh_taps::<6>(row, taps, shuffles, out),
        _ => weigh_taps::<0>(row, taps, shuffles, out),
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn weigh_taps<const TAPS: usize>(
    row: &[f32],
    columns: &FloatTaps,
    shuffles: &[Aligned<[u32; 16]>],
    out: &mut [Quad],
) {
    let taps = if TAPS == 0 { columns.taps } else { TAPS };
    let quads = columns.first.iter().zip(shuffles);
    let weights = columns.weights.chunks_exact(taps);
    let next_tap = _mm512_set1_epi32(CHANNELS as i32);
    for ((out, (first, shuffle)), weights) in out.iter_mut().zip(quads).zip(weights) {
        let samples = &row[first[0] as usize..][..CHANNELS * (taps - 1) + WINDOW];
        let mut sums = _mm512_setzero_ps();
        for (at, weights) in weights.chunks(WINDOW_TAPS).enumerate() {
            // One load serves several shuffles, because most loads cross two cache lines.
            if let Some(&window) = samples[CHANNELS * WINDOW_TAPS * at..].first_chunk::<WINDOW>() {
                let [low, high] = must_cast(window);
                let mut index = must_cast(shuffle.0);
                for weights in weights {
                    let four = _mm512_permutex2var_ps(low, index, high);
                    sums = _mm512_add_ps(sums, _mm512_mul_ps(four, must_cast(weights.0)));
                    index = _mm512_add_epi32(index, next_tap);
                }
            }
        }
        *out = must_cast(sums);
    }
}
