//! Pillow's neighborhood filters: sharpness and unsharp mask.

use image::RgbImage;

use crate::{
    checkpoint::{STRIP, passed},
    crop::copy,
};

use super::{
    BLUR_BITS, BLUR_CENTER, BLUR_PASSES, BLUR_SIDE, SMOOTH_CENTER, SMOOTH_SUM, UNSHARP_PERCENT,
    UNSHARP_THRESHOLD, tone::blend,
};

const CHANNELS: usize = 3;

/// Scales the difference of every sample from the smoothed image, (1 1 1 / 1 5 1 / 1 1 1) / 13, by `factor`. The
/// outermost pixels are not smoothed, so they do not change.
pub(super) fn sharpness(image: &RgbImage, factor: f32) -> RgbImage {
    let (width, height) = (image.width() as usize, image.height() as usize);
    let source = image.as_raw();
    let mut sharper = copy(image);
    let stride = width * CHANNELS;
    for y in 1..height.saturating_sub(1) {
        for i in y * stride + CHANNELS..(y + 1) * stride - CHANNELS {
            let row = |at: usize| {
                let sample = |j: usize| u32::from(source[j]);
                sample(at - CHANNELS) + sample(at) + sample(at + CHANNELS)
            };
            let sum = row(i - stride)
                + row(i)
                + row(i + stride)
                + (SMOOTH_CENTER - 1) * u32::from(source[i]);
            // Rounded to the nearest; the sum is odd, so there are no ties.
            let smooth = ((sum + SMOOTH_SUM / 2) / SMOOTH_SUM) as u8;
            sharper.as_mut()[i] = blend(smooth, source[i], factor);
        }
        passed(8 * stride);
    }
    sharper
}

/// Adds [`UNSHARP_PERCENT`] of the difference from the blurred image where it exceeds [`UNSHARP_THRESHOLD`].
pub(super) fn unsharp_mask(image: &RgbImage) -> RgbImage {
    let mut masked = copy(image);
    blur(&mut masked);
    let strips = masked.chunks_mut(STRIP);
    for (strip, sharp) in strips.zip(image.as_raw().chunks(STRIP)) {
        for (sample, sharp) in strip.iter_mut().zip(sharp) {
            let difference = i32::from(*sharp) - i32::from(*sample);
            *sample = *sharp;
            if difference.unsigned_abs() > UNSHARP_THRESHOLD {
                let added = difference * UNSHARP_PERCENT as i32 / 100;
                *sample = (i32::from(*sharp) + added).clamp(0, 255) as u8;
            }
        }
        passed(4 * strip.len());
    }
    masked
}

/// Applies Pillow's Gaussian of σ = 1: [`BLUR_PASSES`] passes of an extended box along rows, then as many along
/// columns.
///
/// Each pass has the variance σ²/3. That is a box that extends a quarter of a pixel beyond the center pixel on both
/// sides (Gwosdek et al. 2011), so the center has the weight 1 / 1.5 and its neighbors share the rest.
fn blur(image: &mut RgbImage) {
    let stride = (image.width() as usize * CHANNELS).max(1);
    let samples: &mut [u8] = image.as_mut();
    let mut line = Vec::new();
    for row in samples.chunks_exact_mut(stride) {
        for _ in 0..BLUR_PASSES {
            pass_along(row, &mut line);
        }
        passed(4 * BLUR_PASSES * stride);
    }
    for _ in 0..BLUR_PASSES {
        pass_down(samples, stride);
    }
}

/// Runs one pass along a row. The outermost pixels are repeated beyond the ends.
fn pass_along(row: &mut [u8], before: &mut Vec<u8>) {
    before.clear();
    before.extend_from_slice(row);
    let last = row.len().saturating_sub(CHANNELS);
    for (i, sample) in row.iter_mut().enumerate() {
        let left = before[if i < CHANNELS { i } else { i - CHANNELS }];
        let right = before[if i >= last { i } else { i + CHANNELS }];
        *sample = weigh(left, before[i], right);
    }
}

/// Runs one pass down the columns. The outermost rows are repeated beyond the ends.
fn pass_down(samples: &mut [u8], stride: usize) {
    // The row above as it was before the pass.
    let mut above = samples.get(..stride).unwrap_or_default().to_vec();
    let height = samples.len() / stride;
    for y in 0..height {
        let (row, below) = samples[y * stride..].split_at_mut(stride);
        for (i, (sample, above)) in row.iter_mut().zip(&mut above).enumerate() {
            let before = *sample;
            let below = below.get(i).copied().unwrap_or(before);
            *sample = weigh(*above, before, below);
            *above = before;
        }
        passed(4 * stride);
    }
}

fn weigh(left: u8, center: u8, right: u8) -> u8 {
    let sides = (u32::from(left) + u32::from(right)) * BLUR_SIDE;
    let sum = u32::from(center) * BLUR_CENTER + sides + (1 << (BLUR_BITS - 1));
    (sum >> BLUR_BITS) as u8
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::{assert_within, fixture_image, synthetic};
    use image::Rgb;

    #[test]
    fn sharpness_equals_pillow() {
        let ours = sharpness(&synthetic(48, 36), 1.1);
        assert_within(&ours, &fixture_image("sharpness.png"), 0, "sharpness");
    }

    #[test]
    fn the_unsharp_mask_equals_pillow() {
        let ours = unsharp_mask(&synthetic(48, 36));
        assert_within(&ours, &fixture_image("unsharp.png"), 1, "unsharp mask");
    }

    #[test]
    fn tiny_and_flat_images_do_not_change() {
        for (width, height) in [(1, 1), (1, 5), (5, 1), (2, 2)] {
            let flat = RgbImage::from_pixel(width, height, Rgb([9, 99, 199]));
            assert_eq!(sharpness(&flat, 1.1), flat);
            assert_eq!(unsharp_mask(&flat), flat);
        }
    }
}
