//! Weighing the rows that a line is made of, which lie below each other.

use std::ops::AddAssign;

use multiversion::multiversion;

/// Weights in whole numbers have 14 fractional bits, so that a weight of 1 fits 16 with its sign.
const ONE: f64 = 16384.0;

/// Samples that are summed at a time, few enough for registers.
const BLOCK: usize = 64;

/// A row's weight, and with it how exact the levels are.
pub(in crate::imaging) trait Weight: Copy {
    /// Whether levels are rounded to whole ones in the end.
    const WHOLE: bool;

    /// Adds those of a window, which add up to 1.
    fn add(window: &[f64], weights: &mut Vec<Self>);

    /// Weighs the rows that `source` begins with, each of `stride` samples, into levels.
    fn down(source: &[u8], stride: usize, weights: &[Self], out: &mut [f32]);
}

/// Fast, and within a tenth of a level: for levels that are rounded.
impl Weight for i16 {
    const WHOLE: bool = true;

    /// They add up to [`ONE`] to the last bit.
    fn add(window: &[f64], weights: &mut Vec<Self>) {
        let (mut ideal, mut given) = (0.0, 0.0);
        weights.extend(window.iter().map(|weight| {
            ideal += weight * ONE;
            let part = (ideal - given).round();
            given += part;
            part as Self
        }));
    }

    fn down(source: &[u8], stride: usize, weights: &[Self], out: &mut [f32]) {
        down_fixed(source, stride, weights, out);
    }
}

/// Within a thousandth of a level, for levels that stay as they are.
impl Weight for f32 {
    const WHOLE: bool = false;

    fn add(window: &[f64], weights: &mut Vec<Self>) {
        weights.extend(window.iter().map(|weight| *weight as Self));
    }

    fn down(source: &[u8], stride: usize, weights: &[Self], out: &mut [f32]) {
        down_exact(source, stride, weights, out);
    }
}

#[multiversion(targets = "simd")]
fn down_fixed(source: &[u8], stride: usize, weights: &[i16], out: &mut [f32]) {
    const UNIT: f32 = 1.0 / ONE as f32;
    weigh(
        &Rows {
            source,
            stride,
            weights,
        },
        |sample, weight| i32::from(sample) * i32::from(weight),
        |sum| sum as f32 * UNIT,
        out,
    );
}

#[multiversion(targets = "simd")]
fn down_exact(source: &[u8], stride: usize, weights: &[f32], out: &mut [f32]) {
    weigh(
        &Rows {
            source,
            stride,
            weights,
        },
        |sample, weight| f32::from(sample) * weight,
        |sum| sum,
        out,
    );
}

/// Rows of `stride` samples that `source` begins with, and their weights.
struct Rows<'a, W> {
    source: &'a [u8],
    stride: usize,
    weights: &'a [W],
}

/// The usual numbers of rows are known when compiling, so that their weights stay in registers.
#[inline(always)]
fn weigh<W: Copy, S: Copy + Default + AddAssign>(
    rows: &Rows<'_, W>,
    part: impl Fn(u8, W) -> S,
    level: impl Fn(S) -> f32,
    out: &mut [f32],
) {
    match rows.weights.len() {
        2 => sum::<2, _, _>(rows, part, level, out),
        3 => sum::<3, _, _>(rows, part, level, out),
        4 => sum::<4, _, _>(rows, part, level, out),
        5 => sum::<5, _, _>(rows, part, level, out),
        6 => sum::<6, _, _>(rows, part, level, out),
        _ => sum::<0, _, _>(rows, part, level, out),
    }
}

#[inline(always)]
fn sum<const ROWS: usize, W: Copy, S: Copy + Default + AddAssign>(
    rows: &Rows<'_, W>,
    part: impl Fn(u8, W) -> S,
    level: impl Fn(S) -> f32,
    out: &mut [f32],
) {
    let stride = rows.stride;
    let count = if ROWS == 0 { rows.weights.len() } else { ROWS };
    let (source, weights) = (&rows.source[..count * stride], &rows.weights[..count]);
    let (blocks, rest) = out[..stride].as_chunks_mut::<BLOCK>();
    for (at, out) in blocks.iter_mut().enumerate() {
        let mut sums = [S::default(); BLOCK];
        for (row, &weight) in weights.iter().enumerate() {
            if let Some(samples) = source[row * stride + at * BLOCK..].first_chunk::<BLOCK>() {
                for (sum, &sample) in sums.iter_mut().zip(samples) {
                    *sum += part(sample, weight);
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
            sum += part(row[at + x], weight);
        }
        *out = level(sum);
    }
}
