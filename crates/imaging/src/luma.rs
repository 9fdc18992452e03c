//! Gray by the luma of ITU-R BT.601: `0.299 R + 0.587 G + 0.114 B`.
//!
//! The weights are defined here once, for the CPU and for the graphs that devices run. Three roundings are in use, because
//! each operation matches the library that defines it.

use image::RgbImage;

use crate::{
    checkpoint::{STRIP, passed},
    crop::copy,
};

/// The weights of red, green and blue. ITU-R BT.601, section 2.5.1.
pub const BT601: [f32; 3] = [0.299, 0.587, 0.114];

/// [`BT601`] in fixed point with [`PILLOW_BITS`] fractional bits. The weights add up to one. Pillow's `convert("L")`
/// uses them.
pub const BT601_PILLOW: [u32; 3] = [19_595, 38_470, 7_471];
/// Fractional bits of [`BT601_PILLOW`].
pub const PILLOW_BITS: u32 = 16;

/// [`BT601`] in fixed point with [`OPENCV_BITS`] fractional bits. The weights add up to one. OpenCV's `COLOR_RGB2GRAY`
/// uses them for 8 bits.
const BT601_OPENCV: [u32; 3] = [4_899, 9_617, 1_868];
/// Fractional bits of [`BT601_OPENCV`].
const OPENCV_BITS: u32 = 14;

/// Returns the luma without rounding, 0..=255.
#[inline(always)]
pub(crate) fn exact([r, g, b]: [u8; 3]) -> f32 {
    BT601[0] * f32::from(r) + BT601[1] * f32::from(g) + BT601[2] * f32::from(b)
}

/// Returns Pillow's luma, rounded to the nearest level.
#[inline(always)]
pub(crate) fn pillow(pixel: [u8; 3]) -> u8 {
    fixed_point(pixel, BT601_PILLOW, PILLOW_BITS)
}

/// Returns OpenCV's luma, rounded to the nearest level.
#[inline(always)]
pub(crate) fn opencv(pixel: [u8; 3]) -> u8 {
    fixed_point(pixel, BT601_OPENCV, OPENCV_BITS)
}

#[inline(always)]
fn fixed_point(pixel: [u8; 3], weights: [u32; 3], bits: u32) -> u8 {
    let [r, g, b] = pixel.map(u32::from);
    ((weights[0] * r + weights[1] * g + weights[2] * b + (1 << (bits - 1))) >> bits) as u8
}

/// Returns the image in gray: three equal channels, equal to Pillow's `convert("L")`.
pub fn grayscale(image: &RgbImage) -> RgbImage {
    let mut gray = copy(image);
    for strip in gray.as_chunks_mut::<3>().0.chunks_mut(STRIP) {
        for pixel in strip.iter_mut() {
            *pixel = [pillow(*pixel); 3];
        }
        passed(3 * strip.len());
    }
    gray
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::{fixture_image, synthetic};

    #[test]
    fn gray_equals_pillow() {
        assert_eq!(grayscale(&synthetic(97, 61)), fixture_image("gray.png"));
    }

    #[test]
    fn fixed_point_weights_are_the_rounded_definition() {
        for (weights, bits) in [(BT601_PILLOW, PILLOW_BITS), (BT601_OPENCV, OPENCV_BITS)] {
            let one = f64::from(1 << bits);
            for (weight, exact) in weights.iter().zip(BT601) {
                let apart = (f64::from(*weight) / one - f64::from(exact)).abs();
                assert!(apart < 1.0 / one, "{weight} of {one}");
            }
            assert_eq!(weights.iter().sum::<u32>(), 1 << bits);
        }
    }
}
