//! Weighing the rows that a line is made of, which lie below each other.

use std::ops::AddAssign;

use multiversion::multiversion;

use super::windows::ONE;
use crate::cache;

/// Samples that are summed at a time, few enough for registers.
const BLOCK: usize = 64;

/// Rows of `stride` samples that `source` begins with, and their weights.
pub(super) struct Stack<'a, W> {
    pub(super) source: &'a [u8],
    /// What the next line is made of besides.
    pub(super) ahead: &'a [u8],
    pub(super) stride: usize,
    pub(super) weights: &'a [W],
}

/// Weighs rows into levels.
#[multiversion(targets = "simd")]
pub(super) fn down(stack: &Stack<'_, i16>, out: &mut [f32]) {
    const UNIT: f32 = 1.0 / ONE as f32;
    let part = |sample, weight| i32::from(sample) * i32::from(weight);
    weigh(stack, part, |sum| sum as f32 * UNIT, out);
}

/// Weighs rows into levels within a thousandth.
#[multiversion(targets = "simd")]
pub(super) fn down_exact(stack: &Stack<'_, f32>, out: &mut [f32]) {
    let part = |sample, weight| f32::from(sample) * weight;
    weigh(stack, part, |sum| sum, out);
}

/// The usual numbers of rows are known when compiling, so that their weights stay in registers.
#[inline(always)]
fn weigh<W: Copy, S: Copy + Default + AddAssign>(
    stack: &Stack<'_, W>,
    part: impl Fn(u8, W) -> S,
    level: impl Fn(S) -> f32,
    out: &mut [f32],
) {
    match stack.weights.len() {
        2 => sum::<2, _, _>(stack, part, level, out),
        3 => sum::<3, _, _>(stack, part, level, out),
        4 => sum::<4, _, _>(stack, part, level, out),
        5 => sum::<5, _, _>(stack, part, level, out),
        6 => sum::<6, _, _>(stack, part, level, out),
        _ => sum::<0, _, _>(stack, part, level, out),
    }
}

#[inline(always)]
fn sum<const ROWS: usize, W: Copy, S: Copy + Default + AddAssign>(
    stack: &Stack<'_, W>,
    part: impl Fn(u8, W) -> S,
    level: impl Fn(S) -> f32,
    out: &mut [f32],
) {
    cache::fetch(stack.ahead);
    let stride = stack.stride;
    let count = if ROWS == 0 { stack.weights.len() } else { ROWS };
    let (source, weights) = (&stack.source[..count * stride], &stack.weights[..count]);
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
