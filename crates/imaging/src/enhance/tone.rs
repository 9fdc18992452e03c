//! Point operations: contrast as Pillow's `ImageEnhance.Contrast`, and gamma.

use image::RgbImage;

use super::Gamma;

/// Pillow's 8-bit luma: BT.601 in 16-bit fixed point, rounded.
pub(super) fn luma(pixel: [u8; 3]) -> u8 {
    let [r, g, b] = pixel.map(u32::from);
    ((19_595 * r + 38_470 * g + 7_471 * b + 0x8000) >> 16) as u8
}

fn mean_luma(picture: &RgbImage) -> f64 {
    let sum: u64 = picture.pixels().map(|p| u64::from(luma(p.0))).sum();
    sum as f64 / (f64::from(picture.width()) * f64::from(picture.height()))
}

/// `from + factor · (to − from)`, cut to 0..=255 and truncated: Pillow's blend.
pub(super) fn blend(from: u8, to: u8, factor: f32) -> u8 {
    // The cast truncates and saturates.
    (f32::from(from) + factor * (f32::from(to) - f32::from(from))) as u8
}

/// Moves every sample away from the rounded mean luma by `factor`.
pub(super) fn contrast(picture: &mut RgbImage, factor: f32) {
    let middle = (mean_luma(picture) + 0.5) as u8;
    let table: [u8; 256] = std::array::from_fn(|x| blend(middle, x as u8, factor));
    look_up(picture, &table);
}

/// The exponent to use, if any.
pub(super) fn exponent(picture: &RgbImage, gamma: Gamma) -> Option<f32> {
    match gamma {
        Gamma::Off => None,
        Gamma::Value(gamma) => gamma.is_finite().then(|| gamma.clamp(0.1, 10.0)),
        Gamma::Auto => {
            let mean = mean_luma(picture);
            // A black picture has nothing to lift; one level keeps its logarithm finite.
            let lift = (110.0f64 / 255.0).ln() / (mean.max(1.0) / 255.0).ln();
            (mean < 90.0).then(|| lift.clamp(0.4, 1.0) as f32)
        }
    }
}

/// `255 · (x / 255)^gamma`, rounded.
pub(super) fn gamma(picture: &mut RgbImage, gamma: f32) {
    let table: [u8; 256] =
        std::array::from_fn(|x| ((x as f32 / 255.0).powf(gamma) * 255.0).round() as u8);
    look_up(picture, &table);
}

fn look_up(picture: &mut RgbImage, table: &[u8; 256]) {
    for sample in picture.as_mut() {
        *sample = table[usize::from(*sample)];
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::{assert_within, picture, synthetic};
    use image::Rgb;

    #[test]
    fn contrast_equals_pillow() {
        let mut ours = synthetic(48, 36);
        contrast(&mut ours, 1.15);
        assert_within(&ours, &picture("contrast.png"), 0, "contrast");
    }

    #[test]
    fn automatic_gamma_lifts_dark_pictures_to_the_same_mean() {
        let dark = RgbImage::from_pixel(4, 4, Rgb([60; 3]));
        let found = exponent(&dark, Gamma::Auto).unwrap();
        let mut lifted = dark;
        gamma(&mut lifted, found);
        assert_eq!(lifted.get_pixel(0, 0).0, [110; 3]);
        let bright = RgbImage::from_pixel(4, 4, Rgb([90; 3]));
        assert_eq!(exponent(&bright, Gamma::Auto), None);
        assert_eq!(exponent(&RgbImage::new(4, 4), Gamma::Auto), Some(0.4));
        assert_eq!(exponent(&bright, Gamma::Value(f32::NAN)), None);
        assert_eq!(exponent(&bright, Gamma::Off), None);
    }
}
