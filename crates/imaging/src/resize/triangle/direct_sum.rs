//! Vertical pass by direct summation: every row of the window times its weight.
//!
//! # Method
//! A row of the result is `Σ wₖ·rowₖ` over the rows of its window, sample by sample. A row is read once for each window
//! that contains it, which is twice when the image shrinks.
//!
//! # Error
//! With fixed-point weights (`i16`) the sums are exact 32-bit integers, so the only error is that of the weights: at
//! most 0.0078 levels per tap (see [`Weight`]). With f32 weights it is at most `(n + 2) · 255 · 2⁻²⁴` levels for `n`
//! taps; measured on noise, it is below 0.001 levels for 9000 taps.
//!
//! # CPU
//! The loops are plain Rust, compiled for several instruction sets; the best one that the CPU has is used. No feature
//! is needed.

use std::ops::AddAssign;

use multiversion::multiversion;

use super::coefficients::{Coefficients, ONE, Weight};
use crate::{prefetch::prefetch, resize::view::Axis};

/// The number of samples that are summed at a time. Their sums fit into registers.
const BLOCK: usize = 64;

/// The rows of an image and the windows over them, from the top.
pub(super) struct DirectSum<'a, W> {
    source: &'a [u8],
    stride: usize,
    /// The first row and the number of rows of each window that is left.
    spans: std::vec::IntoIter<(usize, usize)>,
    /// The weights of all windows.
    weights: Vec<W>,
    /// The number of weights that belong to completed windows.
    used: usize,
}

impl<'a, W: Weight> DirectSum<'a, W> {
    /// Creates the windows along `axis` over an image with `stride` samples per row.
    pub(super) fn new(source: &'a [u8], stride: usize, axis: &Axis) -> Self {
        let Coefficients { spans, weights } = Coefficients::new(axis);
        Self {
            source,
            stride,
            spans: spans.into_iter(),
            weights,
            used: 0,
        }
    }

    /// Returns the next window, or `None` after the last one.
    pub(super) fn next(&mut self) -> Option<RowWindow<'_, W>> {
        let (first, count) = self.spans.next()?;
        let start = self.used;
        self.used += count;
        let end = (first + count) * self.stride;
        let next = self.spans.as_slice().first();
        let next_end = next.map_or(end, |(first, count)| (first + count) * self.stride);
        Some(RowWindow {
            rows: self.source.get(first * self.stride..)?,
            upcoming: self.source.get(end..next_end).unwrap_or_default(),
            stride: self.stride,
            weights: self.weights.get(start..self.used)?,
        })
    }
}

/// The rows of one window.
pub(super) struct RowWindow<'a, W> {
    /// The samples from the first row on; rows after the window may follow.
    rows: &'a [u8],
    /// The samples that the next window reads and this one does not.
    upcoming: &'a [u8],
    stride: usize,
    weights: &'a [W],
}

/// Sums a window with fixed-point weights into levels.
#[multiversion(targets = "simd")]
pub(super) fn sum_fixed(window: &RowWindow<'_, i16>, out: &mut [f32]) {
    const UNIT: f32 = 1.0 / ONE as f32;
    let product = |sample, weight| i32::from(sample) * i32::from(weight);
    dispatch(window, product, |sum| sum as f32 * UNIT, out);
}

/// Sums a window with f32 weights into levels.
#[multiversion(targets = "simd")]
pub(super) fn sum_float(window: &RowWindow<'_, f32>, out: &mut [f32]) {
    let product = |sample, weight| f32::from(sample) * weight;
    dispatch(window, product, |sum| sum, out);
}

/// Makes the usual numbers of rows known to the compiler, so that their weights stay in registers.
#[inline(always)]
fn dispatch<W: Copy, S: Copy + Default + AddAssign>(
    window: &RowWindow<'_, W>,
    product: impl Fn(u8, W) -> S,
    level: impl Fn(S) -> f32,
    out: &mut [f32],
) {
    match window.weights.len() {
        2 => sum::<2, _, _>(window, product, level, out),
        3 => sum::<3, _, _>(window, product, level, out),
        4 => sum::<4, _, _>(window, product, level, out),
        5 => sum::<5, _, _>(window, product, level, out),
        6 => sum::<6, _, _>(window, product, level, out),
        _ => sum::<0, _, _>(window, product, level, out),
    }
}

/// Sums `ROWS` rows; 0 stands for any number.
#[inline(always)]
fn sum<const ROWS: usize, W: Copy, S: Copy + Default + AddAssign>(
    window: &RowWindow<'_, W>,
    product: impl Fn(u8, W) -> S,
    level: impl Fn(S) -> f32,
    out: &mut [f32],
) {
    prefetch(window.upcoming);
    let stride = window.stride;
    let count = if ROWS == 0 {
        window.weights.len()
    } else {
        ROWS
    };
    let (source, weights) = (&window.rows[..count * stride], &window.weights[..count]);
    let (blocks, rest) = out[..stride].as_chunks_mut::<BLOCK>();
    for (at, out) in blocks.iter_mut().enumerate() {
        let mut sums = [S::default(); BLOCK];
        for (row, &weight) in weights.iter().enumerate() {
            if let Some(samples) = source[row * stride + at * BLOCK..].first_chunk::<BLOCK>() {
                for (sum, &sample) in sums.iter_mut().zip(samples) {
                    *sum += product(sample, weight);
                }
            }
        }
        for (out, sum) in out.iter_mut().zip(sums) {
            *out = level(sum);
        }
    }
    let at = stride - rest.len();
    for (x, out) in rest.iter_mut().enumerate() {
        let mut sum = S::default();
        for (row, &weight) in source.chunks_exact(stride).zip(weights) {
            sum += product(row[at + x], weight);
        }
        *out = level(sum);
    }
}
