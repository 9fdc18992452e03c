//! The crop around masks.

use image::{GenericImageView, GrayImage, RgbImage, imageops};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::region::{Region, Span};
use crate::checkpoint::strips;

/// The highest level of a pixel outside a mask: half of 255, rounded down.
const MASK_HALF: u8 = 127;

/// Options of the crop around masks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MaskCropOptions {
    /// The padding on each side, as a share of the masks' width or height; 0 or more.
    pub padding_ratio: f32,
    /// The smallest width and height in pixels.
    pub min_size: (u32, u32),
    /// The largest ratio of the longer to the shorter side; 1 or more.
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

/// A constraint that the crop does not meet, because the frame is too small.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Unmet {
    /// A side is odd.
    Odd,
    /// The ratio of the sides is above the maximum.
    Aspect,
    /// A side is below the minimum.
    MinSize,
}

/// The crop around masks.
#[derive(Clone, Debug, PartialEq)]
pub struct MaskCrop {
    /// The region of the crop, inside the frame.
    pub region: Region,
    /// The constraints that are not met, each once, in the order of [`Unmet`].
    pub unmet: Vec<Unmet>,
    /// Whether the padding was clipped to the frame.
    pub padding_clipped: bool,
}

/// Returns the tight box around the pixels of a mask above one half, from level 128 on. Returns `None` if there are none.
fn mask_box(mask: &GrayImage) -> Option<Region> {
    let width = mask.width().max(1) as usize;
    let rows = (0..).zip(mask.as_raw().chunks_exact(width));
    rows.filter_map(|(y, row)| row_box(y, row))
        .reduce(Region::union)
}

/// Returns the box around the inside pixels of a mask, an image in any colors.
pub fn box_of_mask(mask: &RgbImage) -> Option<Region> {
    let (width, height) = mask.dimensions();
    let boxes = strips(height, width as usize * 3).filter_map(|strip| {
        let rows = GenericImageView::view(mask, 0, strip.start, width, strip.len() as u32);
        let found = mask_box(&imageops::grayscale(&*rows))?;
        Some(Region {
            y1: found.y1 + strip.start,
            y2: found.y2 + strip.start,
            ..found
        })
    });
    boxes.reduce(Region::union)
}

/// Returns the box around the inside pixels of row `y`.
fn row_box(y: u32, row: &[u8]) -> Option<Region> {
    // Most rows have no inside pixel, and this test reads many samples at a time. Only levels from 128 on have the
    // highest bit.
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

/// Returns the crop around the masks' box `tight` in a frame of `frame` = (width, height).
///
/// 1. `tight` is padded by `padding_ratio` of each side, rounded down, and clipped to the frame.
/// 2. A side below the minimum grows to it: half of the growth before, rounded down, and the rest after. Growth that
///    does not fit at one end goes to the other.
/// 3. A side below the other side divided by `max_aspect`, rounded down, grows to that length in the same way.
/// 4. An odd side grows by one pixel after it, or before it if there is no room.
///
/// The crop never leaves the frame; constraints that the frame does not allow are listed. The aspect ratio is checked
/// before the last step, so that the additional pixel does not count.
pub fn mask_crop(frame: (u32, u32), tight: Region, options: &MaskCropOptions) -> MaskCrop {
    let [x, y] = tight.clipped(frame).spans();
    let (x, clipped_across) = x.padded(options.padding_ratio, frame.0);
    let (y, clipped_down) = y.padded(options.padding_ratio, frame.1);
    let x = x.grown(options.min_size.0, frame.0);
    let y = y.grown(options.min_size.1, frame.1);
    // Below 1, each side would have to be longer than the other.
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
