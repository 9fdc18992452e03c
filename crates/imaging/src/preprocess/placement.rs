//! Where a scaled picture lies in the output.

use std::ops::Range;

use super::Mode;
use crate::resize::view::{Axis, View};

/// Where a scaled picture lies in the output, in output pixels, x before y.
///
/// Stretching has `scaled` equal to `output` and `at` 0; a letterbox has a smaller `scaled`; a centre crop a larger
/// one and `at` half the difference, below 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Width and height of the whole scaled picture, of which not all need lie in the output.
    pub scaled: (u32, u32),
    /// Width and height of the output.
    pub output: (u32, u32),
    /// The scaled picture's top left corner: above 0 where the output is padded, below 0 where the picture is cut.
    pub at: (i64, i64),
}

impl Placement {
    /// Fits a picture of `size` to `set`, both width and height; a side of 0 counts as 1.
    pub(super) fn new(mode: Mode, size: (u32, u32), set: (u32, u32)) -> Self {
        let [(w, h), (set_w, set_h)] = [size, set].map(|(w, h)| (w.max(1), h.max(1)));
        let by_width = (set_w, follow(h, w, set_w));
        let by_height = (follow(w, h, set_h), set_h);
        // Which side the picture reaches first, in whole numbers: a quotient may fall on either side of 1.
        let wide = u64::from(w) * u64::from(set_h) >= u64::from(h) * u64::from(set_w);
        let set = (set_w, set_h);
        let (scaled, output) = match mode {
            Mode::Stretch => (set, set),
            Mode::Letterbox => (if wide { by_width } else { by_height }, set),
            Mode::CenterCrop => (if wide { by_height } else { by_width }, set),
            Mode::ShortSide => {
                let short = set_w.min(set_h);
                let scaled = if w <= h {
                    (short, follow(h, w, short))
                } else {
                    (follow(w, h, short), short)
                };
                (scaled, scaled)
            }
        };
        // Towards 0: of an odd pixel of padding or of picture, the left and the top have less.
        let middle = |scaled: u32, output: u32| (i64::from(output) - i64::from(scaled)) / 2;
        Self {
            scaled,
            output,
            at: (middle(scaled.0, output.0), middle(scaled.1, output.1)),
        }
    }

    /// Scales without regard to the aspect.
    pub fn stretch(output: (u32, u32)) -> Self {
        Self {
            scaled: output,
            output,
            at: (0, 0),
        }
    }

    /// The columns and the rows of the scaled picture that lie in the output, counted from its first: from below 0, or to
    /// beyond it, where the output is padded.
    pub fn shown(&self) -> [Range<i64>; 2] {
        let along = |output: u32, at: i64| -at..i64::from(output) - at;
        [
            along(self.output.0, self.at.0),
            along(self.output.1, self.at.1),
        ]
    }

    /// Whether the output is larger than the picture.
    pub(super) fn pads(&self) -> bool {
        self.scaled.0 < self.output.0 || self.scaled.1 < self.output.1
    }

    /// What lies in the output of a picture of `size`, which has pixels.
    pub(super) fn view(&self, size: (u32, u32)) -> View {
        let axis = |old, new, output, at| Axis {
            old,
            new,
            kept: kept(new, output, at),
        };
        View {
            columns: axis(size.0, self.scaled.0, self.output.0, self.at.0),
            rows: axis(size.1, self.scaled.1, self.output.1, self.at.1),
        }
    }

    /// Column and line of the output that the view's first pixel lies in.
    pub(super) fn corner(&self) -> (usize, usize) {
        let inside = |at: i64| usize::try_from(at).unwrap_or(0);
        (inside(self.at.0), inside(self.at.1))
    }
}

/// `side` scaled as `other` is when it becomes `target`: to the nearest pixel, halves up, and at least 1.
fn follow(side: u32, other: u32, target: u32) -> u32 {
    let [side, other, target] = [side, other, target].map(u128::from);
    let scaled = (2 * side * target + other) / (2 * other);
    u32::try_from(scaled).unwrap_or(u32::MAX).max(1)
}

/// Which of `scaled` pixels, of which the first is at `at`, lie in 0..`output`.
fn kept(scaled: u32, output: u32, at: i64) -> Range<u32> {
    let within = |position: i64| position.clamp(0, i64::from(scaled)) as u32;
    within(-at)..within(i64::from(output) - at)
}
