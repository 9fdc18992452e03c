//! Rows in 16-bit fixed point: prefix sums down the columns, then dot products along the rows.

use image::RgbImage;
use multiversion::{multiversion, target::match_target};

use super::{
    BLOCK, CHANNELS,
    dot_product::{self, DotProduct},
    prefix_sum::PrefixSum,
};
use crate::{
    checkpoint::passed,
    resize::{Pixel, view::View, work_of_row},
};

/// The rows of a resized image, from the top.
pub(super) struct FixedPointRows<'a> {
    vertical: PrefixSum<'a>,
    horizontal: DotProduct,
    /// The row between the passes. It is as wide as the source, and longer by what the horizontal kernel reads with
    /// weight 0.
    row: Vec<i16>,
    /// The work on a row.
    work: usize,
}

impl<'a> FixedPointRows<'a> {
    /// Returns `None` if this CPU lacks the instructions, or if the kernels do not accept the view.
    pub(super) fn new(image: &'a RgbImage, view: &View) -> Option<Self> {
        if !has_instructions() {
            return None;
        }
        let stride = image.width() as usize * CHANNELS;
        // First, because it refuses most views that the kernels do not accept, before weights are computed.
        let vertical = PrefixSum::new(image.as_raw(), stride, &view.rows)?;
        let horizontal = DotProduct::new(&view.columns)?;
        Some(Self {
            vertical,
            row: vec![0; stride + horizontal.overread()],
            horizontal,
            work: work_of_row(image, view),
        })
    }

    /// Writes the next row. Returns `None` after the last one.
    pub(super) fn next(&mut self, pixels: &mut [[Pixel; BLOCK]]) -> Option<()> {
        self.vertical.next(&mut self.row)?;
        dot_product::weigh(&self.row, &self.horizontal, pixels);
        passed(self.work);
        Some(())
    }
}

/// Returns whether this CPU has the instructions that make fixed point faster than floats.
#[multiversion(targets = "simd")]
pub(super) fn has_instructions() -> bool {
    match_target! {
        "x86_64+avx512f+avx512bw+avx512vbmi+avx512vnni" => true,
        _ => false,
    }
}
