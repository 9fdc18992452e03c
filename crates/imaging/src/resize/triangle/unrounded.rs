//! Rows in levels that are not rounded, within a thousandth of the definition.

use image::RgbImage;

use super::{
    CHANNELS, Quad,
    direct_sum::{self, DirectSum},
    float_taps::{self, FloatTaps},
};
use crate::{
    checkpoint::passed,
    resize::{view::View, work_of_row},
};

/// The rows of a resized image, from the top.
pub(crate) struct UnroundedRows<'a> {
    vertical: DirectSum<'a>,
    horizontal: FloatTaps,
    /// One row as wide as the source, and longer by what the horizontal kernel reads with weight 0.
    row: Vec<f32>,
    levels: Vec<Quad>,
    /// The work on a row.
    work: usize,
}

/// Returns the rows of a view of `image` in levels that are not rounded.
pub(crate) fn unrounded<'a>(image: &'a RgbImage, view: &View) -> UnroundedRows<'a> {
    let horizontal = FloatTaps::new(&view.columns);
    let stride = image.width() as usize * CHANNELS;
    UnroundedRows {
        vertical: DirectSum::new(image.as_raw(), stride, &view.rows),
        row: vec![0.0; stride + horizontal.overread()],
        levels: vec![[0.0; 16]; horizontal.quads()],
        horizontal,
        work: work_of_row(image, view),
    }
}

impl UnroundedRows<'_> {
    /// Returns the next row, in complete quads, or `None` after the last one.
    pub(crate) fn next(&mut self) -> Option<&[Quad]> {
        direct_sum::sum(&self.vertical.next()?, &mut self.row);
        float_taps::weigh(&self.row, &self.horizontal, &mut self.levels);
        passed(self.work);
        Some(&self.levels)
    }
}
