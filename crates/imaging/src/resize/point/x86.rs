//! The kernels for processors with AVX2, and for those with AVX-512 and its byte shuffles.

use std::{arch::x86_64::*, hint::black_box};

use bytemuck::must_cast;

use super::{
    BLOCK, Block, Pixel, Weights,
    columns::{Columns, Quad, WINDOW, bytes},
};

/// [`mix`](super::mix) in two registers a row.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(crate) fn mix_512([upper, lower]: [&Block; 2], weights: &Weights) -> [Pixel; BLOCK] {
    let [upper, lower]: [[__m512i; 2]; 2] = [must_cast(*upper), must_cast(*lower)];
    // The weights are read for each block: once the compiler widens them before the loop, it no longer sees that
    // the upper half of a product is one instruction.
    let [above, below]: [__m512i; 2] = must_cast(black_box(weights).0);
    let level = |at: usize| {
        let sum = _mm512_add_epi16(
            _mm512_mulhi_epu16(above, upper[at]),
            _mm512_mulhi_epu16(below, lower[at]),
        );
        _mm512_srli_epi16::<2>(_mm512_add_epi16(sum, _mm512_set1_epi16(2)))
    };
    // Packing takes turns between its sources, two pixels each.
    let order = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
    must_cast(_mm512_permutexvar_epi64(
        order,
        _mm512_packus_epi16(level(0), level(1)),
    ))
}

/// [`mix`](super::mix) in four registers a row.
#[inline]
#[target_feature(enable = "avx2")]
pub(crate) fn mix_256([upper, lower]: [&Block; 2], weights: &Weights) -> [Pixel; BLOCK] {
    let [upper, lower]: [[__m256i; 4]; 2] = [must_cast(*upper), must_cast(*lower)];
    // As above.
    let [above, _, below, _]: [__m256i; 4] = must_cast(black_box(weights).0);
    let level = |at: usize| {
        let sum = _mm256_add_epi16(
            _mm256_mulhi_epu16(above, upper[at]),
            _mm256_mulhi_epu16(below, lower[at]),
        );
        _mm256_srli_epi16::<2>(_mm256_add_epi16(sum, _mm256_set1_epi16(2)))
    };
    let pixels = |first, second| {
        let packed = _mm256_packus_epi16(level(first), level(second));
        _mm256_permute4x64_epi64::<0b11_01_10_00>(packed)
    };
    must_cast([pixels(0, 1), pixels(2, 3)])
}

/// One shuffle puts the samples of four pixels in pairs, one multiplication weighs and adds them.
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
pub(super) fn sample_512(source: &[u8], columns: &Columns, out: &mut [Block]) {
    if columns.near {
        quads_512(columns, out, |offsets| {
            must_cast(bytes::<WINDOW>(source, offsets[0]))
        });
    } else {
        quads_512(columns, out, |offsets| {
            let pixel = |offset| bytes::<8>(source, offset);
            let [a, b, c, d] = *offsets;
            let pixels = [pixel(a), pixel(b), pixel(c), pixel(d)];
            must_cast([pixels, [[0; 8]; 4]])
        });
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn quads_512(columns: &Columns, out: &mut [Block], window: impl Fn(&[u32; 4]) -> __m512i) {
    let quads = columns.quads.as_chunks::<2>().0;
    let offsets = columns.offsets.as_chunks::<2>().0;
    let out = out.as_flattened_mut().as_chunks_mut::<32>().0;
    // Packing takes turns between its sources, two pixels each.
    let order = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
    for ((out, quads), offsets) in out.iter_mut().zip(quads).zip(offsets) {
        let sums = |quad: &Quad, offsets| {
            let index = must_cast(quad.index);
            // Every other byte is zero: the samples' upper halves.
            let pairs =
                _mm512_maskz_permutexvar_epi8(0x5555_5555_5555_5555, index, window(offsets));
            _mm512_srli_epi32::<4>(_mm512_madd_epi16(pairs, must_cast(quad.weights)))
        };
        let packed =
            _mm512_packus_epi32(sums(&quads[0], &offsets[0]), sums(&quads[1], &offsets[1]));
        *out = must_cast(_mm512_permutexvar_epi64(order, packed));
    }
}

/// Two shuffles put the samples of four pixels in pairs.
#[target_feature(enable = "avx2")]
pub(super) fn sample_256(source: &[u8], columns: &Columns, out: &mut [Block]) {
    const ZERO: i8 = -1;
    let (z, out) = (ZERO, out.as_flattened_mut().as_chunks_mut::<16>().0);
    let low = _mm256_broadcastsi128_si256(_mm_setr_epi8(
        0, z, 3, z, 1, z, 4, z, 2, z, 5, z, z, z, z, z,
    ));
    let high = _mm256_broadcastsi128_si256(_mm_setr_epi8(
        8, z, 11, z, 9, z, 12, z, 10, z, 13, z, z, z, z, z,
    ));
    for ((out, quad), offsets) in out.iter_mut().zip(&columns.quads).zip(&columns.offsets) {
        let pixel = |offset| i64::from_le_bytes(bytes(source, offset));
        let [a, b, c, d] = *offsets;
        let pixels = _mm256_set_epi64x(pixel(d), pixel(b), pixel(c), pixel(a));
        let [first, second]: [__m256i; 2] = must_cast(quad.weights);
        let sums = |order, weights| {
            let pairs = _mm256_shuffle_epi8(pixels, order);
            _mm256_srli_epi32::<4>(_mm256_madd_epi16(pairs, weights))
        };
        let packed = _mm256_packus_epi32(sums(low, first), sums(high, second));
        *out = must_cast(_mm256_permute4x64_epi64::<0b11_01_10_00>(packed));
    }
}
