//! The AVX-512 form: four registers of 32 samples at a time.

use std::{arch::x86_64::*, hint::black_box};

use bytemuck::must_cast;

use super::{BLOCK, Block, Factors, SegmentRows};

/// Runs [`weigh`](super::weigh).
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) fn weigh(rows: &SegmentRows<'_>, partial: &mut [Block], out: &mut [i16]) {
    let Factors {
        upper,
        lower,
        shifts,
    } = rows.segment.factors;
    // Each factor is stored twice in 32 bits, so that one load broadcasts it.
    let twice = |factor| i32::from(factor as i16) << 16 | i32::from(factor);
    let factors = [upper, lower].map(|factors: [u16; 2]| factors.map(twice));
    let missing = _mm512_set1_epi16(rows.segment.interval.missing as i16);
    let [sum_shift, ramp_shift] = shifts.map(|shift| _mm_cvtsi32_si128(shift as i32));
    for (column, partial) in rows.blocks().zip(partial) {
        let (mut sums, mut ramps) = ([_mm512_setzero_si512(); 4], [_mm512_setzero_si512(); 4]);
        for row in 0..rows.segment.interval.count {
            if let Some(&samples) = rows.samples(row, column) {
                let samples: [__m256i; 4] = must_cast(samples);
                for ((sum, ramp), samples) in sums.iter_mut().zip(&mut ramps).zip(samples) {
                    *sum = _mm512_add_epi16(*sum, _mm512_cvtepu8_epi16(samples));
                    *ramp = _mm512_add_epi16(*ramp, *sum);
                }
            }
        }
        // The factors are read for each block. When the compiler widens them before the loop, it no longer recognizes
        // that the upper half of a product is one instruction.
        let [upper, lower] = black_box(&factors);
        let [upper_ramp, upper_sum] = [_mm512_set1_epi32(upper[0]), _mm512_set1_epi32(upper[1])];
        let [lower_sum, lower_ramp] = [_mm512_set1_epi32(lower[0]), _mm512_set1_epi32(lower[1])];
        let mut begun: [__m512i; 4] = must_cast(partial.0);
        if let Some(out) = out[column..].first_chunk_mut() {
            let mut levels = [_mm512_setzero_si512(); 4];
            let blocks = levels
                .iter_mut()
                .zip(&mut begun)
                .zip(sums.iter().zip(ramps));
            for ((level, partial), (&sum, ramp)) in blocks {
                let ramp = _mm512_add_epi16(ramp, _mm512_mullo_epi16(sum, missing));
                let (sum, ramp) = (
                    _mm512_sll_epi16(sum, sum_shift),
                    _mm512_sll_epi16(ramp, ramp_shift),
                );
                let high = |sums, factors| _mm512_mulhi_epu16(sums, factors);
                let added = _mm512_sub_epi16(high(ramp, upper_ramp), high(sum, upper_sum));
                *level = _mm512_add_epi16(*partial, added);
                *partial = _mm512_sub_epi16(high(sum, lower_sum), high(ramp, lower_ramp));
            }
            *out = must_cast::<_, [i16; BLOCK]>(levels);
        }
        partial.0 = must_cast(begun);
    }
}
