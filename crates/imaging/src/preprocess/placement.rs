//! The placement of a scaled image in the output.

use std::ops::Range;

use super::Mode;
use crate::resize::view::{Axis, View};

/// The size and position of a scaled image in the output, in output pixels, x before y.
///
/// When stretching, `scaled` equals `output` and `at` is 0. In a letterbox `scaled` is smaller than `output`. In a
/// center crop `scaled` is larger, and `at` is half the difference, negative.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Width and height of the complete scaled image. Parts of it may lie outside the output.
    pub scaled: (u32, u32),
    /// Width and height of the output.
    pub output: (u32, u32),
    /// The top left corner of the scaled image: positive where the output is padded, negative where the image is
    /// cropped.
    pub at: (i64, i64),
}

impl Placement {
    /// Fits an image of `size` to the configured size, both (width, height). A side of 0 counts as 1.
    pub(super) fn new(mode: Mode, size: (u32, u32), set: (u32, u32)) -> Self {
        let [(w, h), (set_w, set_h)] = [size, set].map(|(w, h)| (w.max(1), h.max(1)));
        let by_width = (set_w, scaled_side(h, w, set_w));
        let by_height = (scaled_side(w, h, set_h), set_h);
        // Whether the width limits the scale. It compares integers, because a rounded quotient may fall on either side
        // of 1.
        let wide = u64::from(w) * u64::from(set_h) >= u64::from(h) * u64::from(set_w);
        let set = (set_w, set_h);
        let (scaled, output) = match mode {
            Mode::Stretch => (set, set),
            Mode::Letterbox => (if wide { by_width } else { by_height }, set),
            Mode::CenterCrop => (if wide { by_height } else { by_width }, set),
            Mode::ShortSide => {
                let short = set_w.min(set_h);
                let scaled = if w <= h {
                    (short, scaled_side(h, w, short))
                } else {
                    (scaled_side(w, h, short), short)
                };
                (scaled, scaled)
            }
        };
        // The division rounds toward 0, so the left and the top get the smaller half of an odd number of pixels.
        let centered = |scaled: u32, output: u32| (i64::from(output) - i64::from(scaled)) / 2;
        Self {
            scaled,
            output,
            at: (centered(scaled.0, output.0), centered(scaled.1, output.1)),
        }
    }

    /// Stretches to `output`; the aspect ratio may change.
    pub fn stretch(output: (u32, u32)) -> Self {
        Self {
            scaled: output,
            output,
            at: (0, 0),
        }
    }

    /// Returns the columns and the rows of the scaled image that the output covers, counted from its first. A range
    /// starts below 0, or ends after the scaled image, where the output is padded.
    pub fn covered(&self) -> [Range<i64>; 2] {
        let along = |output: u32, at: i64| -at..i64::from(output) - at;
        [
            along(self.output.0, self.at.0),
            along(self.output.1, self.at.1),
        ]
    }

    /// Returns whether the output has padding.
    pub(super) fn pads(&self) -> bool {
        self.scaled.0 < self.output.0 || self.scaled.1 < self.output.1
    }

    /// Returns the part of an image of `size` that lies in the output. The image must have pixels.
    pub(super) fn view(&self, size: (u32, u32)) -> View {
        let axis = |source, target, output, at| Axis {
            source,
            target,
            range: visible(target, output, at),
        };
        View {
            columns: axis(size.0, self.scaled.0, self.output.0, self.at.0),
            rows: axis(size.1, self.scaled.1, self.output.1, self.at.1),
        }
    }

    /// Returns the output position (column, line) of the first pixel of the view.
    pub(super) fn corner(&self) -> (usize, usize) {
        let inside = |at: i64| usize::try_from(at).unwrap_or(0);
        (inside(self.at.0), inside(self.at.1))
    }
}

/// Returns `side` times `target / other`, rounded to the nearest pixel. Halves are rounded up, and the result is at
/// least 1.
fn scaled_side(side: u32, other: u32, target: u32) -> u32 {
    let [side, other, target] = [side, other, target].map(u128::from);
    let scaled = (2 * side * target + other) / (2 * other);
    u32::try_from(scaled).unwrap_or(u32::MAX).max(1)
}

/// Returns the pixels of a scaled side that lie in `0..output`, when the first one lies at `at`.
fn visible(scaled: u32, output: u32, at: i64) -> Range<u32> {
    let within = |position: i64| position.clamp(0, i64::from(scaled)) as u32;
    within(-at)..within(i64::from(output) - at)
}
