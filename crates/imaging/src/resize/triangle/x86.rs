//! The kernels for processors with AVX-512.

use std::{arch::x86_64::*, hint::black_box};

use bytemuck::must_cast;

use super::{
    Quad, RGB,
    across::{Columns, Register, WINDOW, WINDOW_TAPS},
    eights::{self, EIGHT, Eights},
    pairs::{self, BITS, HALF, Pairs},
    ramps::{self, Block, Part, Weights},
    whole::BLOCK,
};
use crate::resize::Pixel;

/// [`portable`](super::across::portable) for quads whose first samples lie in a window: one shuffle brings a tap of
/// four pixels together.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn across_512(
    line: &[f32],
    columns: &Columns,
    near: &[Register<[u32; 16]>],
    out: &mut [Quad],
) {
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
    near: &[Register<[u32; 16]>],
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

/// [`portable`](super::eights::portable): one instruction weighs eight source pixels, two samples a number; a pixel's four
/// numbers a channel are added up for four pixels at a time.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,avx512vnni")]
pub(super) fn weigh_eights(line: &[i16], eights: &Eights, out: &mut [[Pixel; BLOCK]]) {
    match eights.count {
        1 => eights_of::<1>(line, eights, out),
        2 => eights_of::<2>(line, eights, out),
        3 => eights_of::<3>(line, eights, out),
        _ => eights_of::<0>(line, eights, out),
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,avx512vnni")]
fn eights_of<const COUNT: usize>(line: &[i16], eights: &Eights, out: &mut [[Pixel; BLOCK]]) {
    let count = if COUNT == 0 { eights.count } else { COUNT };
    let weights = eights.weights.chunks_exact(BLOCK * count);
    let shuffle = must_cast(eights::SHUFFLE);
    // Packing leaves a channel after the other.
    let bytes =
        std::array::from_fn::<u8, { 2 * pairs::WINDOW }, _>(|i| (BLOCK * (i % 4) + i / 4) as u8);
    let order = must_cast(bytes);
    for ((out, first), weights) in out.iter_mut().zip(&eights.first).zip(weights) {
        let mut levels = [_mm512_setzero_si512(); 4];
        let fours = first
            .as_chunks::<4>()
            .0
            .iter()
            .zip(weights.chunks_exact(4 * count));
        for (levels, (first, weights)) in levels.iter_mut().zip(fours) {
            let mut sums = [_mm512_setzero_si512(); 4];
            let pixels = first.iter().zip(weights.chunks_exact(count));
            for (sum, (&first, weights)) in sums.iter_mut().zip(pixels) {
                let samples = &line[first..][..RGB * EIGHT * (count - 1) + pairs::WINDOW];
                for (at, weights) in weights.iter().enumerate() {
                    let window = samples[RGB * EIGHT * at..].first_chunk::<{ pairs::WINDOW }>();
                    if let Some(&window) = window {
                        let eight = _mm512_permutexvar_epi8(shuffle, must_cast(window));
                        let weights = _mm512_broadcast_i32x4(must_cast(*weights));
                        *sum = _mm512_dpwssd_epi32(*sum, eight, weights);
                    }
                }
            }
            let [a, b, c, d] = sums;
            let both =
                |a, b| _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
            let (ab, cd) = (both(a, b), both(c, d));
            let all =
                _mm512_add_epi32(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd));
            let rounded = _mm512_add_epi32(all, _mm512_set1_epi32(HALF));
            *levels = _mm512_srai_epi32::<{ BITS as u32 }>(rounded);
        }
        let [a, b, c, d] = levels;
        let levels = _mm512_packus_epi16(_mm512_packs_epi32(a, b), _mm512_packs_epi32(c, d));
        *out = must_cast(_mm512_permutexvar_epi8(order, levels));
    }
}

/// [`portable`](super::ramps::portable), a register of 32 samples at a time.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) fn weigh_ramps(part: &Part<'_>, rising: &mut [Block], out: &mut [i16]) {
    let Weights { fall, rise, shifts } = part.segment.weights;
    // Two of a weight, which a load repeats as often as it takes.
    let twice = |weight| i32::from(weight as i16) << 16 | i32::from(weight);
    let weights = [fall, rise].map(|weights: [u16; 2]| weights.map(twice));
    let beyond = _mm512_set1_epi16(part.segment.beyond as i16);
    let [sum_by, ramp_by] = shifts.map(|shift| _mm_cvtsi32_si128(shift as i32));
    for (at, rising) in part.blocks().zip(rising) {
        let (mut sums, mut ramps) = ([_mm512_setzero_si512(); 4], [_mm512_setzero_si512(); 4]);
        for row in 0..part.segment.count {
            if let Some(&samples) = part.samples(row, at) {
                let samples: [__m256i; 4] = must_cast(samples);
                for ((sum, ramp), samples) in sums.iter_mut().zip(&mut ramps).zip(samples) {
                    *sum = _mm512_add_epi16(*sum, _mm512_cvtepu8_epi16(samples));
                    *ramp = _mm512_add_epi16(*ramp, *sum);
                }
            }
        }
        // They are read for each block: once the compiler widens them before the loop, it no longer sees that the upper half
        // of a product is one instruction.
        let [fall, rise] = black_box(&weights);
        let [fall_ramp, fall_sum] = [_mm512_set1_epi32(fall[0]), _mm512_set1_epi32(fall[1])];
        let [rise_sum, rise_ramp] = [_mm512_set1_epi32(rise[0]), _mm512_set1_epi32(rise[1])];
        let mut above: [__m512i; 4] = must_cast(rising.0);
        if let Some(out) = out[at..].first_chunk_mut() {
            let mut levels = [_mm512_setzero_si512(); 4];
            let blocks = levels
                .iter_mut()
                .zip(&mut above)
                .zip(sums.iter().zip(ramps));
            for ((level, rising), (&sum, ramp)) in blocks {
                let ramp = _mm512_add_epi16(ramp, _mm512_mullo_epi16(sum, beyond));
                let (sum, ramp) = (
                    _mm512_sll_epi16(sum, sum_by),
                    _mm512_sll_epi16(ramp, ramp_by),
                );
                let upper = |sums, weights| _mm512_mulhi_epu16(sums, weights);
                let falling = _mm512_sub_epi16(upper(ramp, fall_ramp), upper(sum, fall_sum));
                *level = _mm512_add_epi16(*rising, falling);
                *rising = _mm512_sub_epi16(upper(sum, rise_sum), upper(ramp, rise_ramp));
            }
            *out = must_cast::<_, [i16; ramps::BLOCK]>(levels);
        }
        rising.0 = must_cast(above);
    }
}
