//! The AVX2 form: two shuffles pair the taps of four pixels.

use std::arch::x86_64::*;

use bytemuck::must_cast;

use super::{TapPairs, load};
use crate::resize::two_tap::Block;

/// Computes the same as [`portable`](super::portable) for four pixels at a time.
#[target_feature(enable = "avx2")]
pub(in crate::resize::two_tap) fn interpolate(source: &[u8], taps: &TapPairs, out: &mut [Block]) {
    const ZERO: i8 = -1;
    let (z, out) = (ZERO, out.as_flattened_mut().as_chunks_mut::<16>().0);
    let low = _mm256_broadcastsi128_si256(_mm_setr_epi8(
        0, z, 3, z, 1, z, 4, z, 2, z, 5, z, z, z, z, z,
    ));
    let high = _mm256_broadcastsi128_si256(_mm_setr_epi8(
        8, z, 11, z, 9, z, 12, z, 10, z, 13, z, z, z, z, z,
    ));
    for ((out, quad), offsets) in out.iter_mut().zip(&taps.quads).zip(&taps.offsets) {
        let pixel = |offset| i64::from_le_bytes(load(source, offset));
        let [a, b, c, d] = *offsets;
        let pixels = _mm256_set_epi64x(pixel(d), pixel(b), pixel(c), pixel(a));
        let [first, second]: [__m256i; 2] = must_cast(quad.weights);
        let sums = |shuffle, weights| {
            let pairs = _mm256_shuffle_epi8(pixels, shuffle);
            _mm256_srli_epi32::<4>(_mm256_madd_epi16(pairs, weights))
        };
        let packed = _mm256_packus_epi32(sums(low, first), sums(high, second));
        *out = must_cast(_mm256_permute4x64_epi64::<0b11_01_10_00>(packed));
    }
}
