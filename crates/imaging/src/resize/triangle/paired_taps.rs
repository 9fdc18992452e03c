//! Horizontal pass in fixed point, two taps at a time: for windows that lie close together.
//!
//! # Method
//! A register has the three channels of four pixels, and an unused channel, as sixteen pairs of 16-bit samples: two
//! neighboring taps. One instruction multiplies each pair by its two weights and adds both products to a 32-bit sum.
//! The first pair of four pixels must lie within 32 samples, so that one shuffle gathers it.
//!
//! # Error
//! Levels have 6 fractional bits and weights 14, so products and sums are exact. The error before rounding is that of
//! the weights: at most 0.0078 levels per tap (see [`Weight`](super::coefficients::Weight)).
//!
//! # CPU
//! The portable form needs no feature, but the float kernels are faster without the instructions that the AVX-512 form
//! uses (AVX-512 F, BW, VBMI for the byte shuffle and VNNI for the product). Both forms return the same bits.

#[cfg(target_arch = "x86_64")]
pub(super) mod avx512;

use multiversion::{multiversion, target::match_target};

use super::{
    Aligned, BLOCK, CHANNELS,
    coefficients::{Coefficients, WEIGHT_BITS},
    prefix_sum::LEVEL_BITS,
};
use crate::resize::Pixel;

/// Samples that a register holds.
pub(super) const WINDOW: usize = 32;

/// Fractional bits of a level times a weight.
pub(super) const PRODUCT_BITS: i32 = (LEVEL_BITS + WEIGHT_BITS) as i32;

/// Half of a level: added before the fractional bits are dropped, it rounds to the nearest level.
pub(super) const HALF: i32 = 1 << (PRODUCT_BITS - 1);

/// The position of the first pair of taps of four pixels.
#[derive(Clone, Copy)]
struct Gather {
    /// The first sample of the first pixel's window.
    first: usize,
    /// The byte offsets of the first two taps, counted from `first`, for each channel of each pixel.
    shuffle: Aligned<[u8; 2 * WINDOW]>,
}

/// The taps of the pixels of a row.
pub(super) struct PairedTaps {
    /// The positions of the four quads of each block of pixels.
    gathers: Vec<[Gather; 4]>,
    /// The weights of each quad's pairs. The weights of a pixel are repeated for its channels.
    weights: Vec<Aligned<[i16; WINDOW]>>,
    /// Pairs of taps per pixel.
    pairs: usize,
}

impl PairedTaps {
    /// Returns `None` if there are no pixels or if the first two taps of four pixels do not fit a register.
    pub(super) fn new(windows: &Coefficients<i16>) -> Option<Self> {
        let pairs = windows.max_taps().div_ceil(2);
        let mut pixels: Vec<_> = windows.iter().collect();
        // The last pixel is repeated up to the end of its block.
        let last = *pixels.last()?;
        pixels.resize(pixels.len().next_multiple_of(BLOCK), last);
        let mut weights = Vec::with_capacity(pixels.len() / 4 * pairs);
        let mut gathers = Vec::with_capacity(pixels.len() / 4);
        for quad in pixels.as_chunks::<4>().0 {
            gathers.push(Gather::new(quad.map(|(first, _)| CHANNELS * first))?);
            let first = weights.len();
            weights.resize(first + pairs, Aligned([0; WINDOW]));
            for (pixel, (_, window)) in quad.iter().enumerate() {
                for (taps, register) in window.chunks(2).zip(&mut weights[first..]) {
                    let both = [taps[0], taps.get(1).copied().unwrap_or(0)];
                    register.0.as_chunks_mut::<2>().0[4 * pixel..][..4].fill(both);
                }
            }
        }
        let gathers = gathers.as_chunks().0.to_vec();
        Some(Self {
            gathers,
            weights,
            pairs,
        })
    }

    /// Returns the number of samples after the end of a row that may be read.
    pub(super) fn overread(&self) -> usize {
        2 * CHANNELS * self.pairs + WINDOW
    }
}

impl Gather {
    /// Creates the gather from the first sample of each pixel's window. Returns `None` if the taps do not fit a
    /// register.
    fn new(pixels: [usize; 4]) -> Option<Self> {
        let first = pixels[0];
        let mut shuffle = [0; 2 * WINDOW];
        for (at, bytes) in shuffle.as_chunks_mut::<4>().0.iter_mut().enumerate() {
            // The unused channel repeats the third.
            let sample = pixels[at / 4] - first + (at % 4).min(CHANNELS - 1);
            if sample + CHANNELS >= WINDOW {
                return None;
            }
            let [one, other] = [2 * sample as u8, 2 * (sample + CHANNELS) as u8];
            *bytes = [one, one + 1, other, other + 1];
        }
        Some(Self {
            first,
            shuffle: Aligned(shuffle),
        })
    }
}

/// Weighs the samples of a row, in levels of [`LEVEL_BITS`] fractional bits, and rounds to the nearest level.
#[multiversion(targets = "simd")]
pub(super) fn weigh(row: &[i16], taps: &PairedTaps, out: &mut [[Pixel; BLOCK]]) {
    match_target! {
        "x86_64+avx512f+avx512bw+avx512vbmi+avx512vnni" => avx512::weigh(row, taps, out),
        _ => portable(row, taps, out),
    }
}

/// Runs [`weigh`] on any CPU.
#[inline(always)]
pub(super) fn portable(row: &[i16], taps: &PairedTaps, out: &mut [[Pixel; BLOCK]]) {
    let weights = taps.weights.chunks_exact(4 * taps.pairs);
    for ((out, gathers), weights) in out.iter_mut().zip(&taps.gathers).zip(weights) {
        let quads = out.as_chunks_mut::<4>().0.iter_mut().zip(gathers);
        for ((out, gather), weights) in quads.zip(weights.chunks_exact(taps.pairs)) {
            for (at, out) in out.as_flattened_mut().iter_mut().enumerate() {
                let mut sum = HALF;
                for (pair, weights) in weights.iter().enumerate() {
                    for tap in [0, 1] {
                        let sample = usize::from(gather.shuffle.0[4 * at + 2 * tap]) / 2;
                        let sample = row[gather.first + 2 * CHANNELS * pair + sample];
                        sum += i32::from(sample) * i32::from(weights.0[2 * at + tap]);
                    }
                }
                *out = (sum >> PRODUCT_BITS) as u8;
            }
        }
    }
}
