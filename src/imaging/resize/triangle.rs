//! Bilinear sampling with the triangle widened when shrinking, to within one level of Pillow's `BILINEAR`: columns
//! first, in whole numbers, because along them the samples of a row lie side by side; then rows, in floats. There is
//! one rounding, at the end.

mod across;
#[cfg(target_arch = "x86_64")]
mod x86;

use image::RgbImage;
use multiversion::multiversion;

use super::{RGB, window::windows};
use across::{Columns, across};

/// Weights down the columns have 14 fractional bits, so that a weight of 1 fits 16 with its sign.
const ONE: f64 = 16384.0;

/// Samples that are summed at a time, few enough for registers.
const BLOCK: usize = 64;

/// Four pixels of a line: red, green, blue and something, each in whole levels.
pub(in crate::imaging) type Quad = [f32; 16];

/// The rows that lines are made of.
struct Rows {
    /// The first row of each line, and how many there are.
    spans: std::vec::IntoIter<(usize, usize)>,
    /// The weights of the rows of those lines, one line after the other.
    weights: std::vec::IntoIter<i16>,
}

impl Rows {
    fn new(from: usize, to: usize) -> Self {
        let (mut spans, mut weights) = (Vec::with_capacity(to), Vec::new());
        windows(from, to, 1.0, triangle, |first, window| {
            spans.push((first, window.len()));
            weights.extend(fixed(window));
        });
        Self {
            spans: spans.into_iter(),
            weights: weights.into_iter(),
        }
    }
}

pub(super) fn triangle(x: f64) -> f64 {
    (1.0 - x.abs()).max(0.0)
}

/// Weights in whole numbers that add up to [`ONE`] to the last bit.
fn fixed(weights: &[f64]) -> impl Iterator<Item = i16> {
    let (mut ideal, mut given) = (0.0, 0.0);
    weights.iter().map(move |weight| {
        ideal += weight * ONE;
        let part = (ideal - given).round();
        given += part;
        part as i16
    })
}

/// The lines of a resized picture, from the top.
pub(in crate::imaging) struct Lines<'a> {
    source: &'a [u8],
    stride: usize,
    rows: Rows,
    columns: Columns,
    /// One line as wide as the source, and room beyond for what is read but has no weight.
    sums: Vec<f32>,
    levels: Vec<Quad>,
}

/// The lines of `picture` at `width` × `height`; both pictures have pixels.
pub(in crate::imaging) fn lines(picture: &RgbImage, width: u32, height: u32) -> Lines<'_> {
    let columns = Columns::new(picture.width() as usize, width as usize);
    let stride = picture.width() as usize * RGB;
    Lines {
        source: picture.as_raw(),
        stride,
        rows: Rows::new(picture.height() as usize, height as usize),
        sums: vec![0.0; stride + columns.reach()],
        columns,
        levels: vec![[0.0; 16]; (width as usize).div_ceil(4)],
    }
}

impl Lines<'_> {
    /// The next line in whole quads; `None` below the last one.
    pub(in crate::imaging) fn next(&mut self) -> Option<&[Quad]> {
        let (first, count) = self.rows.spans.next()?;
        let source = self.source.get(first * self.stride..)?;
        let weights = self.rows.weights.as_slice().get(..count)?;
        down(source, self.stride, weights, &mut self.sums);
        self.rows.weights.by_ref().take(count).for_each(drop);
        across(&self.sums, &self.columns, &mut self.levels);
        Some(&self.levels)
    }
}

/// Weighs the rows that `source` begins with. The usual numbers of rows are known when compiling, so that their
/// weights stay in registers.
#[multiversion(targets = "simd")]
fn down(source: &[u8], stride: usize, weights: &[i16], out: &mut [f32]) {
    match weights.len() {
        2 => sum::<2>(source, stride, weights, out),
        3 => sum::<3>(source, stride, weights, out),
        4 => sum::<4>(source, stride, weights, out),
        5 => sum::<5>(source, stride, weights, out),
        6 => sum::<6>(source, stride, weights, out),
        _ => sum::<0>(source, stride, weights, out),
    }
}

#[inline(always)]
fn sum<const ROWS: usize>(source: &[u8], stride: usize, weights: &[i16], out: &mut [f32]) {
    const UNIT: f32 = 1.0 / ONE as f32;
    let count = if ROWS == 0 { weights.len() } else { ROWS };
    let (source, weights) = (&source[..count * stride], &weights[..count]);
    let (blocks, rest) = out[..stride].as_chunks_mut::<BLOCK>();
    for (at, out) in blocks.iter_mut().enumerate() {
        let mut sums = [0i32; BLOCK];
        for (row, &weight) in weights.iter().enumerate() {
            if let Some(samples) = source[row * stride + at * BLOCK..].first_chunk::<BLOCK>() {
                for (sum, &sample) in sums.iter_mut().zip(samples) {
                    *sum += i32::from(sample) * i32::from(weight);
                }
            }
        }
        *out = sums.map(|sum| sum as f32 * UNIT);
    }
    let at = stride - rest.len();
    for (x, out) in rest.iter_mut().enumerate() {
        let rows = source.chunks_exact(stride).zip(weights);
        let parts = rows.map(|(row, &weight)| i32::from(row[at + x]) * i32::from(weight));
        *out = parts.sum::<i32>() as f32 * UNIT;
    }
}

#[cfg(test)]
mod tests;
