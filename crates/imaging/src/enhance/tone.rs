//! Point operations: contrast as Pillow's `ImageEnhance.Contrast`, and gamma.

use image::RgbImage;

use super::{DARK_MEAN, GAMMA_RANGE, Gamma, LIFTED_MEAN, MIN_AUTOMATIC_GAMMA};
use crate::{
    checkpoint::{STRIP, passed},
    luma,
};

fn mean_luma(image: &RgbImage) -> f64 {
    let strips = image.as_chunks::<3>().0.chunks(STRIP);
    let sums = strips.map(|strip| {
        passed(3 * strip.len());
        let sum = strip.iter().map(|pixel| u64::from(luma::pillow(*pixel)));
        sum.sum::<u64>()
    });
    let sum: u64 = sums.sum();
    sum as f64 / (f64::from(image.width()) * f64::from(image.height()))
}

/// Returns `from + factor · (to − from)`, clamped to 0..=255 and truncated. This is Pillow's blend.
pub(super) fn blend(from: u8, to: u8, factor: f32) -> u8 {
    // The cast truncates and saturates.
    (f32::from(from) + factor * (f32::from(to) - f32::from(from))) as u8
}

/// Scales the distance of every sample from the rounded mean luma by `factor`.
pub(super) fn contrast(image: &mut RgbImage, factor: f32) {
    let middle = (mean_luma(image) + 0.5) as u8;
    let table: [u8; 256] = std::array::from_fn(|x| blend(middle, x as u8, factor));
    look_up(image, &table);
}

/// Returns the exponent, or `None` if there is nothing to correct.
pub(super) fn exponent(image: &RgbImage, gamma: Gamma) -> Option<f32> {
    match gamma {
        Gamma::Off => None,
        Gamma::Value(gamma) => gamma
            .is_finite()
            .then(|| gamma.clamp(*GAMMA_RANGE.start(), *GAMMA_RANGE.end())),
        Gamma::Auto => {
            let mean = mean_luma(image);
            // The mean is at least one level, so that the logarithm of a black image is finite.
            let lift = (LIFTED_MEAN / 255.0).ln() / (mean.max(1.0) / 255.0).ln();
            (mean < DARK_MEAN).then(|| lift.clamp(MIN_AUTOMATIC_GAMMA, 1.0) as f32)
        }
    }
}

/// Maps every sample x to `255 · (x / 255)^gamma`, rounded.
pub(super) fn gamma(image: &mut RgbImage, gamma: f32) {
    let table: [u8; 256] =
        std::array::from_fn(|x| ((x as f32 / 255.0).powf(gamma) * 255.0).round() as u8);
    look_up(image, &table);
}

fn look_up(image: &mut RgbImage, table: &[u8; 256]) {
    for strip in image.chunks_mut(STRIP) {
        for sample in strip.iter_mut() {
            *sample = table[usize::from(*sample)];
        }
        passed(strip.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::{assert_within, fixture_image, synthetic};
    use image::Rgb;

    #[test]
    fn contrast_equals_pillow() {
        let mut ours = synthetic(48, 36);
        contrast(&mut ours, 1.15);
        assert_within(&ours, &fixture_image("contrast.png"), 0, "contrast");
    }

    #[test]
    fn automatic_gamma_lifts_dark_images_to_the_same_mean() {
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
