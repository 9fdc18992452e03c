//! Enhancement for detection: makes faces easier to find in small, flat or noisy images.
//!
//! Order: denoise, upscale, gamma, CLAHE, contrast, sharpness, unsharp mask. Contrast, sharpness and unsharp mask are
//! within one level of Pillow's `ImageEnhance` and `ImageFilter`. The constants of all steps are defined here once, for
//! the CPU and for the graphs that devices run.

mod clahe;
mod filters;
mod median;
mod tone;

use std::ops::RangeInclusive;

use image::RgbImage;
use serde::Serialize;
use utoipa::ToSchema;

use super::{
    crop::copy,
    resize::{Filter, resize},
};

/// The longest side of an upscaled image in pixels. It also limits the factor of a request.
pub const MAX_UPSCALED_SIDE: u32 = 2400;

/// Images below this (width, height) in either side are low-resolution sources.
pub const LOW_RESOLUTION: (u32, u32) = (500, 400);

/// The contrast factor for low-resolution sources, as `ImageEnhance.Contrast` takes it.
pub const CONTRAST: f32 = 1.15;
/// The sharpness factor for low-resolution sources, as `ImageEnhance.Sharpness` takes it.
pub const SHARPNESS: f32 = 1.1;

/// Weight of the center in Pillow's `ImageFilter.SMOOTH`, (1 1 1 / 1 5 1 / 1 1 1) / 13; its neighbors have weight 1.
pub const SMOOTH_CENTER: u32 = 5;
/// The sum of all weights of that filter.
pub const SMOOTH_SUM: u32 = SMOOTH_CENTER + 8;

/// Standard deviation of the unsharp mask's blur in pixels, as `ImageFilter.UnsharpMask` takes it.
const UNSHARP_RADIUS: f32 = 1.0;
/// The share of the difference that the unsharp mask adds, in percent.
pub const UNSHARP_PERCENT: u32 = 120;
/// The unsharp mask ignores differences up to this many levels.
pub const UNSHARP_THRESHOLD: u32 = 3;

/// Passes of the extended box along each axis that make Pillow's Gaussian blur of σ = 1.
pub const BLUR_PASSES: usize = 3;
/// Fractional bits of the weights of a pass.
const BLUR_BITS: u32 = 24;
/// The weight of the center: 2²⁴ / 1.5 rounded up, as Pillow computes it in single precision. One less changes every
/// third sample by a level.
const BLUR_CENTER: u32 = 11_184_811;
/// The weight of each of its two neighbors.
const BLUR_SIDE: u32 = ((1 << BLUR_BITS) - BLUR_CENTER) / 2;

/// CLAHE clips histogram bins at this multiple of a flat histogram's height: OpenCV's `createCLAHE(2.0, (8, 8))`.
const CLAHE_CLIP_LIMIT: f32 = 2.0;
/// CLAHE tiles along each side.
const CLAHE_TILES: u32 = 8;

/// Exponents of gamma correction; others are clamped.
pub const GAMMA_RANGE: RangeInclusive<f32> = 0.1..=10.0;
/// Automatic gamma brightens images with a mean luma below this.
const DARK_MEAN: f64 = 90.0;
/// Automatic gamma chooses the exponent that maps the mean luma to this.
const LIFTED_MEAN: f64 = 110.0;
/// The smallest exponent of automatic gamma.
const MIN_AUTOMATIC_GAMMA: f64 = 0.4;

/// The side of the median filter's window in pixels.
const MEDIAN_WINDOW: u32 = 3;

/// The factor of the upscaling.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Upscale {
    /// The factor of [`automatic_factor`].
    #[default]
    Auto,
    /// Off.
    Off,
    /// This factor. Values below 1 count as 1. [`MAX_UPSCALED_SIDE`] limits the result.
    Factor(f32),
}

/// Whether a step is applied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Apply {
    /// Only for low-resolution sources ([`LOW_RESOLUTION`]). The size before upscaling decides.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// Gamma correction.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Gamma {
    /// Off.
    #[default]
    Off,
    /// Images with a mean luma below 90 get the exponent that maps it to 110, at least 0.4.
    Auto,
    /// `255 · (x / 255)^gamma`, with the exponent clamped to [`GAMMA_RANGE`].
    Value(f32),
}

/// The steps of an enhancement.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct EnhanceOptions {
    /// Bicubic upscaling.
    pub upscale: Upscale,
    /// Contrast times [`CONTRAST`] about the mean luma.
    pub contrast: Apply,
    /// Sharpness times [`SHARPNESS`], then the unsharp mask.
    pub sharpen: Apply,
    /// Adaptive histogram equalization of the luma: clip limit 2, 8 × 8 tiles.
    pub clahe: bool,
    /// Gamma correction.
    pub gamma: Gamma,
    /// A 3 × 3 median of each channel, before everything else.
    pub denoise: bool,
}

/// A step that was applied, with its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, ToSchema)]
#[serde(tag = "name", rename_all = "snake_case")]
pub enum Step {
    /// A median filter.
    Denoise {
        /// Side of its square window in pixels.
        window: u32,
    },
    /// Bicubic enlargement.
    Upscale {
        /// The requested or chosen factor, after limiting.
        factor: f32,
    },
    /// Gamma correction.
    Gamma {
        /// The exponent.
        gamma: f32,
    },
    /// Contrast-limited adaptive histogram equalization of the luma.
    Clahe {
        /// The clip limit.
        clip_limit: f32,
        /// Tiles along each side.
        tiles: u32,
    },
    /// Contrast about the mean luma.
    Contrast {
        /// The factor.
        factor: f32,
    },
    /// Sharpness relative to the smoothed image.
    Sharpness {
        /// The factor.
        factor: f32,
    },
    /// Unsharp mask.
    UnsharpMask {
        /// Standard deviation of the blur in pixels.
        radius: f32,
        /// The share of the difference that is added, in percent.
        percent: u32,
        /// Differences up to this many levels are ignored.
        threshold: u32,
    },
}

/// Returns the upscaling factor for a source of this size.
///
/// The shorter side decides: up to 150 pixels the factor is 4, up to 250 it is 3, up to 600 it is 2, otherwise 1. The
/// factor is then lowered in steps of 1 until the long side of the result is at most [`MAX_UPSCALED_SIDE`].
pub fn automatic_factor(width: u32, height: u32) -> u32 {
    let wanted = match width.min(height) {
        0..=150 => 4,
        151..=250 => 3,
        251..=600 => 2,
        _ => 1,
    };
    let most = MAX_UPSCALED_SIDE / width.max(height).max(1);
    wanted.min(most).max(1)
}

/// An image after the steps that always run on the CPU, and the steps that are left.
#[derive(Clone, Debug)]
pub struct PartlyEnhanced {
    /// The pixels so far.
    pub image: RgbImage,
    /// The steps that are left; `None` if there are none.
    pub device_steps: Option<DeviceSteps>,
    /// Output pixels per input pixel along the long side, at the end: divide coordinates by it to get back.
    pub scale: f32,
    /// All steps of the enhancement, in order.
    pub steps: Vec<Step>,
}

/// The steps that a device may run: upscaling, contrast and sharpening.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceSteps {
    /// The (width, height) to upscale to; the size of the image for no upscaling.
    pub size: (u32, u32),
    /// Contrast times [`CONTRAST`] about the mean luma.
    pub contrast: bool,
    /// Sharpness times [`SHARPNESS`], then the unsharp mask.
    pub sharpen: bool,
}

impl DeviceSteps {
    /// Runs the steps on the CPU.
    pub fn apply(&self, image: &RgbImage) -> RgbImage {
        let mut work = upscaled(image, self.size);
        if self.contrast {
            tone::contrast(&mut work, CONTRAST);
        }
        if self.sharpen {
            work = filters::unsharp_mask(&filters::sharpness(&work, SHARPNESS));
        }
        work
    }
}

impl PartlyEnhanced {
    /// Runs the steps that always run on the CPU. An image without pixels has no steps.
    pub fn new(image: &RgbImage, options: &EnhanceOptions) -> Self {
        let (width, height) = image.dimensions();
        let mut partial = Self {
            image: copy(image),
            device_steps: None,
            scale: 1.0,
            steps: Vec::new(),
        };
        if width == 0 || height == 0 {
            return partial;
        }
        let low_resolution = width < LOW_RESOLUTION.0 || height < LOW_RESOLUTION.1;
        let applies = |apply| match apply {
            Apply::Auto => low_resolution,
            Apply::Always => true,
            Apply::Never => false,
        };
        if options.denoise {
            partial.image = median::median(&partial.image);
            partial.steps.push(Step::Denoise {
                window: MEDIAN_WINDOW,
            });
        }
        let size = partial.scale_by(options.upscale);
        if options.gamma != Gamma::Off || options.clahe {
            // These steps run on the CPU, between the upscaling and the steps that a device may run.
            if size != partial.image.dimensions() {
                partial.image = upscaled(&partial.image, size);
            }
            partial.correct_tone(options);
        }
        let steps = DeviceSteps {
            size,
            contrast: applies(options.contrast),
            sharpen: applies(options.sharpen),
        };
        partial.defer(steps);
        partial
    }

    /// Returns the (width, height) to upscale to, and adds the step.
    fn scale_by(&mut self, upscale: Upscale) -> (u32, u32) {
        let (width, height) = self.image.dimensions();
        let long = width.max(height);
        let most = MAX_UPSCALED_SIDE as f32 / long as f32;
        let factor = match upscale {
            Upscale::Off => 1.0,
            Upscale::Auto => automatic_factor(width, height) as f32,
            // `max` returns 1 for NaN.
            Upscale::Factor(factor) => factor.max(1.0).min(most),
        };
        let scaled = |side: u32| (side as f32 * factor).round() as u32;
        if scaled(long) <= long {
            return (width, height);
        }
        self.scale = scaled(long) as f32 / long as f32;
        self.steps.push(Step::Upscale { factor });
        (scaled(width), scaled(height))
    }

    fn correct_tone(&mut self, options: &EnhanceOptions) {
        if let Some(gamma) = tone::exponent(&self.image, options.gamma) {
            tone::gamma(&mut self.image, gamma);
            self.steps.push(Step::Gamma { gamma });
        }
        if options.clahe {
            clahe::equalize(&mut self.image);
            self.steps.push(Step::Clahe {
                clip_limit: CLAHE_CLIP_LIMIT,
                tiles: CLAHE_TILES,
            });
        }
    }

    fn defer(&mut self, steps: DeviceSteps) {
        if steps.contrast {
            self.steps.push(Step::Contrast { factor: CONTRAST });
        }
        if steps.sharpen {
            self.steps.push(Step::Sharpness { factor: SHARPNESS });
            self.steps.push(Step::UnsharpMask {
                radius: UNSHARP_RADIUS,
                percent: UNSHARP_PERCENT,
                threshold: UNSHARP_THRESHOLD,
            });
        }
        let enlarges = steps.size != self.image.dimensions();
        self.device_steps = (enlarges || steps.contrast || steps.sharpen).then_some(steps);
    }
}

/// Upscales an image to a size, unless it has that size.
fn upscaled(image: &RgbImage, (width, height): (u32, u32)) -> RgbImage {
    if (width, height) == image.dimensions() {
        copy(image)
    } else {
        resize(image, width, height, Filter::Bicubic)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::{assert_within, fixture_image, synthetic};
    use image::Rgb;

    /// Runs all steps on the CPU.
    fn enhance(image: &RgbImage, options: &EnhanceOptions) -> PartlyEnhanced {
        let mut enhanced = PartlyEnhanced::new(image, options);
        if let Some(steps) = enhanced.device_steps.take() {
            enhanced.image = steps.apply(&enhanced.image);
        }
        enhanced
    }

    fn names(steps: &[Step]) -> Vec<String> {
        let steps = serde_json::to_value(steps).unwrap();
        let steps = steps.as_array().unwrap().iter();
        steps
            .map(|s| s["name"].as_str().unwrap().to_owned())
            .collect()
    }

    #[test]
    fn the_default_chain_equals_pillow() {
        let enhanced = enhance(&synthetic(48, 36), &EnhanceOptions::default());
        assert_eq!(enhanced.scale, 4.0);
        assert_eq!(
            names(&enhanced.steps),
            ["upscale", "contrast", "sharpness", "unsharp_mask"]
        );
        assert_within(
            &enhanced.image,
            &fixture_image("enhanced.png"),
            1,
            "complete chain",
        );
    }

    #[test]
    fn the_upscaling_rule() {
        let cases = [
            ((150, 150), 4),
            ((150, 500), 4),
            ((151, 251), 3),
            ((250, 250), 3),
            ((251, 1000), 2),
            ((600, 600), 2),
            ((601, 601), 1),
            // Limited: 4 × 700 and 2 × 1300 would be over 2400.
            ((100, 700), 3),
            ((500, 1300), 1),
            ((10, 16_384), 1),
        ];
        for ((width, height), factor) in cases {
            assert_eq!(automatic_factor(width, height), factor, "{width}x{height}");
            assert_eq!(automatic_factor(height, width), factor, "{height}x{width}");
        }
    }

    #[test]
    fn large_images_are_not_changed() {
        let source = synthetic(700, 601);
        let enhanced = enhance(&source, &EnhanceOptions::default());
        assert_eq!((enhanced.scale, enhanced.steps.as_slice()), (1.0, &[][..]));
        assert_eq!(enhanced.image, source);
    }

    #[test]
    fn low_resolution_is_decided_before_upscaling() {
        let enhanced = enhance(&synthetic(499, 601), &EnhanceOptions::default());
        assert_eq!(
            names(&enhanced.steps),
            ["upscale", "contrast", "sharpness", "unsharp_mask"]
        );
        let options = EnhanceOptions {
            contrast: Apply::Never,
            sharpen: Apply::Never,
            upscale: Upscale::Off,
            ..EnhanceOptions::default()
        };
        assert!(enhance(&synthetic(20, 20), &options).steps.is_empty());
    }

    #[test]
    fn a_requested_factor_is_limited_and_the_scale_is_exact() {
        let scale = |factor: f32, width: u32| {
            let options = EnhanceOptions {
                upscale: Upscale::Factor(factor),
                ..EnhanceOptions::default()
            };
            let enhanced = enhance(&synthetic(width, 10), &options);
            assert_eq!(enhanced.scale, enhanced.image.width() as f32 / width as f32);
            enhanced.scale
        };
        assert_eq!(scale(2.5, 40), 2.5);
        assert_eq!(scale(100.0, 1000), 2.4);
        for factor in [0.1, -3.0, f32::NAN] {
            assert_eq!(scale(factor, 40), 1.0);
        }
    }

    #[test]
    fn every_option_adds_a_named_step() {
        let options = EnhanceOptions {
            denoise: true,
            clahe: true,
            gamma: Gamma::Value(0.5),
            ..EnhanceOptions::default()
        };
        let enhanced = enhance(&synthetic(30, 20), &options);
        let expected = [
            "denoise",
            "upscale",
            "gamma",
            "clahe",
            "contrast",
            "sharpness",
            "unsharp_mask",
        ];
        assert_eq!(names(&enhanced.steps), expected);
        let gamma = serde_json::to_value(enhanced.steps[2]).unwrap();
        assert_eq!(gamma, serde_json::json!({"name": "gamma", "gamma": 0.5}));
    }

    #[test]
    fn the_median_filter_removes_single_pixels() {
        let mut speckled = RgbImage::from_pixel(9, 9, Rgb([50, 60, 70]));
        speckled.put_pixel(4, 4, Rgb([255, 0, 255]));
        let options = EnhanceOptions {
            denoise: true,
            upscale: Upscale::Off,
            contrast: Apply::Never,
            sharpen: Apply::Never,
            ..EnhanceOptions::default()
        };
        let clean = enhance(&speckled, &options).image;
        assert!(clean.pixels().all(|p| *p == Rgb([50, 60, 70])));
        assert_eq!(enhance(&RgbImage::new(0, 4), &options).scale, 1.0);
    }
}
