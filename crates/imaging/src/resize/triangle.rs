//! Bilinear sampling with the triangle widened when shrinking: columns first, because the samples that are weighed alike lie
//! side by side there; then rows.

mod across;
mod down;
mod eights;
mod exact;
mod pairs;
mod ramps;
mod whole;
mod windows;
#[cfg(target_arch = "x86_64")]
mod x86;

use super::{
    RGB,
    view::{Axis, View},
};
use down::Stack;
use windows::{Weight, Windows};

pub(crate) use exact::exact_lines;
pub(crate) use whole::lines;

/// Four pixels of a line: red, green, blue and something, each in levels.
pub(crate) type Quad = [f32; 16];

/// The rows that lines are made of.
struct Rows<'a, W> {
    source: &'a [u8],
    stride: usize,
    /// The first row of each line, and how many there are.
    spans: std::vec::IntoIter<(usize, usize)>,
    /// The weights of the rows of those lines, one line after the other.
    weights: Vec<W>,
    /// How many of them belong to the lines so far.
    used: usize,
}

impl<'a, W: Weight> Rows<'a, W> {
    /// The rows of a picture of so many samples a row.
    fn new(source: &'a [u8], stride: usize, axis: &Axis) -> Self {
        let Windows { spans, weights } = Windows::new(axis);
        Self {
            source,
            stride,
            spans: spans.into_iter(),
            weights,
            used: 0,
        }
    }

    /// Those of the next line; `None` below the last one.
    fn next(&mut self) -> Option<Stack<'_, W>> {
        let (first, count) = self.spans.next()?;
        let start = self.used;
        self.used += count;
        let end = (first + count) * self.stride;
        let next = self.spans.as_slice().first();
        let until = next.map_or(end, |(first, count)| (first + count) * self.stride);
        Some(Stack {
            ahead: self.source.get(end..until).unwrap_or_default(),
            source: self.source.get(first * self.stride..)?,
            stride: self.stride,
            weights: self.weights.get(start..self.used)?,
        })
    }
}

pub(super) fn triangle(x: f64) -> f64 {
    (1.0 - x.abs()).max(0.0)
}

#[cfg(test)]
mod tests;
