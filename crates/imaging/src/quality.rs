//! Quality of images and faces: blur, brightness, contrast, sharpness, pose, and acceptance for a purpose.

pub mod acceptance;
pub mod pose;

use std::borrow::Cow;

use image::RgbImage;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{
    border::reflect_101,
    checkpoint::passed,
    luma,
    resize::{Filter, resize},
};

/// The long side at which complete images are measured, in pixels, because blur depends on size.
pub const CANONICAL_SIDE: u32 = 640;

/// Variances below this count as 0: rounding leaves that much for a flat image.
pub const FLAT_VARIANCE: f64 = 1e-6;

/// The four measures of an image and the size at which they were taken.
///
/// Gray is the luma of BT.601 ([`luma::BT601`]), not rounded. Borders are reflected without repeating the edge.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ImageQuality {
    /// Population variance of the Laplacian (0 1 0 / 1 −4 1 / 0 1 0); 0 is flat, below about 30 is blurry.
    pub blur_score: f32,
    /// Mean gray, 0..=255.
    pub brightness: f32,
    /// Population standard deviation of gray, 0..=127.5.
    pub contrast: f32,
    /// Mean length of the 3×3 Sobel gradient.
    pub sharpness: f32,
    /// The measured width and height in pixels.
    pub measured_size: [u32; 2],
}

/// Measures an image in one pass. All measures of an image without pixels are 0.
pub fn measure(image: &RgbImage) -> ImageQuality {
    let (width, height) = image.dimensions();
    let mut sums = Sums::default();
    if width > 0 && height > 0 {
        // Three rows of gray are in memory, each with a reflected sample at both ends.
        let row = |y: i64| gray_row(image, reflect_101(y, height));
        let (mut above, mut here) = (row(-1), row(0));
        for y in 0..i64::from(height) {
            let below = row(y + 1);
            sums.add_row(&above, &here, &below);
            above = std::mem::replace(&mut here, below);
            passed(8 * width as usize);
        }
    }
    sums.finish([width, height])
}

/// Returns a row of gray with a reflected sample at both ends.
fn gray_row(image: &RgbImage, y: usize) -> Vec<f32> {
    let width = image.width();
    let stride = width as usize * 3;
    let start = y * stride;
    let mut gray = Vec::with_capacity(width as usize + 2);
    gray.push(0.0);
    gray.extend(
        image.as_raw()[start..start + stride]
            .as_chunks()
            .0
            .iter()
            .map(|pixel| luma::exact(*pixel)),
    );
    gray.push(gray[reflect_101(i64::from(width), width) + 1]);
    gray[0] = gray[reflect_101(-1, width) + 1];
    gray
}

#[derive(Default)]
struct Sums {
    gray: f64,
    gray_squared: f64,
    laplacian: f64,
    laplacian_squared: f64,
    gradient: f64,
}

impl Sums {
    fn add_row(&mut self, above: &[f32], here: &[f32], below: &[f32]) {
        let windows = above.windows(3).zip(here.windows(3)).zip(below.windows(3));
        for ((a, h), b) in windows {
            let laplacian = f64::from(a[1] + h[0] + h[2] + b[1] - 4.0 * h[1]);
            let across = (a[2] - a[0]) + 2.0 * (h[2] - h[0]) + (b[2] - b[0]);
            let down = (b[0] - a[0]) + 2.0 * (b[1] - a[1]) + (b[2] - a[2]);
            let gray = f64::from(h[1]);
            self.gray += gray;
            self.gray_squared += gray * gray;
            self.laplacian += laplacian;
            self.laplacian_squared += laplacian * laplacian;
            self.gradient += f64::from((across * across + down * down).sqrt());
        }
    }

    fn finish(&self, measured_size: [u32; 2]) -> ImageQuality {
        let count = (f64::from(measured_size[0]) * f64::from(measured_size[1])).max(1.0);
        let variance = |sum: f64, squares: f64| (squares / count - (sum / count).powi(2)).max(0.0);
        let flat_is_zero = |variance: f64| {
            if variance < FLAT_VARIANCE {
                0.0
            } else {
                variance
            }
        };
        ImageQuality {
            blur_score: flat_is_zero(variance(self.laplacian, self.laplacian_squared)) as f32,
            brightness: (self.gray / count) as f32,
            contrast: flat_is_zero(variance(self.gray, self.gray_squared)).sqrt() as f32,
            sharpness: (self.gradient / count) as f32,
            measured_size,
        }
    }
}

/// Returns one score in 0..=1: `0.25·min(blur/1000, 1) + 0.20·(1 − |brightness − 128|/128) + 0.20·min(contrast/50, 1) +
/// 0.25·min(sharpness/100, 1) + 0.10·(1 − occlusion)`.
///
/// `occlusion` is the hidden share of the face, 0..=1. When it was not measured, its weight is spread over the other
/// terms in proportion, and the response must say so.
pub fn overall(quality: &ImageQuality, occlusion: Option<f32>) -> f32 {
    let measured = 0.25 * (quality.blur_score / 1000.0).min(1.0)
        + 0.20 * (1.0 - (quality.brightness - 128.0).abs() / 128.0)
        + 0.20 * (quality.contrast / 50.0).min(1.0)
        + 0.25 * (quality.sharpness / 100.0).min(1.0);
    let score = match occlusion {
        Some(hidden) => measured + 0.10 * (1.0 - hidden),
        None => measured / 0.90,
    };
    score.clamp(0.0, 1.0)
}

/// Resizes a complete image for its measurement: its long side becomes [`CANONICAL_SIDE`], which shrinks or enlarges
/// it.
///
/// The filter is the antialiased [`Filter::Bilinear`]. Without antialiasing, aliasing would raise the sharpness of a
/// large image.
pub fn canonical(image: &RgbImage) -> Cow<'_, RgbImage> {
    let (width, height) = image.dimensions();
    let long = width.max(height);
    if long == CANONICAL_SIDE || long == 0 {
        return Cow::Borrowed(image);
    }
    let scaled = |side: u32| {
        let side = f64::from(side) * f64::from(CANONICAL_SIDE) / f64::from(long);
        side.round() as u32
    };
    Cow::Owned(resize(
        image,
        scaled(width),
        scaled(height),
        Filter::Bilinear,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::{reference, synthetic};
    use image::Rgb;

    fn assert_close(ours: f32, theirs: &serde_json::Value, what: &str) {
        let theirs = theirs.as_f64().unwrap();
        let apart = (f64::from(ours) - theirs).abs();
        assert!(
            apart <= (theirs * 0.005).max(0.01),
            "{what}: {ours}, expected {theirs}"
        );
    }

    #[test]
    fn measures_equal_the_reference() {
        let mut dark = synthetic(112, 112);
        dark.as_mut().iter_mut().for_each(|v| *v /= 6);
        let cases = [
            ("112x112", synthetic(112, 112)),
            ("97x61", synthetic(97, 61)),
            ("dark", dark),
        ];
        for (name, image) in cases {
            let ours = measure(&image);
            let theirs = &reference()["quality"][name];
            assert_close(ours.blur_score, &theirs["blur_score"], name);
            assert_close(ours.brightness, &theirs["brightness"], name);
            assert_close(ours.contrast, &theirs["contrast"], name);
            assert_close(ours.sharpness, &theirs["sharpness"], name);
            assert_eq!(ours.measured_size, [image.width(), image.height()]);
        }
    }

    #[test]
    fn a_flat_image_has_no_blur_score_up_to_its_border() {
        for side in [1, 2, 112] {
            let flat = measure(&RgbImage::from_pixel(side, side, Rgb([93, 180, 41])));
            assert_eq!(
                (flat.blur_score, flat.contrast, flat.sharpness),
                (0.0, 0.0, 0.0)
            );
            assert!((flat.brightness - 138.141).abs() < 1e-3);
        }
        let empty = measure(&RgbImage::new(0, 3));
        assert_eq!((empty.brightness, empty.blur_score), (0.0, 0.0));
    }

    #[test]
    fn overall_is_the_weighted_sum_of_its_terms() {
        let best = ImageQuality {
            blur_score: 4000.0,
            brightness: 128.0,
            contrast: 70.0,
            sharpness: 100.0,
            measured_size: [112, 112],
        };
        assert!((overall(&best, None) - 1.0).abs() < 1e-6);
        assert!((overall(&best, Some(0.0)) - 1.0).abs() < 1e-6);
        assert!((overall(&best, Some(1.0)) - 0.9).abs() < 1e-6);
        let poor = ImageQuality {
            blur_score: 500.0,
            brightness: 64.0,
            contrast: 25.0,
            sharpness: 20.0,
            ..best
        };
        // 0.125 + 0.1 + 0.1 + 0.05 + 0.05
        assert!((overall(&poor, Some(0.5)) - 0.425).abs() < 1e-6);
        assert!((overall(&poor, None) - 0.375 / 0.9).abs() < 1e-6);
    }

    #[test]
    fn complete_images_are_measured_at_one_size() {
        assert_eq!(canonical(&synthetic(1280, 886)).dimensions(), (640, 443));
        assert_eq!(canonical(&synthetic(30, 60)).dimensions(), (320, 640));
        assert_eq!(canonical(&synthetic(9000, 3)).dimensions(), (640, 1));
        let exact = synthetic(640, 10);
        assert!(matches!(canonical(&exact), Cow::Borrowed(_)));
    }
}
