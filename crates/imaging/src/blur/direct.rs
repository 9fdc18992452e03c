//! Gaussian blur as a weighted sum: the cost grows with the kernel.

use image::RgbImage;
use multiversion::multiversion;

use super::{BLOCK, CHANNELS, ROUNDING, line};
use crate::{
    border::reflect_101,
    checkpoint::passed,
    crop::{Region, rows_mut},
};

/// An offset into a buffer of samples, and the weight of the samples from there on.
type Tap = (usize, f32);

/// A blur in progress. Rows are blurred horizontally when they are reached; a ring buffer has as many of them as the
/// kernel is long.
pub(super) struct Blur<'a> {
    /// The region to blur. It is not empty and lies inside the image.
    region: Region,
    radius: u32,
    weights: &'a [f32],
    /// The samples of a row, extended by the radius on both sides.
    line: Vec<f32>,
    /// Horizontally blurred rows: row y is at y modulo the length of the kernel.
    ring: Vec<f32>,
    /// A row of the result.
    levels: Vec<[u8; BLOCK]>,
}

impl<'a> Blur<'a> {
    pub(super) fn new(region: Region, weights: &'a [f32]) -> Self {
        // The blocks are complete. The sums after the region's samples are not used.
        let blocks = (region.width() as usize * CHANNELS).div_ceil(BLOCK);
        Self {
            region,
            radius: weights.len() as u32 / 2,
            line: vec![0.0; blocks * BLOCK + (weights.len() - 1) * CHANNELS],
            ring: vec![0.0; blocks * BLOCK * weights.len()],
            levels: vec![[0; BLOCK]; blocks],
            weights,
        }
    }

    pub(super) fn run(mut self, image: &mut RgbImage) {
        let (Region { y1, y2, .. }, radius) = (self.region, self.radius);
        let height = image.height();
        let along: Vec<Tap> = (0..)
            .step_by(CHANNELS)
            .zip(self.weights.iter().copied())
            .collect();
        let mut down: Vec<Tap> = Vec::with_capacity(along.len());
        let mut next = y1.saturating_sub(radius);
        for y in y1..y2 {
            // A row is read before it is written, because reading is `radius` rows ahead.
            while next < height.min(y + radius + 1) {
                line::read(image, next, self.region, radius, &mut self.line);
                let at = self.ring_offset(next as usize);
                let row = &mut self.ring[at..at + self.levels.len() * BLOCK];
                blur_row(&self.line, &along, row);
                passed(row.len() * along.len() / 8);
                next += 1;
            }
            down.clear();
            let above = i64::from(y) - i64::from(radius);
            // Reflected rows are in the ring buffer: they are closer to `y` than the rows outside the image. An image
            // lower than the kernel is in the ring buffer completely.
            down.extend((above..).zip(self.weights).map(|(row, &weight)| {
                let row = reflect_101(row, height);
                (self.ring_offset(row), weight)
            }));
            blur_column(&self.ring, &down, &mut self.levels);
            let line = Region {
                y1: y,
                y2: y + 1,
                ..self.region
            };
            for row in rows_mut(image, line) {
                row.copy_from_slice(&self.levels.as_flattened()[..row.len()]);
            }
            // Eight taps take about as long as a plain pass.
            passed(self.levels.len() * BLOCK * self.weights.len() / 8);
        }
    }

    /// Returns the offset of row `y` in the ring buffer.
    fn ring_offset(&self, y: usize) -> usize {
        y % self.weights.len() * self.levels.len() * BLOCK
    }
}

/// Blurs a line horizontally; `out` has complete blocks.
#[multiversion(targets = "simd")]
fn blur_row(line: &[f32], taps: &[Tap], out: &mut [f32]) {
    for (at, out) in out.as_chunks_mut::<BLOCK>().0.iter_mut().enumerate() {
        *out = weigh(line, taps, at * BLOCK);
    }
}

/// Blurs rows vertically and rounds to the nearest level.
#[multiversion(targets = "simd")]
fn blur_column(ring: &[f32], taps: &[Tap], out: &mut [[u8; BLOCK]]) {
    for (at, out) in out.iter_mut().enumerate() {
        let levels = weigh(ring, taps, at * BLOCK);
        *out = levels.map(|level| (level + ROUNDING).to_bits() as u8);
    }
}

/// Returns the weighted sum of a block of samples at offset `at` from each tap.
#[inline(always)]
fn weigh(samples: &[f32], taps: &[Tap], at: usize) -> [f32; BLOCK] {
    let mut sums = [0.0; BLOCK];
    for &(tap, weight) in taps {
        if let Some(samples) = samples[tap + at..].first_chunk::<BLOCK>() {
            for (sum, sample) in sums.iter_mut().zip(samples) {
                *sum += sample * weight;
            }
        }
    }
    sums
}
