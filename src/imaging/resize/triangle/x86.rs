//! The kernels for processors with AVX-512.

use std::arch::x86_64::*;

use bytemuck::must_cast;

use super::{
    Quad, RGB,
    across::{Columns, Lanes, WINDOW, WINDOW_TAPS},
    down::{self, Stack},
    pairs::{self, BITS, HALF, Pairs},
    whole::BLOCK,
};
use crate::imaging::resize::Pixel;

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

/// [`portable`](super::pairs::portable): a shuffle brings two samples of four pixels' channels together, and one instruction
/// weighs and adds them.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,avx512vnni")]
pub(super) fn weigh_pairs(line: &[i16], pairs: &Pairs, out: &mut [[Pixel; BLOCK]]) {
    match pairs.count {
        1 => pairs_of::<1>(line, pairs, out),
        2 => pairs_of::<2>(line, pairs, out),
        3 => pairs_of::<3>(line, pairs, out),
        _ => pairs_of::<0>(line, pairs, out),
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,avx512vnni")]
fn pairs_of<const COUNT: usize>(line: &[i16], pairs: &Pairs, out: &mut [[Pixel; BLOCK]]) {
    let count = if COUNT == 0 { pairs.count } else { COUNT };
    let weights = pairs.weights.chunks_exact(4 * count);
    // Packing takes turns between its sources, a pixel each.
    let order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    for ((out, fours), weights) in out.iter_mut().zip(&pairs.fours).zip(weights) {
        let mut sums = [_mm512_set1_epi32(HALF); 4];
        for ((sum, four), weights) in sums.iter_mut().zip(fours).zip(weights.chunks_exact(count)) {
            let samples = &line[four.first..][..2 * RGB * (count - 1) + pairs::WINDOW];
            for (at, weights) in weights.iter().enumerate() {
                if let Some(&window) = samples[2 * RGB * at..].first_chunk::<{ pairs::WINDOW }>() {
                    let pair =
                        _mm512_permutexvar_epi8(must_cast(four.shuffle.0), must_cast(window));
                    *sum = _mm512_dpwssd_epi32(*sum, pair, must_cast(weights.0));
                }
            }
            *sum = _mm512_srai_epi32::<{ BITS as u32 }>(*sum);
        }
        let [a, b, c, d] = sums;
        let levels = _mm512_packus_epi16(_mm512_packs_epi32(a, b), _mm512_packs_epi32(c, d));
        *out = must_cast(_mm512_permutexvar_epi32(order, levels));
    }
}

/// Samples that a register of bytes holds.
const BYTES: usize = 64;

/// [`narrow`](super::down::narrow): samples are brought to the upper halves of 16 bits, and of the products the upper halves
/// are kept.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
pub(super) fn down_narrow(stack: &Stack<'_, u16>, out: &mut [i16]) {
    match stack.weights.len() {
        2 => rows_of::<2>(stack, out),
        3 => rows_of::<3>(stack, out),
        4 => rows_of::<4>(stack, out),
        5 => rows_of::<5>(stack, out),
        6 => rows_of::<6>(stack, out),
        _ => rows_of::<0>(stack, out),
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn rows_of<const ROWS: usize>(stack: &Stack<'_, u16>, out: &mut [i16]) {
    let (stride, count) = (
        stack.stride,
        if ROWS == 0 { stack.weights.len() } else { ROWS },
    );
    let (source, weights) = (&stack.source[..count * stride], &stack.weights[..count]);
    let half = |at: usize| must_cast(std::array::from_fn::<u8, BYTES, _>(|i| (at + i / 2) as u8));
    let halves: [__m512i; 2] = [half(0), half(BYTES / 2)];
    let start = _mm512_set1_epi16(down::half(count) as i16);
    let (blocks, rest) = out[..stride].as_chunks_mut::<BYTES>();
    for (at, out) in blocks.iter_mut().enumerate() {
        let mut sums = [start; 2];
        for (row, &weight) in weights.iter().enumerate() {
            if let Some(&samples) = source[row * stride + at * BYTES..].first_chunk::<BYTES>() {
                let (samples, weight) = (must_cast(samples), _mm512_set1_epi16(weight as i16));
                for (sum, half) in sums.iter_mut().zip(halves) {
                    let upper = _mm512_maskz_permutexvar_epi8(!0 / 3 * 2, half, samples);
                    *sum = _mm512_add_epi16(*sum, _mm512_mulhi_epu16(upper, weight));
                }
            }
        }
        let [low, high] = sums.map(|sum| _mm512_srli_epi16::<1>(sum));
        *out = must_cast([low, high]);
    }
    let at = stride - rest.len();
    down::narrow(stack, at, out);
}
