//! Weighing the rows that a line is made of, which lie below each other.

use std::{hint::black_box, ops::AddAssign};

use multiversion::{multiversion, target::match_target};

/// Fractional bits of weights in whole numbers, so that a weight of 1 fits 16 bits with its sign.
pub(super) const WEIGHT_BITS: u32 = 14;
const ONE: f64 = (1 << WEIGHT_BITS) as f64;

/// Less than 2¹⁶ by as little as can be, so that a weight of 1 fits 16 bits.
const NEARLY_ONE: f64 = 65535.0;

/// Fractional bits of the levels of [`down_narrow`]: at most 255 · 2⁷.
pub(super) const NARROW_BITS: u32 = 7;

/// Samples that are weighed within a tenth of a level in numbers of 16 bits: [`down_narrow`] cuts each product to a 256th.
pub(super) const FEW: usize = 40;

/// Samples that are summed at a time, few enough for registers.
const BLOCK: usize = 64;

/// A row's weight, and with it how exact the levels are.
pub(super) trait Weight: Copy {
    /// Adds those of a window, which add up to 1.
    fn add(window: &[f64], weights: &mut Vec<Self>);
}

/// Fast, and within a tenth of a level: for levels that are rounded.
impl Weight for i16 {
    fn add(window: &[f64], weights: &mut Vec<Self>) {
        weights.extend(parts(window, ONE).map(|part| part as Self));
    }
}

/// Faster, and within a tenth of a level for few rows.
impl Weight for u16 {
    fn add(window: &[f64], weights: &mut Vec<Self>) {
        weights.extend(parts(window, NEARLY_ONE));
    }
}

/// Whole parts of `one`, which they add up to to the last bit.
fn parts(window: &[f64], one: f64) -> impl Iterator<Item = u16> {
    let (mut ideal, mut given) = (0.0, 0.0);
    window.iter().map(move |weight| {
        ideal += weight * one;
        // What is left over is never less than −½, so that cutting rounds.
        let part = (ideal - given + 0.5) as u16;
        given += f64::from(part);
        part
    })
}

/// Within a thousandth of a level, for levels that stay as they are.
impl Weight for f32 {
    fn add(window: &[f64], weights: &mut Vec<Self>) {
        weights.extend(window.iter().map(|weight| *weight as Self));
    }
}

/// Rows of `stride` samples that `source` begins with, and their weights.
pub(super) struct Stack<'a, W> {
    pub(super) source: &'a [u8],
    /// What the next line is made of besides.
    pub(super) ahead: &'a [u8],
    pub(super) stride: usize,
    pub(super) weights: &'a [W],
}

/// Bytes that the processor fetches at a time.
pub(super) const CACHE_LINE: usize = 64;

/// Reads what is about to be needed, from its start to its end, so that it is there. Processors fetch ahead of one such reader,
/// and not of several that begin anew with each line.
pub(super) fn read(samples: &[u8]) {
    for sample in samples.iter().step_by(CACHE_LINE) {
        black_box(*sample);
    }
}

/// Weighs rows into levels.
#[multiversion(targets = "simd")]
pub(super) fn down(stack: &Stack<'_, i16>, out: &mut [f32]) {
    const UNIT: f32 = 1.0 / ONE as f32;
    let part = |sample, weight| i32::from(sample) * i32::from(weight);
    weigh(stack, part, |sum| sum as f32 * UNIT, out);
}

/// Weighs rows into levels of [`NARROW_BITS`] fractional bits.
#[multiversion(targets = "simd")]
pub(super) fn down_narrow(stack: &Stack<'_, u16>, out: &mut [i16]) {
    match_target! {
        "x86_64+avx512f+avx512bw+avx512vbmi" => super::x86::down_narrow(stack, out),
        _ => narrow(stack, out),
    }
}

/// [`down_narrow`] for any processor.
#[inline(always)]
pub(super) fn narrow(stack: &Stack<'_, u16>, out: &mut [i16]) {
    for (x, out) in out[..stack.stride].iter_mut().enumerate() {
        let mut sum = half(stack.weights.len());
        for (row, weight) in stack.source.chunks_exact(stack.stride).zip(stack.weights) {
            sum += ((u32::from(row[x]) * u32::from(*weight)) >> 8) as u16;
        }
        *out = (sum >> 1) as i16;
    }
}

/// What is cut from so many products, in the mean.
pub(super) fn half(rows: usize) -> u16 {
    rows as u16 / 2
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
    read(stack.ahead);
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
