//! Horizontal pass in f32: the taps of four pixels, times their weights, one tap after the other.
//!
//! # Method
//! A register has the three channels of four pixels, and an unused channel. For each tap it is multiplied by the four
//! pixels' weights and added. All windows are as wide as the widest one; the added taps have weight 0.
//!
//! # Error
//! Sums of `n` products in f32: at most `(n + 2) · 255 · 2⁻²⁴` levels, which is 0.001 levels for 64 taps.
//!
//! # CPU
//! The loops are plain Rust, compiled for several instruction sets; the best one that the CPU has is used. No feature
//! is needed.

use multiversion::multiversion;

use super::{Aligned, CHANNELS, Quad, coefficients::Coefficients};
use crate::resize::view::Axis;

/// The taps of the pixels of a row.
pub(super) struct FloatTaps {
    /// The first sample of each pixel's window. The last quad repeats that of the last pixel.
    first: Vec<[u32; 4]>,
    /// The weights of each quad's taps. The weight of a pixel is repeated for its channels.
    weights: Vec<Aligned<[f32; 16]>>,
    /// Taps per pixel.
    taps: usize,
}

impl FloatTaps {
    pub(super) fn new(axis: &Axis) -> Self {
        let pixels = axis.range.len();
        let windows = Coefficients::<f32>::new(axis);
        let taps = windows.max_taps().max(1);
        let quads = pixels.div_ceil(4);
        let mut first = Vec::with_capacity(4 * quads);
        let mut weights = vec![Aligned([0.0; 16]); quads * taps];
        for (pixel, (start, window)) in windows.iter().enumerate() {
            first.push((start * CHANNELS) as u32);
            let quad = &mut weights[pixel / 4 * taps..];
            for (weights, &weight) in quad.iter_mut().zip(window) {
                weights.0.as_chunks_mut::<4>().0[pixel % 4] = [weight; 4];
            }
        }
        first.resize(4 * quads, first.last().copied().unwrap_or_default());
        let first = first.as_chunks::<4>().0.to_vec();
        Self {
            first,
            weights,
            taps,
        }
    }

    /// Returns the number of samples after the end of a row that may be read.
    pub(super) fn overread(&self) -> usize {
        CHANNELS * self.taps + 1
    }

    /// Returns the number of quads of a row.
    pub(super) fn quads(&self) -> usize {
        self.first.len()
    }
}

/// Weighs the samples of a row. The compiler knows the usual numbers of taps, which halves the time.
#[multiversion(targets = "simd")]
pub(super) fn weigh(row: &[f32], taps: &FloatTaps, out: &mut [Quad]) {
    match taps.taps {
        1 => weigh_taps::<1>(row, taps, out),
        2 => weigh_taps::<2>(row, taps, out),
        3 => weigh_taps::<3>(row, taps, out),
        4 => weigh_taps::<4>(row, taps, out),
        5 => weigh_taps::<5>(row, taps, out),
        6 => weigh_taps::<6>(row, taps, out),
        7 => weigh_taps::<7>(row, taps, out),
        8 => weigh_taps::<8>(row, taps, out),
        _ => weigh_taps::<0>(row, taps, out),
    }
}

/// Weighs `TAPS` taps per pixel; 0 stands for any number.
#[inline(always)]
fn weigh_taps<const TAPS: usize>(row: &[f32], columns: &FloatTaps, out: &mut [Quad]) {
    let taps = if TAPS == 0 { columns.taps } else { TAPS };
    let weights = columns.weights.chunks_exact(taps);
    for ((out, first), weights) in out.iter_mut().zip(&columns.first).zip(weights) {
        // Four samples are one load. The fourth belongs to the next pixel and goes to the unused channel.
        // The pixels are written out, because `array::map` is sometimes compiled as a call without this function's
        // target features.
        let pixel = |first: u32| &row[first as usize..][..CHANNELS * taps + 1];
        let [a, b, c, d] = *first;
        let pixels = [pixel(a), pixel(b), pixel(c), pixel(d)];
        let mut sums = [0f32; 16];
        for tap in 0..taps {
            for (pixel, samples) in pixels.iter().enumerate() {
                for channel in 0..4 {
                    let at = 4 * pixel + channel;
                    sums[at] += samples[CHANNELS * tap + channel] * weights[tap].0[at];
                }
            }
        }
        *out = sums;
    }
}
