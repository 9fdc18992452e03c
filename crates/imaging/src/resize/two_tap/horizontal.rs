//! Interpolation of a source row along x.
//!
//! # Method
//! A pixel and its right neighbor are six bytes side by side. A shuffle puts the two taps of each channel next to each
//! other as 16-bit numbers, and one instruction multiplies them by their weights and adds both products. The portable
//! form computes the same sums in 32-bit integers. All forms are exact.
//!
//! # CPU
//! * portable: no feature.
//! * AVX2: four pixels, loaded one by one.
//! * AVX-512 F, BW and VBMI: eight pixels; four of them come from one load of 64 bytes if they are that close.

#[cfg(target_arch = "x86_64")]
pub(crate) mod avx2;
#[cfg(target_arch = "x86_64")]
pub(crate) mod avx512;

use std::ops::Range;

use multiversion::{multiversion, target::match_target};

use super::{BLOCK, Block, RGB, Taps};

/// Bytes of one load for four pixels that lie close together.
const WINDOW: usize = 64;

/// The taps of four neighboring pixels, in the order in which a shuffle and a multiplication of pairs take them.
#[derive(Clone)]
#[repr(align(64))]
struct Quad {
    /// The offsets of each pixel's taps in the loaded bytes. Each takes two bytes, of which only the first counts:
    /// first and second red, first and second green, first and second blue, and two that have no weight.
    #[cfg_attr(
        not(target_arch = "x86_64"),
        expect(dead_code, reason = "only the AVX-512 form reads it")
    )]
    shuffle: [u8; 64],
    /// Their weights in the same order.
    weights: [[i16; 8]; 4],
}

/// The taps of the pixels of a row, in complete blocks. Pixels after the last one repeat its offset, with weight 0.
pub(super) struct TapPairs {
    /// The offset of each pixel's first tap in bytes; the second tap follows it.
    offsets: Vec<[u32; 4]>,
    quads: Vec<Quad>,
    /// Whether every quad fits one load of [`WINDOW`] bytes. Otherwise the eight bytes of each pixel are loaded.
    #[cfg_attr(
        not(target_arch = "x86_64"),
        expect(dead_code, reason = "only the AVX-512 form reads it")
    )]
    is_dense: bool,
}

impl TapPairs {
    pub(super) fn new(taps: impl Iterator<Item = Taps>) -> Self {
        let mut offsets = Vec::new();
        let mut weights = Vec::new();
        for taps in taps {
            offsets.push((taps.first * RGB) as u32);
            // A border sample that is both taps gets both weights; the sample after it gets none.
            let [first, second] = taps.weights.map(|weight| weight as i16);
            let [v, w] = if taps.first == taps.second {
                [first + second, 0]
            } else {
                [first, second]
            };
            weights.push([v, w, v, w, v, w, 0, 0]);
        }
        let padded = offsets.len().next_multiple_of(BLOCK);
        offsets.resize(padded, offsets.last().copied().unwrap_or_default());
        weights.resize(padded, [0; 8]);
        let offsets = offsets.as_chunks::<4>().0.to_vec();
        let is_dense = offsets
            .iter()
            .all(|[first, .., last]| (last - first) as usize + 2 * RGB <= WINDOW);
        let quads = offsets
            .iter()
            .zip(weights.as_chunks::<4>().0)
            .map(|(offsets, &weights)| Quad {
                shuffle: shuffle(offsets, is_dense),
                weights,
            })
            .collect();
        Self {
            offsets,
            quads,
            is_dense,
        }
    }

    /// Returns the bytes of a source row from the first tap of the first pixel to that of the last one.
    pub(super) fn span(&self) -> Range<usize> {
        let offsets = self.offsets.as_flattened();
        let [first, last] =
            [offsets.first(), offsets.last()].map(|at| at.map_or(0, |at| *at as usize));
        first..last + RGB
    }
}

/// Returns the offsets of the taps of four pixels in the loaded bytes.
fn shuffle(offsets: &[u32; 4], is_dense: bool) -> [u8; 64] {
    /// The taps of one pixel, from its first byte on; each is followed by a byte that does not count.
    const TAPS: [u8; 16] = [0, 0, 3, 0, 1, 0, 4, 0, 2, 0, 5, 0, 0, 0, 0, 0];
    let mut shuffle = [TAPS; 4];
    for (at, (shuffle, offset)) in shuffle.iter_mut().zip(offsets).enumerate() {
        let start = if is_dense {
            (offset - offsets[0]) as u8
        } else {
            8 * at as u8
        };
        *shuffle = shuffle.map(|tap| start + tap);
    }
    std::array::from_fn(|i| shuffle[i / 16][i % 16])
}

/// Interpolates the row that `source` starts with along x.
#[multiversion(targets = "simd")]
pub(super) fn interpolate(source: &[u8], taps: &TapPairs, out: &mut [Block]) {
    match_target! {
        "x86_64+avx512f+avx512bw+avx512vbmi" => avx512::interpolate(source, taps, out),
        "x86_64+avx2" => avx2::interpolate(source, taps, out),
        _ => portable(source, taps, out),
    }
}

/// Runs [`interpolate`] on any CPU.
#[inline(always)]
pub(super) fn portable(source: &[u8], taps: &TapPairs, out: &mut [Block]) {
    let offsets = taps.offsets.as_chunks::<{ BLOCK / 4 }>().0;
    let quads = taps.quads.as_chunks::<{ BLOCK / 4 }>().0;
    for ((out, offsets), quads) in out.iter_mut().zip(offsets).zip(quads) {
        let mut samples = [[[0u8; 4]; BLOCK]; 2];
        let [first, second] = &mut samples;
        for ((first, second), &offset) in first.iter_mut().zip(second).zip(offsets.as_flattened()) {
            let both = u64::from_le_bytes(load(source, offset));
            *first = (both as u32).to_le_bytes();
            *second = ((both >> 24) as u32).to_le_bytes();
        }
        let [first, second] = samples.each_ref().map(|samples| samples.as_flattened());
        let weights = quads
            .iter()
            .flat_map(|quad| quad.weights.as_flattened().as_chunks::<2>().0);
        for ((out, (&a, &b)), &[v, w]) in out.iter_mut().zip(first.iter().zip(second)).zip(weights)
        {
            let sum = i32::from(a) * i32::from(v) + i32::from(b) * i32::from(w);
            *out = (sum >> 4) as u16;
        }
    }
}

/// Returns the bytes from `offset` on, followed by zeros where the image ends.
#[inline(always)]
fn load<const LEN: usize>(source: &[u8], offset: u32) -> [u8; LEN] {
    let rest = source.get(offset as usize..).unwrap_or_default();
    rest.first_chunk().copied().unwrap_or_else(|| pad(rest))
}

#[cold]
fn pad<const LEN: usize>(rest: &[u8]) -> [u8; LEN] {
    std::array::from_fn(|i| rest.get(i).copied().unwrap_or_default())
}
