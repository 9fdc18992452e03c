//! Horizontal pass in fixed point, eight taps of one pixel at a time.
//!
//! # Method
//! Each pixel is the dot product of its window and its weights. A register has eight neighboring source pixels, sorted
//! by channel. One instruction multiplies them by their eight weights and adds neighbors, which leaves four partial
//! sums per channel. The partial sums of four pixels are then added together.
//!
//! # Error
//! Levels have 6 fractional bits and weights 14, so products and sums are exact. The error before rounding is that of
//! the weights: at most 0.0078 levels per tap (see [`Weight`](super::coefficients::Weight)). With the maximum of 40 taps,
//! that is 0.31 levels.
//!
//! # CPU
//! AVX-512 F, BW, VBMI and VNNI. The float kernels are faster without these.

mod avx512;

use multiversion::{multiversion, target::match_target};

use super::{
    BLOCK, CHANNELS,
    coefficients::{Coefficients, WEIGHT_BITS},
    not_chosen,
    prefix_sum::LEVEL_BITS,
};
use crate::resize::{Pixel, view::Axis};

/// Samples in a register.
const WINDOW: usize = 32;

/// Fractional bits of a level times a weight.
const PRODUCT_BITS: i32 = (LEVEL_BITS + WEIGHT_BITS) as i32;

/// Half of a level: added before the fractional bits are dropped, it rounds to the nearest level.
const HALF: i32 = 1 << (PRODUCT_BITS - 1);

/// Source pixels in a register.
const LANES: usize = 8;

/// The maximum number of taps of a pixel. With more, 16-bit weights would be off by more than a third of a level.
const MAX_TAPS: usize = 40;

/// The windows of the pixels of a row.
pub(super) struct DotProduct {
    /// The first sample of each pixel's window, by block.
    first: Vec<[usize; BLOCK]>,
    /// The weights of each pixel's first eight taps, of the next eight, and so on.
    weights: Vec<[i16; LANES]>,
    /// Groups of eight taps per pixel.
    groups: usize,
}

/// The byte offsets that sort eight source pixels by channel. The unused channel repeats the third.
const SHUFFLE: [u8; 2 * WINDOW] = {
    let mut shuffle = [0; 2 * WINDOW];
    let mut at = 0;
    while at < WINDOW {
        let (channel, pixel) = (at / LANES, at % LANES);
        let channel = if channel < CHANNELS {
            channel
        } else {
            CHANNELS - 1
        };
        let sample = CHANNELS * pixel + channel;
        shuffle[2 * at] = 2 * sample as u8;
        shuffle[2 * at + 1] = 2 * sample as u8 + 1;
        at += 1;
    }
    shuffle
};

impl DotProduct {
    /// Returns `None` if there are no pixels or if windows have more than [`MAX_TAPS`].
    pub(super) fn new(axis: &Axis) -> Option<Self> {
        let windows = Coefficients::<i16>::new(axis);
        let most = windows.max_taps();
        if !(1..=MAX_TAPS).contains(&most) {
            return None;
        }
        let groups = most.div_ceil(LANES);
        // Pixels after the last one have the row's first sample with weight 0.
        let blocks = windows.spans.len().div_ceil(BLOCK);
        let mut first = vec![[0; BLOCK]; blocks];
        let mut weights = vec![[0; LANES]; blocks * BLOCK * groups];
        let pixels = first
            .as_flattened_mut()
            .iter_mut()
            .zip(weights.chunks_exact_mut(groups));
        for ((first, weights), (start, window)) in pixels.zip(windows.iter()) {
            *first = CHANNELS * start;
            weights.as_flattened_mut()[..window.len()].copy_from_slice(window);
        }
        Some(Self {
            first,
            weights,
            groups,
        })
    }

    /// Returns the number of samples after the end of a row that may be read.
    pub(super) fn overread(&self) -> usize {
        CHANNELS * LANES * self.groups + WINDOW
    }
}

/// Weighs the samples of a row, in levels of [`LEVEL_BITS`] fractional bits, and rounds to the nearest level.
#[multiversion(targets = "simd")]
pub(super) fn weigh(row: &[i16], windows: &DotProduct, out: &mut [[Pixel; BLOCK]]) {
    match_target! {
        "x86_64+avx512f+avx512bw+avx512vbmi+avx512vnni" => avx512::weigh(row, windows, out),
        _ => not_chosen((row, windows, out)),
    }
}
