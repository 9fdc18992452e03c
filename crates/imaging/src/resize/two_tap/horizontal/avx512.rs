//! The AVX-512 form: one shuffle pairs the taps of four pixels, one multiplication weighs and adds them.

use std::arch::x86_64::*;

use bytemuck::must_cast;

use super::{Quad, TapPairs, WINDOW, load};
use crate::resize::two_tap::Block;

/// Computes the same as [`portable`](super::portable) for eight pixels at a time.
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
pub(in crate::resize::two_tap) fn interpolate(source: &[u8], taps: &TapPairs, out: &mut [Block]) {
    if taps.is_dense {
        interpolate_quads(taps, out, |offsets| {
            must_cast(load::<WINDOW>(source, offsets[0]))
        });
    } else {
        interpolate_quads(taps, out, |offsets| {
            let pixel = |offset| load::<8>(source, offset);
            let [a, b, c, d] = *offsets;
            let pixels = [pixel(a), pixel(b), pixel(c), pixel(d)];
            must_cast([pixels, [[0; 8]; 4]])
        });
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn interpolate_quads(taps: &TapPairs, out: &mut [Block], window: impl Fn(&[u32; 4]) -> __m512i) {
    let quads = taps.quads.as_chunks::<2>().0;
    let offsets = taps.offsets.as_chunks::<2>().0;
    let out = out.as_flattened_mut().as_chunks_mut::<32>().0;
    // Packing interleaves its two sources by two pixels each; this restores their order.
    let order = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
    for ((out, quads), offsets) in out.iter_mut().zip(quads).zip(offsets) {
        let sums = |quad: &Quad, offsets| {
            let shuffle = must_cast(quad.shuffle);
            // The mask clears every other byte: the upper halves of the 16-bit samples.
            let pairs =
                _mm512_maskz_permutexvar_epi8(0x5555_5555_5555_5555, shuffle, window(offsets));
            _mm512_srli_epi32::<4>(_mm512_madd_epi16(pairs, must_cast(quad.weights)))
        };
        let packed =
            _mm512_packus_epi32(sums(&quads[0], &offsets[0]), sums(&quads[1], &offsets[1]));
        *out = must_cast(_mm512_permutexvar_epi64(order, packed));
    }
}
