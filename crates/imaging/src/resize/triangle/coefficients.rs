//! The windows of an axis as kernels read them: the first source sample and the weights of every target position.

use super::triangle;
use crate::resize::{view::Axis, window::windows};

/// Fractional bits of a fixed-point weight. A weight of 1 fits 16 bits with its sign.
pub(super) const WEIGHT_BITS: u32 = 14;
/// A weight of 1 in fixed point.
const ONE: f64 = (1 << WEIGHT_BITS) as f64;

/// The number type of a weight.
pub(super) trait Weight: Copy {
    /// Appends the weights of one window, which add up to 1.
    fn append(window: &[f64], weights: &mut Vec<Self>);
}

/// Fixed point with [`WEIGHT_BITS`] fractional bits; the weights of a window add up to exactly [`ONE`].
///
/// Each weight is the difference of two rounded running sums, so every running sum is off by at most half a unit. By
/// summation by parts the weighted mean of `n` samples in 0..=255 is off by at most `½ · (n − 1) · 255 / 2¹⁴` levels,
/// which is 0.0078 levels per tap.
impl Weight for i16 {
    fn append(window: &[f64], weights: &mut Vec<Self>) {
        let (mut exact, mut used) = (0.0, 0);
        weights.extend(window.iter().map(|weight| {
            exact += weight * ONE;
            let rounded = (exact + 0.5) as i32;
            let part = rounded - used;
            used = rounded;
            part as Self
        }));
    }
}

/// Single precision, for means within a thousandth of a level.
impl Weight for f32 {
    fn append(window: &[f64], weights: &mut Vec<Self>) {
        weights.extend(window.iter().map(|weight| *weight as Self));
    }
}

/// The windows of the computed positions of an axis, in order.
pub(super) struct Coefficients<W> {
    /// The first source sample and the number of taps of each position.
    pub(super) spans: Vec<(usize, usize)>,
    /// The weights of all windows, one after the other.
    pub(super) weights: Vec<W>,
}

impl<W: Weight> Coefficients<W> {
    pub(super) fn new(axis: &Axis) -> Self {
        let (mut spans, mut weights) = (Vec::with_capacity(axis.range.len()), Vec::new());
        windows(axis, 1.0, triangle, |first, window| {
            spans.push((first, window.len()));
            W::append(window, &mut weights);
        });
        Self { spans, weights }
    }

    /// Returns the number of taps of the widest window.
    pub(super) fn max_taps(&self) -> usize {
        let counts = self.spans.iter().map(|(_, count)| *count);
        counts.max().unwrap_or(0)
    }

    /// Returns the first source sample and the weights of each position.
    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, &[W])> {
        let mut rest = self.weights.as_slice();
        self.spans.iter().map(move |(first, count)| {
            let (window, others) = rest.split_at(*count);
            rest = others;
            (*first, window)
        })
    }
}
