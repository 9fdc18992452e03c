//! The kernel for processors with AVX-512.

use std::arch::x86_64::*;

use bytemuck::must_cast;

use super::{
    Quad, RGB,
    across::{Columns, WINDOW},
};

/// [`portable`](super::across::portable) for quads whose first samples fit a window each: one shuffle brings a tap of
/// four pixels together.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn across_512(line: &[f32], columns: &Columns, near: &[[u32; 16]], out: &mut [Quad]) {
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
fn weigh<const TAPS: usize>(line: &[f32], columns: &Columns, near: &[[u32; 16]], out: &mut [Quad]) {
    let taps = if TAPS == 0 { columns.taps } else { TAPS };
    let quads = columns.first.iter().zip(near);
    let weights = columns.weights.chunks_exact(taps);
    for ((out, (first, &index)), weights) in out.iter_mut().zip(quads).zip(weights) {
        let samples = &line[first[0] as usize..][..RGB * (taps - 1) + WINDOW];
        let index = must_cast(index);
        let mut sums = _mm512_setzero_ps();
        for (tap, &weights) in weights.iter().enumerate() {
            if let Some(&window) = samples[RGB * tap..].first_chunk::<WINDOW>() {
                let [low, high] = must_cast(window);
                let four = _mm512_permutex2var_ps(low, index, high);
                sums = _mm512_add_ps(sums, _mm512_mul_ps(four, must_cast(weights)));
            }
        }
        *out = must_cast(sums);
    }
}
