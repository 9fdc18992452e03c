//! Bilinear sampling with the triangle widened when shrinking, to within one level of Pillow's `BILINEAR`: columns
//! first, in whole numbers, because along them the samples of a row lie side by side; then rows, in floats. There is
//! one rounding, at the end.

use image::RgbImage;
use multiversion::multiversion;

use super::{Pixel, RGB, window::windows};

/// Weights down the columns have 14 fractional bits, so that a weight of 1 fits 16 with its sign.
const ONE: f64 = 16384.0;

/// Samples that are summed at a time, few enough for registers.
const BLOCK: usize = 64;

/// Floats from here to its double are whole, so adding it to a smaller one rounds that.
const WHOLE: f32 = (1 << 23) as f32;

/// The rows that a line is made of.
struct Rows {
    first: usize,
    weights: Vec<i16>,
}

/// The samples that the pixels of a line are made of.
struct Columns {
    /// Where each pixel's samples begin, in samples.
    first: Vec<u32>,
    /// As many weights for each pixel as the widest window has.
    weights: Vec<f32>,
    taps: usize,
}

impl Columns {
    fn new(from: usize, to: usize) -> Self {
        let windows = windows(from, to, 1.0, triangle);
        let taps = windows.iter().map(|w| w.weights.len()).max().unwrap_or(1);
        let mut weights = Vec::with_capacity(taps * to);
        for window in &windows {
            weights.extend(window.weights.iter().map(|weight| *weight as f32));
            weights.resize(weights.len().next_multiple_of(taps), 0.0);
        }
        Self {
            first: windows.iter().map(|w| (w.first * RGB) as u32).collect(),
            weights,
            taps,
        }
    }
}

pub(super) fn triangle(x: f64) -> f64 {
    (1.0 - x.abs()).max(0.0)
}

/// Weights in whole numbers that add up to [`ONE`] to the last bit.
fn fixed(weights: &[f64]) -> Vec<i16> {
    let (mut ideal, mut given) = (0.0, 0.0);
    let share = |weight: &f64| {
        ideal += weight * ONE;
        let part = (ideal - given).round();
        given += part;
        part as i16
    };
    weights.iter().map(share).collect()
}

/// The lines of a resized picture, from the top.
pub(in crate::imaging) struct Lines<'a> {
    source: &'a [u8],
    stride: usize,
    rows: std::vec::IntoIter<Rows>,
    columns: Columns,
    /// One line as wide as the source, and room beyond for windows with fewer samples than others.
    sums: Vec<f32>,
    mixed: Vec<[f32; 4]>,
    pixels: Vec<Pixel>,
}

/// The lines of `picture` at `width` × `height`; both pictures have pixels.
pub(in crate::imaging) fn lines(picture: &RgbImage, width: u32, height: u32) -> Lines<'_> {
    let rows: Vec<Rows> = windows(picture.height() as usize, height as usize, 1.0, triangle)
        .into_iter()
        .map(|window| Rows {
            first: window.first,
            weights: fixed(&window.weights),
        })
        .collect();
    let columns = Columns::new(picture.width() as usize, width as usize);
    let stride = picture.width() as usize * RGB;
    Lines {
        source: picture.as_raw(),
        stride,
        rows: rows.into_iter(),
        sums: vec![0.0; stride + RGB * columns.taps + 1],
        columns,
        mixed: vec![[0.0; 4]; width as usize],
        pixels: vec![Pixel::default(); width as usize],
    }
}

impl Lines<'_> {
    /// The next line; `None` below the last one.
    pub(in crate::imaging) fn next(&mut self) -> Option<&[Pixel]> {
        let rows = self.rows.next()?;
        let source = self.source.get(rows.first * self.stride..)?;
        down(source, self.stride, &rows.weights, &mut self.sums);
        across(&self.sums, &self.columns, &mut self.mixed, &mut self.pixels);
        Some(&self.pixels)
    }
}

/// Weighs the rows that `source` begins with.
#[multiversion(targets = "simd")]
fn down(source: &[u8], stride: usize, weights: &[i16], out: &mut [f32]) {
    const UNIT: f32 = 1.0 / ONE as f32;
    let rows = || source.chunks_exact(stride).zip(weights);
    let (blocks, rest) = out[..stride].as_chunks_mut::<BLOCK>();
    for (at, out) in blocks.iter_mut().enumerate() {
        let mut sums = [0i32; BLOCK];
        for (row, &weight) in rows() {
            if let Some(samples) = row[at * BLOCK..].first_chunk::<BLOCK>() {
                for (sum, &sample) in sums.iter_mut().zip(samples) {
                    *sum += i32::from(sample) * i32::from(weight);
                }
            }
        }
        *out = sums.map(|sum| sum as f32 * UNIT);
    }
    let at = stride - rest.len();
    for (x, out) in rest.iter_mut().enumerate() {
        let parts = rows().map(|(row, &weight)| i32::from(row[at + x]) * i32::from(weight));
        *out = parts.sum::<i32>() as f32 * UNIT;
    }
}

/// Weighs the samples of a line and rounds to whole levels.
#[multiversion(targets = "simd")]
fn across(line: &[f32], columns: &Columns, mixed: &mut [[f32; 4]], out: &mut [Pixel]) {
    match columns.taps {
        1 => weigh::<1>(line, columns, mixed),
        2 => weigh::<2>(line, columns, mixed),
        3 => weigh::<3>(line, columns, mixed),
        4 => weigh::<4>(line, columns, mixed),
        5 => weigh::<5>(line, columns, mixed),
        6 => weigh::<6>(line, columns, mixed),
        7 => weigh::<7>(line, columns, mixed),
        8 => weigh::<8>(line, columns, mixed),
        _ => weigh::<0>(line, columns, mixed),
    }
    let levels = out.as_flattened_mut().iter_mut();
    for (out, &level) in levels.zip(mixed.as_flattened()) {
        // A float cast would check each value for what cannot be here; the sum's low bits are the nearest level.
        *out = (level + WHOLE).to_bits() as u8;
    }
}

/// Weighs the samples of a line, `TAPS` a pixel. The usual numbers of taps are known when compiling,
/// which halves the time; 0 stands for any other.
#[inline(always)]
fn weigh<const TAPS: usize>(line: &[f32], columns: &Columns, out: &mut [[f32; 4]]) {
    let taps = if TAPS == 0 { columns.taps } else { TAPS };
    let windows = columns.first.iter().zip(columns.weights.chunks_exact(taps));
    for (out, (&first, weights)) in out.iter_mut().zip(windows) {
        let samples = &line[first as usize..][..RGB * taps + 1];
        // Four samples are one load; the fourth belongs to the next pixel and is not looked at.
        let mut sums = [0f32; 4];
        for tap in 0..taps {
            for channel in 0..4 {
                sums[channel] += samples[RGB * tap + channel] * weights[tap];
            }
        }
        *out = sums;
    }
}
