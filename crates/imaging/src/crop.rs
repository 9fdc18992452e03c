//! Crops: rectangular regions, the crop around masks, a box with a margin, and the size limits of crops.

mod mask;
mod region;

use image::RgbImage;

pub use mask::{MaskCrop, MaskCropOptions, Unmet, box_of_mask, mask_crop};
pub use region::{Region, put};
pub(super) use region::{rows, rows_mut};

/// Extends `region` by `margin` of its width on the left and right, and by `margin` of its height above and below. The
/// margins are rounded down to pixels. The result is clipped to the frame (width, height).
pub fn padded(frame: (u32, u32), region: Region, margin: f32) -> Region {
    let [x, y] = region.clipped(frame).spans();
    Region::from([x.padded(margin, frame.0).0, y.padded(margin, frame.1).0])
}

/// Returns the pixels of the part of `region` that lies inside the image.
pub fn crop(image: &RgbImage, region: Region) -> RgbImage {
    let region = region.clipped(image.dimensions());
    let (width, height) = (region.width(), region.height());
    let mut samples = Vec::with_capacity(width as usize * height as usize * region::CHANNELS);
    for row in rows(image, region) {
        samples.extend_from_slice(row);
    }
    RgbImage::from_raw(width, height, samples).unwrap_or_default()
}

/// Returns a copy of an image. Unlike `clone`, it has checkpoints.
pub fn copy(image: &RgbImage) -> RgbImage {
    crop(image, Region::full(image.dimensions()))
}

/// Limits for the sides of a crop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The maximum length of the short side in pixels.
    pub short: u32,
    /// The maximum length of the long side in pixels.
    pub long: u32,
    /// Both sides are multiples of this.
    pub multiple: u32,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            short: 640,
            long: 1280,
            multiple: 16,
        }
    }
}

/// Returns the (width, height) to which a crop of `size` = (width, height) is resized.
///
/// A short side above its limit is reduced to it, and the long side in proportion, rounded down. Then the long side is
/// limited in the same way. Then each side is rounded down to a multiple, at least one multiple.
pub fn bounded_size(size: (u32, u32), bounds: &Bounds) -> (u32, u32) {
    // The result is less than `side`, because `to` is less than `from`.
    let scaled =
        |side: u32, to: u32, from: u32| (u64::from(side) * u64::from(to) / u64::from(from)) as u32;
    let (mut short, mut long) = (size.0.min(size.1), size.0.max(size.1));
    if short > bounds.short {
        (short, long) = (bounds.short, scaled(long, bounds.short, short));
    }
    if long > bounds.long {
        (short, long) = (scaled(short, bounds.long, long), bounds.long);
    }
    let multiple = bounds.multiple.max(1);
    let [short, long] = [short, long].map(|side| (side / multiple).max(1) * multiple);
    if size.0 < size.1 {
        (short, long)
    } else {
        (long, short)
    }
}

#[cfg(test)]
mod tests;
