//! What is computed of a scaled picture.

use std::ops::Range;

/// One axis of a scaled picture.
#[derive(Clone, Debug)]
pub(crate) struct Axis {
    /// Samples of the source, at least one.
    pub(crate) old: u32,
    /// Samples after scaling, at least one.
    pub(crate) new: u32,
    /// Which of the new ones are computed.
    pub(crate) kept: Range<u32>,
}

impl Axis {
    pub(super) fn whole(old: u32, new: u32) -> Self {
        Self {
            old,
            new,
            kept: 0..new,
        }
    }

    /// Where the kept samples begin in the source, and how far they reach, in source samples.
    pub(super) fn span(&self) -> (f64, f64) {
        let old = f64::from(self.old);
        let edge = |at: u32| {
            // The last edge is the source's to the last bit, which a product need not be.
            if at == self.new {
                old
            } else {
                f64::from(at) * (old / f64::from(self.new))
            }
        };
        let start = edge(self.kept.start);
        (start, edge(self.kept.end) - start)
    }
}

/// Both axes of a scaled picture. What is cut away costs nothing: a picture one pixel wide that is made as wide as a
/// network's input is too tall to be held.
#[derive(Clone, Debug)]
pub(crate) struct View {
    pub(crate) columns: Axis,
    pub(crate) rows: Axis,
}

impl View {
    /// All of a picture of the size `old` at the size `new`, both width and height.
    pub(crate) fn whole(old: (u32, u32), new: (u32, u32)) -> Self {
        Self {
            columns: Axis::whole(old.0, new.0),
            rows: Axis::whole(old.1, new.1),
        }
    }

    /// Width and height of what is computed.
    pub(crate) fn size(&self) -> (u32, u32) {
        let len = |axis: &Axis| axis.kept.end - axis.kept.start;
        (len(&self.columns), len(&self.rows))
    }
}
