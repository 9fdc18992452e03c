//! The samples that the outputs of an axis are made of.

use super::triangle;
use crate::resize::{view::Axis, window::windows};

/// Fractional bits of weights in whole numbers, so that a weight of 1 fits 16 bits with its sign.
pub(super) const WEIGHT_BITS: u32 = 14;
pub(super) const ONE: f64 = (1 << WEIGHT_BITS) as f64;

/// A sample's weight, and with it how exact the levels are.
pub(super) trait Weight: Copy {
    /// Adds those of a window, which add up to 1.
    fn add(window: &[f64], weights: &mut Vec<Self>);
}

/// Fast, and within a tenth of a level: for levels that are rounded. They add up to [`ONE`] to the last bit.
impl Weight for i16 {
    fn add(window: &[f64], weights: &mut Vec<Self>) {
        let (mut ideal, mut given) = (0.0, 0);
        weights.extend(window.iter().map(|weight| {
            ideal += weight * ONE;
            let so_far = (ideal + 0.5) as i32;
            let part = so_far - given;
            given = so_far;
            part as Self
        }));
    }
}

/// Within a thousandth of a level, for levels that stay as they are.
impl Weight for f32 {
    fn add(window: &[f64], weights: &mut Vec<Self>) {
        weights.extend(window.iter().map(|weight| *weight as Self));
    }
}

/// The windows of an axis, from its start.
pub(super) struct Windows<W> {
    /// The first sample of each, and how many there are.
    pub(super) spans: Vec<(usize, usize)>,
    /// Their weights, one window's after the other's.
    pub(super) weights: Vec<W>,
}

impl<W: Weight> Windows<W> {
    pub(super) fn new(axis: &Axis) -> Self {
        let (mut spans, mut weights) = (Vec::with_capacity(axis.kept.len()), Vec::new());
        windows(axis, 1.0, triangle, |first, window| {
            spans.push((first, window.len()));
            W::add(window, &mut weights);
        });
        Self { spans, weights }
    }

    /// How many samples the widest one has.
    pub(super) fn most(&self) -> usize {
        let counts = self.spans.iter().map(|(_, count)| *count);
        counts.max().unwrap_or(0)
    }

    /// The first sample of each, and the weights from there on.
    pub(super) fn each(&self) -> impl Iterator<Item = (usize, &[W])> {
        let mut rest = self.weights.as_slice();
        self.spans.iter().map(move |(first, count)| {
            let (window, others) = rest.split_at(*count);
            rest = others;
            (*first, window)
        })
    }
}
