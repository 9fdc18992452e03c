//! The operations of `/process`, as they are sent.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::pipeline::{error::PipelineError, options::schema};
use facescan_imaging::{
    blur::Gaussian,
    crop::{Bounds, MaskCropOptions},
    orientation::Axis,
    preprocess::{Layout, Mode, Profile},
};

/// Operations of one request at most.
pub const MOST_STEPS: usize = 16;

/// One operation. They are done in the order that they are sent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "op", rename_all = "snake_case", deny_unknown_fields)]
#[schema(as = ProcessStep)]
pub enum Step {
    /// Cuts out what the masks cover, padded, grown to a least size and a bounded aspect, with even sides.
    MaskCrop {
        /// Padding as a share of each side of the masks' box; 0.5.
        #[serde(default)]
        #[schema(minimum = 0, maximum = 10)]
        padding_ratio: Option<f32>,
        /// Least width and height; 512 and 512.
        #[serde(default)]
        #[schema(min_items = 2, max_items = 2)]
        min_size: Option<[u32; 2]>,
        /// Most that one side is of the other; 2.
        #[serde(default)]
        #[schema(minimum = 1, maximum = 1000)]
        max_aspect: Option<f32>,
    },
    /// Cuts out a box, or each face.
    Crop {
        /// The box: x1, y1, x2, y2 in whole pixels, half-open.
        #[serde(default)]
        #[schema(min_items = 4, max_items = 4)]
        r#box: Option<[u32; 4]>,
        /// Each face, the largest first, in a picture of its own.
        #[serde(default)]
        faces: bool,
        /// How much is added on each side, as a share of the box's; 0.
        #[serde(default)]
        #[schema(minimum = 0, maximum = 10)]
        margin: f32,
    },
    /// Scales. With one side given the other follows the aspect.
    Resize {
        /// Width in pixels.
        #[serde(default)]
        #[schema(minimum = 1, maximum = 65535)]
        width: Option<u32>,
        /// Height in pixels.
        #[serde(default)]
        #[schema(minimum = 1, maximum = 65535)]
        height: Option<u32>,
        /// Whose resize is matched.
        #[serde(default)]
        profile: Profile,
        /// How a picture of another aspect is fitted.
        #[serde(default)]
        mode: Mode,
        /// Whether what is shrunk is smoothed; absent for what the profile does.
        #[serde(default)]
        antialias: Option<bool>,
        /// In the place of a size: shrinks so that the shorter side is at most 640 and the longer one at most 1280, both
        /// multiples of 16.
        #[serde(default)]
        bounded: bool,
        /// The colour of a letterbox's bars: red, green, blue.
        #[serde(default)]
        #[schema(schema_with = schema::colour)]
        pad: [u8; 3],
    },
    /// Blurs everything, a region, or the faces.
    GaussianBlur {
        /// Side of the kernel in pixels, odd, up to 255; 7.
        #[serde(default = "seven")]
        #[schema(minimum = 1, maximum = 255)]
        kernel: u32,
        /// Standard deviation in pixels; 1.5.
        #[serde(default = "one_and_a_half")]
        #[schema(exclusive_minimum = 0)]
        sigma: f32,
        /// The region: x1, y1, x2, y2 in whole pixels, half-open.
        #[serde(default)]
        #[schema(min_items = 4, max_items = 4)]
        region: Option<[u32; 4]>,
        /// Each face's box.
        #[serde(default)]
        faces: bool,
    },
    /// Turns the samples into `(x / 255 − mean) / std`; the last operation, answered as npy.
    Normalize {
        /// Means of red, green and blue, in 0 to 1; ImageNet's.
        #[serde(default)]
        #[schema(schema_with = schema::means)]
        mean: Option<[f32; 3]>,
        /// Standard deviations; ImageNet's.
        #[serde(default)]
        #[schema(schema_with = schema::deviations)]
        std: Option<[f32; 3]>,
        /// Whether the channels come first.
        #[serde(default)]
        layout: Layout,
    },
    /// Turns clockwise. Quarters swap the sides; other angles keep them and fill the corners.
    Rotate {
        /// Degrees, −360 to 360.
        #[schema(minimum = -360, maximum = 360)]
        degrees: f32,
        /// The colour of the corners: red, green, blue.
        #[serde(default)]
        #[schema(schema_with = schema::colour)]
        background: [u8; 3],
    },
    /// Mirrors.
    Flip {
        /// Whether left and right change places, or top and bottom.
        axis: Axis,
    },
    /// Makes all three channels the luma (BT.601).
    Grayscale {},
    /// Makes every face that is found unrecognisable, and looks again until none is found.
    Anonymize {
        /// What is done to a face.
        #[serde(default)]
        method: Method,
        /// How much is added on each side, as a share of the face's box; 0.2.
        #[serde(default = "a_fifth")]
        #[schema(minimum = 0, maximum = 10)]
        margin: f32,
        /// The colour of `fill`: red, green, blue.
        #[serde(default)]
        #[schema(schema_with = schema::colour)]
        colour: [u8; 3],
    },
}

/// How a face is made unrecognisable.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema, clap::ValueEnum,
)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// Eight blocks along its longer side, smoothed; fewer where a face is still found.
    #[default]
    Blur,
    /// Eight blocks along its longer side; fewer where a face is still found.
    Pixelate,
    /// One colour.
    Fill,
}

fn seven() -> u32 {
    7
}

fn one_and_a_half() -> f32 {
    1.5
}

fn a_fifth() -> f32 {
    0.2
}

fn check(holds: bool, step: &str, detail: &str) -> Result<(), PipelineError> {
    if holds {
        Ok(())
    } else {
        Err(PipelineError::invalid_option(
            "operations",
            format!("{step}: {detail}"),
        ))
    }
}

/// Checks the whole list. `masks` is how many masks came with it, `most_side` the longest side that a picture may have.
///
/// # Errors
/// [`PipelineError::InvalidOption`] naming the operation.
pub fn check_all(steps: &[Step], masks: usize, most_side: u32) -> Result<(), PipelineError> {
    check(
        (1..=MOST_STEPS).contains(&steps.len()),
        "the list",
        "needs 1 to 16 operations",
    )?;
    for (at, step) in steps.iter().enumerate() {
        step.check(masks, most_side)?;
        let is_last = at + 1 == steps.len();
        check(
            is_last || !matches!(step, Step::Normalize { .. }),
            "normalize",
            "must be the last, as what follows works on whole levels",
        )?;
    }
    Ok(())
}

impl Step {
    /// The name that it is sent by.
    pub fn name(&self) -> &'static str {
        match self {
            Self::MaskCrop { .. } => "mask_crop",
            Self::Crop { .. } => "crop",
            Self::Resize { .. } => "resize",
            Self::GaussianBlur { .. } => "gaussian_blur",
            Self::Normalize { .. } => "normalize",
            Self::Rotate { .. } => "rotate",
            Self::Flip { .. } => "flip",
            Self::Grayscale {} => "grayscale",
            Self::Anonymize { .. } => "anonymize",
        }
    }

    /// Whether it needs the faces of the picture.
    pub fn finds_faces(&self) -> bool {
        match self {
            Self::Crop { faces, .. } | Self::GaussianBlur { faces, .. } => *faces,
            Self::Anonymize { .. } => true,
            _ => false,
        }
    }

    fn check(&self, masks: usize, most_side: u32) -> Result<(), PipelineError> {
        let name = self.name();
        let share = |value: f32| (0.0..=10.0).contains(&value);
        let is_box = |&[x1, y1, x2, y2]: &[u32; 4]| x1 < x2 && y1 < y2;
        match self {
            Self::MaskCrop {
                padding_ratio,
                min_size,
                max_aspect,
            } => {
                check(
                    masks > 0,
                    name,
                    "needs parts named `mask`, or `masks` in a body",
                )?;
                check(
                    padding_ratio.is_none_or(share),
                    name,
                    "padding_ratio must be 0 to 10",
                )?;
                let sides = min_size.unwrap_or_default();
                check(
                    sides.iter().all(|side| *side <= most_side),
                    name,
                    "min_size is larger than pictures may be",
                )?;
                check(
                    max_aspect.is_none_or(|aspect| (1.0..=1000.0).contains(&aspect)),
                    name,
                    "max_aspect must be 1 to 1000",
                )
            }
            Self::Crop {
                r#box,
                faces,
                margin,
            } => {
                check(
                    r#box.is_some() != *faces,
                    name,
                    "needs either `box` or `faces`",
                )?;
                check(r#box.as_ref().is_none_or(is_box), name, "the box is empty")?;
                check(share(*margin), name, "margin must be 0 to 10")
            }
            Self::Resize {
                width,
                height,
                bounded,
                mode,
                ..
            } => {
                let sized = width.is_some() || height.is_some();
                check(
                    sized != *bounded,
                    name,
                    "needs a size, or `bounded` without one",
                )?;
                let fits = |side: &u32| (1..=most_side).contains(side);
                check(
                    width.iter().chain(height).all(fits),
                    name,
                    "a side must be 1 up to the longest that pictures may have",
                )?;
                let both = width.is_some() && height.is_some();
                check(
                    both || *mode == Mode::Stretch,
                    name,
                    "this mode needs width and height",
                )
            }
            Self::GaussianBlur {
                kernel,
                sigma,
                region,
                faces,
            } => {
                check(
                    Gaussian::new(*kernel, *sigma).is_some(),
                    name,
                    "kernel must be odd, 1 to 255, and sigma above 0",
                )?;
                check(
                    region.as_ref().is_none_or(is_box),
                    name,
                    "the region is empty",
                )?;
                check(
                    region.is_none() || !faces,
                    name,
                    "takes `region` or `faces`",
                )
            }
            Self::Normalize { mean, std, .. } => {
                let is_share = |value: &f32| (0.0..=1.0).contains(value);
                let is_spread = |value: &f32| *value > 0.0 && value.is_finite();
                check(
                    mean.is_none_or(|mean| mean.iter().all(is_share)),
                    name,
                    "mean must be 0 to 1",
                )?;
                check(
                    std.is_none_or(|std| std.iter().all(is_spread)),
                    name,
                    "std must be above 0",
                )
            }
            Self::Rotate { degrees, .. } => check(
                (-360.0..=360.0).contains(degrees),
                name,
                "degrees must be -360 to 360",
            ),
            Self::Flip { .. } | Self::Grayscale {} => Ok(()),
            Self::Anonymize { margin, .. } => check(share(*margin), name, "margin must be 0 to 10"),
        }
    }

    /// The options of a crop by masks.
    pub(super) fn mask_options(
        padding_ratio: Option<f32>,
        min_size: Option<[u32; 2]>,
        max_aspect: Option<f32>,
    ) -> MaskCropOptions {
        let usual = MaskCropOptions::default();
        MaskCropOptions {
            padding_ratio: padding_ratio.unwrap_or(usual.padding_ratio),
            min_size: min_size.map_or(usual.min_size, |[width, height]| (width, height)),
            max_aspect: max_aspect.unwrap_or(usual.max_aspect),
        }
    }
}

/// The bounds of a bounded resize.
pub(super) fn bounds() -> Bounds {
    Bounds::default()
}
