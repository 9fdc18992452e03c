//! Neighbourhood operations that equal Pillow's: sharpness and unsharp mask.

use image::RgbImage;

use super::tone::blend;

/// Standard deviation of the unsharp mask's blur.
pub(super) const UNSHARP_RADIUS: f32 = 1.0;
/// Share of the difference that is added.
pub(super) const UNSHARP_PERCENT: u32 = 120;
/// Differences up to this are left alone.
pub(super) const UNSHARP_THRESHOLD: u32 = 3;

const CHANNELS: usize = 3;

/// Moves every sample away from the smoothed picture, (1 1 1 / 1 5 1 / 1 1 1) / 13, by `factor`. The outermost
/// pixels are not smoothed, so they stay as they are.
pub(super) fn sharpness(picture: &RgbImage, factor: f32) -> RgbImage {
    let (width, height) = (picture.width() as usize, picture.height() as usize);
    let source = picture.as_raw();
    let mut sharper = picture.clone();
    let stride = width * CHANNELS;
    for y in 1..height.saturating_sub(1) {
        for i in y * stride + CHANNELS..(y + 1) * stride - CHANNELS {
            let row = |at: usize| {
                let sample = |j: usize| u32::from(source[j]);
                sample(at - CHANNELS) + sample(at) + sample(at + CHANNELS)
            };
            let sum = row(i - stride) + row(i) + row(i + stride) + 4 * u32::from(source[i]);
            // Rounded to the nearest; 13 is odd, so there are no ties.
            let smooth = ((sum + 6) / 13) as u8;
            sharper.as_mut()[i] = blend(smooth, source[i], factor);
        }
    }
    sharper
}

/// Adds 120 % of the difference from the blurred picture where it exceeds 3 levels.
pub(super) fn unsharp_mask(picture: &RgbImage) -> RgbImage {
    let mut blurred = picture.clone();
    blur(&mut blurred);
    let mut masked = picture.clone();
    for (sample, smooth) in masked.as_mut().iter_mut().zip(blurred.as_raw()) {
        let difference = i32::from(*sample) - i32::from(*smooth);
        if difference.unsigned_abs() > UNSHARP_THRESHOLD {
            let added = difference * UNSHARP_PERCENT as i32 / 100;
            *sample = (i32::from(*sample) + added).clamp(0, 255) as u8;
        }
    }
    masked
}

/// Pillow's Gaussian of σ = 1: three passes of an extended box along rows, then three along columns.
///
/// A box of σ²/3 variance a pass reaches a quarter of a pixel to either side (Gwosdek et al. 2011), so a pass
/// weighs the centre by 1 / 1.5 and its neighbours by half of what is left, in 24-bit fixed point.
fn blur(picture: &mut RgbImage) {
    const PASSES: usize = 3;
    let (width, height) = (picture.width() as usize, picture.height() as usize);
    let samples: &mut [u8] = picture.as_mut();
    let mut line = Vec::new();
    for row in samples.chunks_exact_mut((width * CHANNELS).max(1)) {
        for _ in 0..PASSES {
            pass(row, &mut line, CHANNELS);
        }
    }
    // A column of all channels is a strided line; whole rows are its elements.
    for _ in 0..PASSES {
        pass(samples, &mut line, width * CHANNELS);
    }
    debug_assert_eq!(samples.len(), width * height * CHANNELS);
}

/// One pass over elements that are `step` samples apart, the outermost repeated beyond the ends.
fn pass(samples: &mut [u8], before: &mut Vec<u8>, step: usize) {
    // 2²⁴ / 1.5 rounded up, as Pillow gets it from single precision; one less moves a sample in three.
    const CENTRE: u32 = 11_184_811;
    const SIDE: u32 = ((1 << 24) - CENTRE) / 2;
    before.clear();
    before.extend_from_slice(samples);
    let last = samples.len().saturating_sub(step);
    for (i, sample) in samples.iter_mut().enumerate() {
        let left = before[if i < step { i } else { i - step }];
        let right = before[if i >= last { i } else { i + step }];
        let sides = (u32::from(left) + u32::from(right)) * SIDE;
        *sample = ((u32::from(before[i]) * CENTRE + sides + (1 << 23)) >> 24) as u8;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::{assert_within, picture, synthetic};
    use image::Rgb;

    #[test]
    fn sharpness_equals_pillow() {
        let ours = sharpness(&synthetic(48, 36), 1.1);
        assert_within(&ours, &picture("sharpness.png"), 0, "sharpness");
    }

    #[test]
    fn the_unsharp_mask_equals_pillow() {
        let ours = unsharp_mask(&synthetic(48, 36));
        assert_within(&ours, &picture("unsharp.png"), 1, "unsharp mask");
    }

    #[test]
    fn tiny_and_flat_pictures_stay() {
        for (width, height) in [(1, 1), (1, 5), (5, 1), (2, 2)] {
            let flat = RgbImage::from_pixel(width, height, Rgb([9, 99, 199]));
            assert_eq!(sharpness(&flat, 1.1), flat);
            assert_eq!(unsharp_mask(&flat), flat);
        }
    }
}
