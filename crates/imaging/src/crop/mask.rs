//! The crop around masks.

use image::GrayImage;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::region::{Region, Span};

/// The highest level of a mask that is outside it: half of 255, rounded down.
const MASK_HALF: u8 = 127;

/// How a crop is laid around masks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MaskCropOptions {
    /// What is added on each side, as a share of the masks' width or height; 0 or more.
    pub padding_ratio: f32,
    /// The least width and height in pixels.
    pub min_size: (u32, u32),
    /// The longer side is at most so many times the shorter; 1 or more.
    pub max_aspect: f32,
}

impl Default for MaskCropOptions {
    fn default() -> Self {
        Self {
            padding_ratio: 0.5,
            min_size: (512, 512),
            max_aspect: 2.0,
        }
    }
}

/// What a crop was asked for and the frame has no room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Unmet {
    /// A side is odd.
    Odd,
    /// The longer side is more than the shorter one allows.
    Aspect,
    /// A side is shorter than the least.
    MinSize,
}

/// The crop around masks.
#[derive(Clone, Debug, PartialEq)]
pub struct MaskCrop {
    /// What to cut, inside the frame.
    pub region: Region,
    /// The constraints that do not hold, each once, in the order of [`Unmet`].
    pub unmet: Vec<Unmet>,
    /// Whether the frame had no room for all of the padding.
    pub padding_clipped: bool,
}

/// The tight box around the union of `masks`, whose pixels are inside where they are over one half: level 128 and up.
/// `None` where no pixel is.
pub fn mask_box<'a>(masks: impl IntoIterator<Item = &'a GrayImage>) -> Option<Region> {
    let rows = masks.into_iter().flat_map(|mask| {
        let width = mask.width().max(1) as usize;
        (0..mask.height()).zip(mask.as_raw().chunks_exact(width))
    });
    rows.filter_map(|(y, row)| row_box(y, row))
        .reduce(Region::union)
}

/// The box around what row `y` of a mask has inside.
fn row_box(y: u32, row: &[u8]) -> Option<Region> {
    // Most rows have nothing, and this looks at many samples at a time. Only levels from 128 on have the highest bit.
    if row.iter().fold(0, |bits, level| bits | level) <= MASK_HALF {
        return None;
    }
    let inside = |level: &u8| *level > MASK_HALF;
    Some(Region {
        x1: row.iter().position(inside)? as u32,
        y1: y,
        x2: row.iter().rposition(inside)? as u32 + 1,
        y2: y + 1,
    })
}

/// Lays a crop around the masks' box `tight` in a frame of `frame` = (width, height).
///
/// 1. `tight` is padded by `padding_ratio` of each side, rounded down, as far as the frame goes.
/// 2. A side under the minimum grows to it: half of it before, rounded down, and the rest after; what does not fit
///    at one end goes to the other.
/// 3. A side under the other divided by `max_aspect`, rounded down, grows to that in the same way.
/// 4. An odd side takes one pixel more after it, else before it.
///
/// Nothing is ever taken past the frame: what could not hold for it is listed. The aspect is judged before the last
/// step, so that a pixel more does not count as a shape that is too long.
pub fn mask_crop(frame: (u32, u32), tight: Region, options: &MaskCropOptions) -> MaskCrop {
    let [x, y] = tight.clipped(frame).spans();
    let (x, clipped_across) = x.padded(options.padding_ratio, frame.0);
    let (y, clipped_down) = y.padded(options.padding_ratio, frame.1);
    let x = x.grown(options.min_size.0, frame.0);
    let y = y.grown(options.min_size.1, frame.1);
    // No rectangle has both sides longer than the other.
    let max_aspect = options.max_aspect.max(1.0);
    let least = |beside: Span| (beside.length() as f32 / max_aspect) as u32;
    let x = x.grown(least(y), frame.0);
    let y = y.grown(least(x), frame.1);
    let long = x.length() < least(y) || y.length() < least(x);
    let region = Region::from([x.even(frame.0), y.even(frame.1)]);
    let sides = [region.width(), region.height()];
    let small = sides[0] < options.min_size.0 || sides[1] < options.min_size.1;
    let unmet = [
        (sides.iter().any(|side| side % 2 == 1), Unmet::Odd),
        (long, Unmet::Aspect),
        (small, Unmet::MinSize),
    ];
    MaskCrop {
        region,
        unmet: unmet
            .into_iter()
            .filter_map(|(not, constraint)| not.then_some(constraint))
            .collect(),
        padding_clipped: clipped_across || clipped_down,
    }
}

#[cfg(test)]
mod tests;
