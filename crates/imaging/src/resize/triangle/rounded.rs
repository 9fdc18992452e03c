//! Rows of 8-bit levels, rounded once after both passes.

use image::RgbImage;
use multiversion::multiversion;

#[cfg(target_arch = "x86_64")]
use super::fixed_point::FixedPointRows;
use super::{
    BLOCK, Quad,
    unrounded::{UnroundedRows, unrounded},
};
use crate::resize::{Pixel, view::View};

/// Every f32 from this value to its double is a whole number. Adding this value to a smaller number rounds that number.
const ROUNDING: f32 = (1 << 23) as f32;

/// The rows of a resized image, from the top.
pub(crate) struct RoundedRows<'a> {
    kernels: Kernels<'a>,
    /// One row, in blocks.
    pixels: Vec<[Pixel; BLOCK]>,
}

/// The kernels of both passes.
enum Kernels<'a> {
    #[cfg(target_arch = "x86_64")]
    FixedPoint(FixedPointRows<'a>),
    Float(UnroundedRows<'a>),
}

/// Returns the rows of a view of `image`, at most one level from Pillow's `BILINEAR`.
pub(crate) fn rounded<'a>(image: &'a RgbImage, view: &View) -> RoundedRows<'a> {
    #[cfg(target_arch = "x86_64")]
    if let Some(rows) = FixedPointRows::new(image, view) {
        return RoundedRows::new(Kernels::FixedPoint(rows), view);
    }
    RoundedRows::float(image, view)
}

impl<'a> RoundedRows<'a> {
    /// Uses the float kernels, which accept every view.
    pub(super) fn float(image: &'a RgbImage, view: &View) -> Self {
        Self::new(Kernels::Float(unrounded(image, view)), view)
    }

    fn new(kernels: Kernels<'a>, view: &View) -> Self {
        let blocks = view.columns.range.len().div_ceil(BLOCK);
        Self {
            kernels,
            pixels: vec![[Pixel::default(); BLOCK]; blocks],
        }
    }

    /// Returns the next row, in complete blocks of pixels, or `None` after the last one.
    pub(crate) fn next(&mut self) -> Option<&[Pixel]> {
        match &mut self.kernels {
            #[cfg(target_arch = "x86_64")]
            Kernels::FixedPoint(rows) => rows.next(&mut self.pixels)?,
            Kernels::Float(rows) => round(rows.next()?, self.pixels.as_flattened_mut()),
        }
        Some(self.pixels.as_flattened())
    }
}

/// Rounds to the nearest level.
#[multiversion(targets = "simd")]
fn round(levels: &[Quad], pixels: &mut [Pixel]) {
    let samples = pixels.as_flattened_mut().iter_mut();
    for (sample, level) in samples.zip(levels.as_flattened()) {
        *sample = (level + ROUNDING).to_bits() as u8;
    }
}
