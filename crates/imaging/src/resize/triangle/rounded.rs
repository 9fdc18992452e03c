//! Rows of 8-bit levels, rounded once after both passes.

use image::RgbImage;
use multiversion::{multiversion, target::match_target};

use super::{
    BLOCK, CHANNELS, Quad,
    dot_product::{self, DotProduct},
    prefix_sum::PrefixSum,
    unrounded::{UnroundedRows, unrounded},
};
use crate::{
    checkpoint::passed,
    resize::{Pixel, view::View, work_of_row},
};

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
    /// 16-bit fixed point.
    FixedPoint {
        vertical: PrefixSum<'a>,
        horizontal: DotProduct,
        /// The row between the passes. It is as wide as the source, and longer by what the horizontal kernel reads with
        /// weight 0.
        row: Vec<i16>,
        /// The work on a row.
        work: usize,
    },
    Float(UnroundedRows<'a>),
}

/// Returns the rows of a view of `image`, at most one level from Pillow's `BILINEAR`.
pub(crate) fn rounded<'a>(image: &'a RgbImage, view: &View) -> RoundedRows<'a> {
    let fixed_point = has_fixed_point_instructions()
        .then(|| RoundedRows::fixed_point(image, view))
        .flatten();
    fixed_point.unwrap_or_else(|| RoundedRows::float(image, view))
}

/// Returns whether this CPU has the instructions that make fixed point faster than floats.
#[multiversion(targets = "simd")]
pub(super) fn has_fixed_point_instructions() -> bool {
    match_target! {
        "x86_64+avx512f+avx512bw+avx512vbmi+avx512vnni" => true,
        _ => false,
    }
}

impl<'a> RoundedRows<'a> {
    /// Uses the fixed-point kernels. Returns `None` if they do not accept the view.
    pub(super) fn fixed_point(image: &'a RgbImage, view: &View) -> Option<Self> {
        let stride = image.width() as usize * CHANNELS;
        let vertical = PrefixSum::new(image.as_raw(), stride, &view.rows)?;
        let horizontal = DotProduct::new(&view.columns)?;
        let kernels = Kernels::FixedPoint {
            vertical,
            row: vec![0; stride + horizontal.overread()],
            horizontal,
            work: work_of_row(image, view),
        };
        Some(Self::new(kernels, view))
    }

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
            Kernels::FixedPoint {
                vertical,
                horizontal,
                row,
                work,
            } => {
                vertical.next(row)?;
                dot_product::weigh(row, horizontal, &mut self.pixels);
                passed(*work);
            }
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
