//! The part of a resized image that is computed.

use std::ops::Range;

/// One axis of a resize: source length, target length, and the target positions that are computed.
#[derive(Clone, Debug)]
pub(crate) struct Axis {
    /// Source samples, at least one.
    pub(crate) source: u32,
    /// Target samples, at least one.
    pub(crate) target: u32,
    /// The target positions that are computed, within `0..target`.
    pub(crate) range: Range<u32>,
}

impl Axis {
    /// Returns an axis of which every target position is computed.
    pub(super) fn full(source: u32, target: u32) -> Self {
        Self {
            source,
            target,
            range: 0..target,
        }
    }

    /// Returns the number of source samples per target sample. It is above 1 when the axis shrinks.
    pub(crate) fn scale(&self) -> f64 {
        f64::from(self.source) / f64::from(self.target)
    }

    /// Returns the start and the length of the computed range, in source samples.
    pub(super) fn source_span(&self) -> (f64, f64) {
        let source = f64::from(self.source);
        let edge = |position: u32| {
            // The last edge is exactly the source's length; the product may be off by rounding.
            if position == self.target {
                source
            } else {
                f64::from(position) * (source / f64::from(self.target))
            }
        };
        let start = edge(self.range.start);
        (start, edge(self.range.end) - start)
    }
}

/// Both axes of a resize.
///
/// Positions outside the ranges cost nothing. An image one pixel wide that is scaled to the width of a network's input
/// would otherwise be too tall to hold in memory.
#[derive(Clone, Debug)]
pub(crate) struct View {
    /// The horizontal axis.
    pub(crate) columns: Axis,
    /// The vertical axis.
    pub(crate) rows: Axis,
}

impl View {
    /// Returns the complete resize from `source` to `target`, both (width, height).
    pub(crate) fn full(source: (u32, u32), target: (u32, u32)) -> Self {
        Self {
            columns: Axis::full(source.0, target.0),
            rows: Axis::full(source.1, target.1),
        }
    }

    /// Returns the width and height of the computed part.
    pub(crate) fn size(&self) -> (u32, u32) {
        let len = |axis: &Axis| axis.range.end - axis.range.start;
        (len(&self.columns), len(&self.rows))
    }
}
