//! Bilinear interpolation with two taps per axis, in OpenCV's fixed point: `INTER_LINEAR` on 8-bit pixels (5.0.0), bit
//! for bit.
//!
//! # Definition
//! A target sample lies between two source samples on each axis at every scale, so shrinking aliases. The weights `w`
//! have 11 fractional bits and add up to 2¹¹:
//!
//! ```text
//! across = (left · w₀ + right · w₁) >> 4                       7 fractional bits, at most 255 · 2⁷
//! level  = ((upper · v₀ >> 16) + (lower · v₁ >> 16) + 2) >> 2
//! ```
//!
//! Detectors are sensitive to the rounding: rounding to levels after each of the two passes moves boxes by half a
//! pixel.
//!
//! # Kernels
//! [`horizontal`] interpolates source rows along x; [`vertical`] interpolates between two of these rows. A row is
//! interpolated along x once, even when two target rows need it. Both kernels have a portable form and an AVX2 form.
//! The horizontal kernel also has an AVX-512 form. All forms use integers and return the same bits. The best form that
//! the CPU can run is chosen, and every axis is accepted.

pub(crate) mod horizontal;
pub(crate) mod vertical;

use image::RgbImage;

use super::{
    Pixel, RGB,
    view::{Axis, View},
};
use crate::{checkpoint::passed, prefetch::prefetch};
use horizontal::{TapPairs, interpolate};
use vertical::{Weights, blend};

/// Fractional bits of a weight.
pub(super) const WEIGHT_BITS: u32 = 11;
/// A weight of 1.
const ONE: f32 = (1 << WEIGHT_BITS) as f32;

/// Pixels that are processed at a time.
pub(crate) const BLOCK: usize = 16;

/// Pixels interpolated along x, four values each: red, green, blue and an unused value. They have 7 fractional bits: at
/// most 255 · 2⁷.
pub(crate) type Block = [u16; 4 * BLOCK];

/// The two samples that a target position lies between, and their weights, which add up to 2¹¹.
#[derive(Clone, Copy)]
pub(super) struct Taps {
    pub(super) first: usize,
    pub(super) second: usize,
    pub(super) weights: [u16; 2],
}

/// Returns the taps of the computed positions of an axis.
pub(super) fn taps(axis: &Axis) -> impl Iterator<Item = Taps> + use<> {
    let scale = axis.scale();
    let last = i64::from(axis.source) - 1;
    axis.range.clone().map(move |position| {
        let center = ((f64::from(position) + 0.5) * scale - 0.5) as f32;
        let floor = center.floor();
        let fraction = center - floor;
        // Beyond the outermost centers the border sample is repeated.
        let sample = |index: i64| index.clamp(0, last) as usize;
        let weight = |share: f32| (share * ONE).round_ties_even() as u16;
        Taps {
            first: sample(floor as i64),
            second: sample(floor as i64 + 1),
            weights: [weight(1.0 - fraction), weight(fraction)],
        }
    })
}

/// A source row interpolated along x, and its index.
struct Row {
    index: Option<usize>,
    samples: Vec<Block>,
}

impl Row {
    fn new(width: u32) -> Self {
        Self {
            index: None,
            samples: vec![[0; 4 * BLOCK]; (width as usize).div_ceil(BLOCK)],
        }
    }
}

/// Two interpolated source rows and their weights, from which a target row is made.
pub(crate) struct RowPair<'a> {
    /// The rows, as wide as the target, in complete blocks.
    pub(crate) rows: [&'a [Block]; 2],
    pub(crate) weights: Weights,
}

/// The rows of a resized image, from the top.
pub(crate) struct RowPairs<'a> {
    source: &'a [u8],
    stride: usize,
    columns: TapPairs,
    rows: std::vec::IntoIter<Taps>,
    upper: Row,
    lower: Row,
}

/// Returns the rows of a view of `image`.
pub(crate) fn row_pairs<'a>(image: &'a RgbImage, view: &View) -> RowPairs<'a> {
    let (width, _) = view.size();
    RowPairs {
        source: image.as_raw(),
        stride: image.width() as usize * RGB,
        columns: TapPairs::new(taps(&view.columns)),
        rows: taps(&view.rows).collect::<Vec<_>>().into_iter(),
        upper: Row::new(width),
        lower: Row::new(width),
    }
}

impl RowPairs<'_> {
    /// Returns a buffer for a row of pixels, as [`blend`] writes it.
    pub(crate) fn pixel_buffer(&self) -> Vec<[Pixel; BLOCK]> {
        vec![[Pixel::default(); BLOCK]; self.upper.samples.len()]
    }

    /// Returns the next row, or `None` after the last one.
    pub(crate) fn next(&mut self) -> Option<RowPair<'_>> {
        let taps = self.rows.next()?;
        self.prefetch_next(taps.second);
        // The lower row of one target row is often the upper row of the next.
        if self.lower.index == Some(taps.first) {
            std::mem::swap(&mut self.upper, &mut self.lower);
        }
        // A row of weight 0 is not interpolated.
        let second = Some(taps.second).filter(|_| taps.weights[1] > 0);
        for (row, index) in [
            (&mut self.upper, Some(taps.first)),
            (&mut self.lower, second),
        ] {
            if let Some(at) = index
                && row.index != index
            {
                row.index = index;
                let source = self.source.get(at * self.stride..).unwrap_or_default();
                interpolate(source, &self.columns, &mut row.samples);
            }
        }
        passed(self.upper.samples.len() * 4 * BLOCK);
        Some(RowPair {
            rows: [&self.upper.samples, &self.lower.samples],
            weights: Weights::new(taps.weights),
        })
    }

    /// Starts to load the source rows behind `last` that the next row is made of. When an image shrinks, they are too far away for
    /// the CPU to load them by itself.
    fn prefetch_next(&self, last: usize) {
        let next = self.rows.as_slice().first();
        for at in next.into_iter().flat_map(|taps| [taps.first, taps.second]) {
            let row = self.source.get(at * self.stride..(at + 1) * self.stride);
            let samples = row.and_then(|row| row.get(self.columns.span()));
            if let Some(samples) = samples.filter(|_| at > last) {
                prefetch(samples);
            }
        }
    }
}

/// Returns a view of `image`.
pub(super) fn resize(image: &RgbImage, view: &View) -> RgbImage {
    let (width, height) = view.size();
    let mut rows = row_pairs(image, view);
    let mut blocks = rows.pixel_buffer();
    let mut target = Vec::with_capacity(width as usize * height as usize * RGB);
    while let Some(pair) = rows.next() {
        blend(&pair, &mut blocks);
        let row = blocks.as_flattened().iter().take(width as usize);
        target.extend(row.flat_map(|[r, g, b, _]| [r, g, b]));
    }
    RgbImage::from_raw(width, height, target).unwrap_or_default()
}

#[cfg(test)]
mod tests;
