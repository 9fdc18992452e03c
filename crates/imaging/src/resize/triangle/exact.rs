//! Lines in levels that are not rounded.

use image::RgbImage;

use super::{
    Quad, RGB, Rows, View,
    across::{Columns, across},
    down::down_exact,
};

/// The lines of a resized picture, from the top.
pub(crate) struct ExactLines<'a> {
    rows: Rows<'a, f32>,
    columns: Columns,
    /// One line as wide as the source, and room beyond for what is read but has no weight.
    sums: Vec<f32>,
    levels: Vec<Quad>,
}

/// The lines of a view of `picture` in levels that are not rounded, within a thousandth.
pub(crate) fn exact_lines<'a>(picture: &'a RgbImage, view: &View) -> ExactLines<'a> {
    let columns = Columns::new(&view.columns);
    let stride = picture.width() as usize * RGB;
    ExactLines {
        rows: Rows::new(picture.as_raw(), stride, &view.rows),
        sums: vec![0.0; stride + columns.reach()],
        levels: vec![[0.0; 16]; columns.first.len()],
        columns,
    }
}

impl ExactLines<'_> {
    /// The next line in whole quads; `None` below the last one.
    pub(crate) fn next(&mut self) -> Option<&[Quad]> {
        down_exact(&self.rows.next()?, &mut self.sums);
        across(&self.sums, &self.columns, &mut self.levels);
        Some(&self.levels)
    }
}
