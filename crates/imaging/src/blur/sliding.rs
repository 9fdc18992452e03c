//! Gaussian blur by sums that slide: the cost does not depend on the length of the kernel.
//!
//! The kernel is a [series](Series) of cosines. The sum S of the samples f around x, weighted by one cosine of angle φ, comes
//! from the two sums before it, because cos(φ(d+1)) + cos(φ(d−1)) = 2 cos φ cos(φd):
//!
//! ```text
//! S(x+1) = 2 cos φ S(x) − S(x−1) + cos(φr) (f(x+r+1) + f(x−r−1)) − cos(φ(r+1)) (f(x+r) + f(x−r))
//! ```
//!
//! where r is the radius of the kernel. Sugimoto and Kamata describe it in "Fast Gaussian filter with second-order shift
//! property of DCT-5" (2013). Sums are `f64`, because rounding errors add up along a line.

use std::ops::Range;

use image::RgbImage;
use multiversion::multiversion;

use super::{
    BLOCK, CHANNELS, ROUNDING, line,
    series::{MAX_TERMS, Series},
};
use crate::{border::reflect_101, checkpoint::passed, crop::Region};

/// The rows that are blurred vertically at a time.
const BAND: u32 = 128;

/// The time of a sliding sum over a sample, in plain passes.
const PASSES: usize = 12;

/// The factors of one cosine.
#[derive(Clone, Copy, Default)]
struct Slide {
    /// 2 cos φ
    turn: f64,
    /// cos(φr), times the amplitude
    outer: f64,
    /// cos(φ(r+1)), times the amplitude
    inner: f64,
}

/// The sums of one cosine at two neighbors.
#[derive(Clone, Copy)]
struct Sums {
    before: [f64; BLOCK],
    here: [f64; BLOCK],
}

impl Sums {
    const ZERO: Self = Self {
        before: [0.0; BLOCK],
        here: [0.0; BLOCK],
    };
}

/// A blur in progress. Rows are blurred horizontally when they are reached; a ring buffer has those that a band needs.
pub(super) struct Blur {
    /// The region to blur. It is not empty and lies inside the image.
    region: Region,
    radius: u32,
    slides: Vec<Slide>,
    /// The weights of the kernel by cosine: [`MAX_TERMS`] for each distance from the center, up to the radius.
    cosines: Vec<[f64; MAX_TERMS]>,
    /// The samples of a row, extended by the radius and one pixel on both sides.
    line: Vec<f32>,
    /// Horizontally blurred rows: row y is at y modulo the number of rows.
    ring: Vec<f32>,
    /// The rows of the ring buffer.
    rows: usize,
    /// The vertical sums: for each block, one for each cosine.
    sums: Vec<Sums>,
}

impl Blur {
    pub(super) fn new(region: Region, series: &Series, height: u32) -> Self {
        let radius = series.radius;
        // The blocks are complete. The sums after the region's samples are not used.
        let blocks = (region.width() as usize * CHANNELS).div_ceil(BLOCK);
        let rows = height.min(BAND + 2 * radius + 2) as usize;
        let terms = 0..series.terms();
        let mut cosines = vec![[0.0; MAX_TERMS]; radius as usize + 1];
        for (distance, cosines) in (0..).zip(&mut cosines) {
            for (term, cosine) in terms.clone().zip(cosines) {
                *cosine = series.cosine(term, distance);
            }
        }
        Self {
            region,
            radius,
            slides: terms.clone().map(|term| Slide::new(series, term)).collect(),
            cosines,
            line: vec![0.0; (region.width() + 2 * radius + 2) as usize * CHANNELS],
            ring: vec![0.0; blocks * BLOCK * rows],
            rows,
            sums: vec![Sums::ZERO; blocks * terms.len()],
        }
    }

    pub(super) fn run(mut self, image: &mut RgbImage) {
        let (Region { y1, y2, .. }, radius) = (self.region, self.radius);
        let height = image.height();
        let stride = self.ring.len() / self.rows;
        let mut next = y1.saturating_sub(radius + 1);
        for top in (y1..y2).step_by(BAND as usize) {
            let bottom = y2.min(top + BAND);
            // A row is read before it is written, because reading is `radius` rows ahead.
            while next < height.min(bottom + radius + 1) {
                line::read(image, next, self.region, radius + 1, &mut self.line);
                let at = next as usize % self.rows * stride;
                let row = &mut self.ring[at..at + stride];
                slide_across(&self.line, &self.cosines, &self.slides, row);
                // The sums at the beginning of a row take about as long as those of so many samples.
                passed((stride + 2 * CHANNELS * self.cosines.len()) * PASSES);
                next += 1;
            }
            for block in 0..stride / BLOCK {
                self.blur_block(image, block, top..bottom);
                passed((bottom - top) as usize * BLOCK * PASSES);
            }
        }
    }

    /// Blurs some rows of a block vertically, and writes them into the image.
    fn blur_block(&mut self, image: &mut RgbImage, block: usize, rows: Range<u32>) {
        let Region { x1, x2, y1, .. } = self.region;
        let (radius, height) = (i64::from(self.radius), image.height());
        let stride = self.ring.len() / self.rows;
        let (ring, count) = (&self.ring, self.rows);
        // Reflected rows are in the ring buffer: they are closer to the band than the rows outside the image. An image
        // lower than the ring buffer is in it completely.
        let row = |y: i64| {
            let at = reflect_101(y, height) % count * stride + block * BLOCK;
            &ring[at..at + BLOCK]
        };
        let terms = self.slides.len();
        let sums = &mut self.sums[block * terms..(block + 1) * terms];
        if rows.start == y1 {
            for (d, cosines) in around(&self.cosines) {
                let y = i64::from(y1) + d;
                for (sums, cosine) in sums.iter_mut().zip(cosines) {
                    add(&mut sums.here, row(y), *cosine);
                    add(&mut sums.before, row(y - 1), *cosine);
                }
            }
        }
        let first = x1 as usize * CHANNELS + block * BLOCK;
        let last = (first + BLOCK).min(x2 as usize * CHANNELS);
        let image_stride = image.width() as usize * CHANNELS;
        for y in rows {
            let at = i64::from(y);
            let outer = [row(at - radius - 1), row(at + radius + 1)];
            let inner = [row(at - radius), row(at + radius)];
            let levels = slide_down(outer, inner, &self.slides, sums);
            let start = y as usize * image_stride;
            image.as_mut()[start + first..start + last].copy_from_slice(&levels[..last - first]);
        }
    }
}

impl Slide {
    fn new(series: &Series, term: usize) -> Self {
        Self {
            turn: 2.0 * series.turn(term, 1),
            outer: series.cosine(term, series.radius),
            inner: series.cosine(term, series.radius + 1),
        }
    }
}

/// Returns the distances on both sides of the center, each with its cosines.
fn around(cosines: &[[f64; MAX_TERMS]]) -> impl Iterator<Item = (i64, &[f64; MAX_TERMS])> {
    let right = (0..).zip(cosines);
    let left = (1..).zip(&cosines[1..]).map(|(d, cosines)| (-d, cosines));
    left.chain(right)
}

/// Adds samples with a weight.
fn add(sums: &mut [f64; BLOCK], samples: &[f32], weight: f64) {
    for (sum, sample) in sums.iter_mut().zip(samples) {
        *sum += weight * f64::from(*sample);
    }
}

/// Blurs a line horizontally. The line has `radius + 1` pixels more than `out` on both sides.
#[multiversion(targets = "simd")]
fn slide_across(line: &[f32], cosines: &[[f64; MAX_TERMS]], slides: &[Slide], out: &mut [f32]) {
    let radius = cosines.len() - 1;
    let pixels = line.as_chunks::<CHANNELS>().0;
    let mut factors = [Slide::default(); MAX_TERMS];
    factors[..slides.len()].copy_from_slice(slides);
    let (turn, outer, inner) = (
        factors.map(|slide| slide.turn),
        factors.map(|slide| slide.outer),
        factors.map(|slide| slide.inner),
    );
    let mut before = [[0.0; MAX_TERMS]; CHANNELS];
    let mut here = before;
    for (d, cosines) in around(cosines) {
        let at = (radius as i64 + d) as usize;
        for channel in 0..CHANNELS {
            for term in 0..MAX_TERMS {
                before[channel][term] += cosines[term] * f64::from(pixels[at][channel]);
                here[channel][term] += cosines[term] * f64::from(pixels[at + 1][channel]);
            }
        }
    }
    let ahead = pixels[2 * radius + 1..]
        .iter()
        .zip(&pixels[2 * radius + 2..]);
    let behind = pixels.iter().zip(&pixels[1..]);
    let out = out.as_chunks_mut::<CHANNELS>().0;
    for ((out, (far_left, left)), (right, far_right)) in out.iter_mut().zip(behind).zip(ahead) {
        for channel in 0..CHANNELS {
            let far = f64::from(far_left[channel]) + f64::from(far_right[channel]);
            let near = f64::from(left[channel]) + f64::from(right[channel]);
            let (before, here) = (&mut before[channel], &mut here[channel]);
            out[channel] = total(here) as f32;
            for term in 0..MAX_TERMS {
                let next =
                    turn[term] * here[term] - before[term] + outer[term] * far - inner[term] * near;
                before[term] = here[term];
                here[term] = next;
            }
        }
    }
}

/// Adds the sums of all cosines, in the order of vector instructions.
#[inline(always)]
fn total(sums: &[f64; MAX_TERMS]) -> f64 {
    let quarter = |i: usize| sums[i] + sums[i + 4];
    (quarter(0) + quarter(2)) + (quarter(1) + quarter(3))
}

/// Returns a row of levels, rounded to the nearest, and moves the sums to the next row. `outer` are the rows next to the
/// kernel, `inner` those at its ends.
#[multiversion(targets = "simd")]
fn slide_down(
    outer: [&[f32]; 2],
    inner: [&[f32]; 2],
    slides: &[Slide],
    sums: &mut [Sums],
) -> [u8; BLOCK] {
    let pair = |rows: [&[f32]; 2]| {
        let mut pairs = [0.0; BLOCK];
        for ((pair, above), below) in pairs.iter_mut().zip(rows[0]).zip(rows[1]) {
            *pair = f64::from(*above) + f64::from(*below);
        }
        pairs
    };
    let (far, near) = (pair(outer), pair(inner));
    let mut totals = [0.0f64; BLOCK];
    for (Slide { turn, outer, inner }, Sums { before, here }) in slides.iter().zip(sums) {
        for at in 0..BLOCK {
            totals[at] += here[at];
            let next = turn * here[at] - before[at] + outer * far[at] - inner * near[at];
            before[at] = here[at];
            here[at] = next;
        }
    }
    totals.map(|level| (level.clamp(0.0, 255.0) as f32 + ROUNDING).to_bits() as u8)
}
