//! The kernel for processors with AVX-512.

use std::arch::x86_64::*;

use bytemuck::must_cast;

use super::{
    Quad, RGB,
    across::{Columns, Lanes, WINDOW, WINDOW_TAPS},
};

/// [`portable`](super::across::portable) for quads whose first samples lie in a window: one shuffle brings a tap of
/// four pixels together.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn across_512(line: &[f32], columns: &Columns, near: &[Lanes<u32>], out: &mut [Quad]) {
    match columns.taps {
        2 => weigh::<2>(line, columns, near, out),
        3 => weigh::<3>(line, columns, near, out),
        4 => weigh::<4>(line, columns, near, out),
        5 => weigh::<5>(line, columns, near, out),
        6 => weigh::<6>(line, columns, near, out),
        _ => weigh::<0>(line, columns, near, out),
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn weigh<const TAPS: usize>(
    line: &[f32],
    columns: &Columns,
    near: &[Lanes<u32>],
    out: &mut [Quad],
) {
    let taps = if TAPS == 0 { columns.taps } else { TAPS };
    let quads = columns.first.iter().zip(near);
    let weights = columns.weights.chunks_exact(taps);
    let next = _mm512_set1_epi32(RGB as i32);
    for ((out, (first, near)), weights) in out.iter_mut().zip(quads).zip(weights) {
        let samples = &line[first[0] as usize..][..RGB * (taps - 1) + WINDOW];
        let mut sums = _mm512_setzero_ps();
        for (at, weights) in weights.chunks(WINDOW_TAPS).enumerate() {
            // Few loads for many shuffles: most of them cross two lines of the cache.
            if let Some(&window) = samples[RGB * WINDOW_TAPS * at..].first_chunk::<WINDOW>() {
                let [low, high] = must_cast(window);
                let mut index = must_cast(near.0);
                for weights in weights {
                    let four = _mm512_permutex2var_ps(low, index, high);
                    sums = _mm512_add_ps(sums, _mm512_mul_ps(four, must_cast(weights.0)));
                    index = _mm512_add_epi32(index, next);
                }
            }
        }
        *out = must_cast(sums);
    }
}
