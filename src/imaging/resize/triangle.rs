//! Bilinear sampling with the triangle widened when shrinking: columns first, because along them the samples of a row
//! lie side by side; then rows, in floats. Nothing is rounded in between, and whole levels only at the end.

mod across;
mod down;
#[cfg(target_arch = "x86_64")]
mod x86;

use image::RgbImage;

use super::{
    RGB,
    view::{Axis, View},
    window::windows,
};
use across::{Columns, across};
use down::Weight;

/// Four pixels of a line: red, green, blue and something, each in levels.
pub(in crate::imaging) type Quad = [f32; 16];

/// The rows that lines are made of.
struct Rows<W> {
    /// The first row of each line, and how many there are.
    spans: std::vec::IntoIter<(usize, usize)>,
    /// The weights of the rows of those lines, one line after the other.
    weights: std::vec::IntoIter<W>,
}

impl<W: Weight> Rows<W> {
    fn new(axis: &Axis) -> Self {
        let (mut spans, mut weights) = (Vec::with_capacity(axis.kept.len()), Vec::new());
        windows(axis, 1.0, triangle, |first, window| {
            spans.push((first, window.len()));
            W::add(window, &mut weights);
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

/// The lines of a resized picture, from the top.
pub(in crate::imaging) struct Lines<'a, W> {
    source: &'a [u8],
    stride: usize,
    rows: Rows<W>,
    columns: Columns,
    /// One line as wide as the source, and room beyond for what is read but has no weight.
    sums: Vec<f32>,
    levels: Vec<Quad>,
}

/// The lines of a view of `picture` in whole levels, at most one from Pillow's `BILINEAR`.
pub(in crate::imaging) fn lines<'a>(picture: &'a RgbImage, view: &View) -> Lines<'a, i16> {
    Lines::new(picture, view)
}

/// The lines of a view of `picture` in levels that are not rounded, within a thousandth.
pub(in crate::imaging) fn exact_lines<'a>(picture: &'a RgbImage, view: &View) -> Lines<'a, f32> {
    Lines::new(picture, view)
}

impl<'a, W: Weight> Lines<'a, W> {
    fn new(picture: &'a RgbImage, view: &View) -> Self {
        let columns = Columns::new(&view.columns);
        let stride = picture.width() as usize * RGB;
        Self {
            source: picture.as_raw(),
            stride,
            rows: Rows::new(&view.rows),
            sums: vec![0.0; stride + columns.reach()],
            levels: vec![[0.0; 16]; columns.first.len()],
            columns,
        }
    }

    /// The next line in whole quads; `None` below the last one.
    pub(in crate::imaging) fn next(&mut self) -> Option<&[Quad]> {
        let (first, count) = self.rows.spans.next()?;
        let source = self.source.get(first * self.stride..)?;
        let weights = self.rows.weights.as_slice().get(..count)?;
        W::down(source, self.stride, weights, &mut self.sums);
        self.rows.weights.by_ref().take(count).for_each(drop);
        across(&self.sums, &self.columns, W::WHOLE, &mut self.levels);
        Some(&self.levels)
    }
}

#[cfg(test)]
mod tests;
