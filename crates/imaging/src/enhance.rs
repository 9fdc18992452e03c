//! Enhancement for detection: small, flat or noisy pictures made easier to find faces in.
//!
//! Order: denoise, upscale, gamma, CLAHE, contrast, sharpness, unsharp mask. Contrast, sharpness and unsharp mask
//! equal Pillow's `ImageEnhance` and `ImageFilter` to one level.

mod clahe;
mod filters;
mod tone;

use image::RgbImage;
use serde::Serialize;
use utoipa::ToSchema;

use super::resize::{Filter, resize};

/// No upscaling goes beyond this long side, whatever was asked for.
pub const LONGEST_UPSCALED: u32 = 2400;

/// How much to enlarge.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Upscale {
    /// By the rule of [`automatic_factor`].
    #[default]
    Auto,
    /// Not at all.
    Off,
    /// By a factor; below 1 counts as 1. Limited by [`LONGEST_UPSCALED`].
    Factor(f32),
}

/// Whether a step is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Apply {
    /// On low-resolution sources only: width under 500 or height under 400, before upscaling.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// How to brighten dark pictures.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Gamma {
    /// Not at all.
    #[default]
    Off,
    /// Pictures with a mean luma under 90 get the exponent that lifts it to 110, at least 0.4.
    Auto,
    /// `255 · (x / 255)^gamma`; kept within 0.1..=10.
    Value(f32),
}

/// What to do.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct EnhanceOptions {
    /// Enlarging, bicubic.
    pub upscale: Upscale,
    /// Contrast × 1.15 about the mean luma.
    pub contrast: Apply,
    /// Sharpness × 1.1 and the unsharp mask.
    pub sharpen: Apply,
    /// Adaptive histogram equalisation of the luma: clip limit 2, 8 × 8 tiles.
    pub clahe: bool,
    /// Brightening.
    pub gamma: Gamma,
    /// A 3 × 3 median of each channel, before everything else.
    pub denoise: bool,
}

/// A step that was taken, with its parameters.
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
        /// The factor that was asked for or chosen, after limiting.
        factor: f32,
    },
    /// Gamma correction.
    Gamma {
        /// The exponent.
        gamma: f32,
    },
    /// Contrast-limited adaptive histogram equalisation of the luma.
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
    /// Sharpness against the smoothed picture.
    Sharpness {
        /// The factor.
        factor: f32,
    },
    /// Unsharp mask.
    UnsharpMask {
        /// Standard deviation of the blur in pixels.
        radius: f32,
        /// How much of the difference is added, percent.
        percent: u32,
        /// Differences up to this many levels are left alone.
        threshold: u32,
    },
}

/// An enhanced picture.
#[derive(Clone, Debug)]
pub struct Enhanced {
    /// The pixels.
    pub picture: RgbImage,
    /// Output pixels per input pixel along the long side: divide coordinates by it to get back.
    pub scale: f32,
    /// What was done, in order.
    pub steps: Vec<Step>,
}

const CONTRAST: f32 = 1.15;
const SHARPNESS: f32 = 1.1;

/// The factor of the upscaling rule for a source of this size.
///
/// The rule is read so that either side decides: if width or height is at most 150 the factor is 4, at most 250
/// it is 3, at most 600 it is 2, else 1. The factor is then lowered, in whole steps, until the long side of the result
/// is at most [`LONGEST_UPSCALED`].
pub fn automatic_factor(width: u32, height: u32) -> u32 {
    let wanted = match width.min(height) {
        0..=150 => 4,
        151..=250 => 3,
        251..=600 => 2,
        _ => 1,
    };
    let most = LONGEST_UPSCALED / width.max(height).max(1);
    wanted.min(most).max(1)
}

/// Enhances a picture. A picture without pixels is given back as it is.
pub fn enhance(picture: &RgbImage, options: &EnhanceOptions) -> Enhanced {
    let begun = Begun::new(picture, options);
    match &begun.finish {
        Some(finish) => Enhanced {
            picture: finish.apply(&begun.picture),
            scale: begun.scale,
            steps: begun.steps,
        },
        None => begun.into_enhanced(),
    }
}

/// A picture after the steps that are done on the CPU always, and what is left to do.
#[derive(Clone, Debug)]
pub struct Begun {
    /// The pixels so far.
    pub picture: RgbImage,
    /// What is left; `None` when that is nothing.
    pub finish: Option<Finish>,
    /// Output pixels per input pixel along the long side, at the end.
    pub scale: f32,
    /// Every step of the whole, in order.
    pub steps: Vec<Step>,
}

/// The steps that a device may do: enlarging, contrast and sharpening.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finish {
    /// The width and height to enlarge to; those of the picture for no enlargement.
    pub size: (u32, u32),
    /// Contrast × 1.15 about the mean luma.
    pub contrast: bool,
    /// Sharpness × 1.1 and the unsharp mask.
    pub sharpen: bool,
}

impl Finish {
    /// Does it on the CPU.
    pub fn apply(&self, picture: &RgbImage) -> RgbImage {
        let mut work = enlarged(picture, self.size);
        if self.contrast {
            tone::contrast(&mut work, CONTRAST);
        }
        if self.sharpen {
            work = filters::unsharp_mask(&filters::sharpness(&work, SHARPNESS));
        }
        work
    }
}

impl Begun {
    /// Begins with a picture.
    pub fn new(picture: &RgbImage, options: &EnhanceOptions) -> Self {
        let (width, height) = picture.dimensions();
        let mut begun = Self {
            picture: picture.clone(),
            finish: None,
            scale: 1.0,
            steps: Vec::new(),
        };
        if width == 0 || height == 0 {
            return begun;
        }
        let low_resolution = width < 500 || height < 400;
        let applies = |apply| match apply {
            Apply::Auto => low_resolution,
            Apply::Always => true,
            Apply::Never => false,
        };
        if options.denoise {
            begun.picture = imageproc::filter::median_filter(&begun.picture, 1, 1);
            begun.steps.push(Step::Denoise { window: 3 });
        }
        let size = begun.scale_by(options.upscale);
        if options.gamma != Gamma::Off || options.clahe {
            // They come after the enlargement and before what a device may do.
            begun.picture = enlarged(&begun.picture, size);
            begun.tone(options);
        }
        let finish = Finish {
            size,
            contrast: applies(options.contrast),
            sharpen: applies(options.sharpen),
        };
        begun.finish_with(finish);
        begun
    }

    /// What there is when nothing is left to do.
    pub fn into_enhanced(self) -> Enhanced {
        Enhanced {
            picture: self.picture,
            scale: self.scale,
            steps: self.steps,
        }
    }

    /// The size to enlarge to.
    fn scale_by(&mut self, upscale: Upscale) -> (u32, u32) {
        let (width, height) = self.picture.dimensions();
        let long = width.max(height);
        let most = LONGEST_UPSCALED as f32 / long as f32;
        let factor = match upscale {
            Upscale::Off => 1.0,
            Upscale::Auto => automatic_factor(width, height) as f32,
            // `max` takes the number where the factor is none.
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

    fn tone(&mut self, options: &EnhanceOptions) {
        if let Some(gamma) = tone::exponent(&self.picture, options.gamma) {
            tone::gamma(&mut self.picture, gamma);
            self.steps.push(Step::Gamma { gamma });
        }
        if options.clahe {
            clahe::equalise(&mut self.picture);
            self.steps.push(Step::Clahe {
                clip_limit: clahe::CLIP_LIMIT,
                tiles: clahe::TILES,
            });
        }
    }

    fn finish_with(&mut self, finish: Finish) {
        if finish.contrast {
            self.steps.push(Step::Contrast { factor: CONTRAST });
        }
        if finish.sharpen {
            self.steps.push(Step::Sharpness { factor: SHARPNESS });
            self.steps.push(Step::UnsharpMask {
                radius: filters::UNSHARP_RADIUS,
                percent: filters::UNSHARP_PERCENT,
                threshold: filters::UNSHARP_THRESHOLD,
            });
        }
        let enlarges = finish.size != self.picture.dimensions();
        self.finish = (enlarges || finish.contrast || finish.sharpen).then_some(finish);
    }
}

/// A picture enlarged to a size, unless it has it.
fn enlarged(picture: &RgbImage, (width, height): (u32, u32)) -> RgbImage {
    if (width, height) == picture.dimensions() {
        picture.clone()
    } else {
        resize(picture, width, height, Filter::Bicubic)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::{assert_within, picture, synthetic};
    use image::Rgb;

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
            &enhanced.picture,
            &picture("enhanced.png"),
            1,
            "whole chain",
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
    fn large_pictures_are_left_alone() {
        let source = synthetic(700, 601);
        let enhanced = enhance(&source, &EnhanceOptions::default());
        assert_eq!((enhanced.scale, enhanced.steps.as_slice()), (1.0, &[][..]));
        assert_eq!(enhanced.picture, source);
    }

    #[test]
    fn low_resolution_is_judged_before_upscaling() {
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
    fn a_given_factor_is_limited_and_its_scale_is_true() {
        let scale = |factor: f32, width: u32| {
            let options = EnhanceOptions {
                upscale: Upscale::Factor(factor),
                ..EnhanceOptions::default()
            };
            let enhanced = enhance(&synthetic(width, 10), &options);
            assert_eq!(
                enhanced.scale,
                enhanced.picture.width() as f32 / width as f32
            );
            enhanced.scale
        };
        assert_eq!(scale(2.5, 40), 2.5);
        assert_eq!(scale(100.0, 1000), 2.4);
        for factor in [0.1, -3.0, f32::NAN] {
            assert_eq!(scale(factor, 40), 1.0);
        }
    }

    #[test]
    fn every_option_is_a_named_step() {
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
    fn a_median_removes_single_specks() {
        let mut speckled = RgbImage::from_pixel(9, 9, Rgb([50, 60, 70]));
        speckled.put_pixel(4, 4, Rgb([255, 0, 255]));
        let options = EnhanceOptions {
            denoise: true,
            upscale: Upscale::Off,
            contrast: Apply::Never,
            sharpen: Apply::Never,
            ..EnhanceOptions::default()
        };
        let clean = enhance(&speckled, &options).picture;
        assert!(clean.pixels().all(|p| *p == Rgb([50, 60, 70])));
        assert_eq!(enhance(&RgbImage::new(0, 4), &options).scale, 1.0);
    }
}
