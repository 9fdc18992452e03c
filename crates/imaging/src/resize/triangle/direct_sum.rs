//! Vertical pass by direct summation: every row of the window times its weight.
//!
//! # Method
//! A row of the result is `Σ wₖ·rowₖ` over the rows of its window, sample by sample. A row is read once for each window
//! that contains it, which is twice when the image shrinks.
//!
//! # Error
//! At most `(n + 2) · 255 · 2⁻²⁴` levels for `n` taps; measured on noise, it is below 0.001 levels for 9000 taps.
//!
//! # CPU
//! The loops are plain Rust, compiled for several instruction sets; the best one that the CPU has is used. No feature
//! is needed.

use multiversion::multiversion;

use super::coefficients::Coefficients;
use crate::{prefetch::prefetch, resize::view::Axis};

/// The number of samples that are summed at a time. Their sums fit into registers.
const BLOCK: usize = 64;

/// The rows of an image and the windows over them, from the top.
pub(super) struct DirectSum<'a> {
    source: &'a [u8],
    stride: usize,
    /// The first row and the number of rows of each window that is left.
    spans: std::vec::IntoIter<(usize, usize)>,
    /// The weights of all windows.
    weights: Vec<f32>,
    /// The number of weights that belong to completed windows.
    used: usize,
}

impl<'a> DirectSum<'a> {
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
    pub(super) fn next(&mut self) -> Option<RowWindow<'_>> {
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
pub(super) struct RowWindow<'a> {
    /// The samples from the first row on; rows after the window may follow.
    rows: &'a [u8],
    /// The samples that the next window reads and this one does not.
    upcoming: &'a [u8],
    stride: usize,
    weights: &'a [f32],
}

/// Sums a window into levels. The compiler knows the usual numbers of rows, so that their weights stay in registers.
#[multiversion(targets = "simd")]
pub(super) fn sum(window: &RowWindow<'_>, out: &mut [f32]) {
    match window.weights.len() {
        2 => sum_rows::<2>(window, out),
        3 => sum_rows::<3>(window, out),
        4 => sum_rows::<4>(window, out),
        5 => sum_rows::<5>(window, out),
        6 => sum_rows::<6>(window, out),
        _ => sum_rows::<0>(window, out),
    }
}

/// Sums `ROWS` rows; 0 stands for any number.
#[inline(always)]
fn sum_rows<const ROWS: usize>(window: &RowWindow<'_>, out: &mut [f32]) {
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
        let mut sums = [0.0; BLOCK];
        for (row, &weight) in weights.iter().enumerate() {
            if let Some(samples) = source[row * stride + at * BLOCK..].first_chunk::<BLOCK>() {
                for (sum, &sample) in sums.iter_mut().zip(samples) {
                    *sum += f32::from(sample) * weight;
                }
            }
        }
        *out = sums;
    }
    let at = stride - rest.len();
    for (x, out) in rest.iter_mut().enumerate() {
        let rows = source.chunks_exact(stride).zip(weights);
        *out = rows
            .map(|(row, weight)| f32::from(row[at + x]) * weight)
            .sum();
    }
}
