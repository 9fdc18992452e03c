//! The operations of `/process`, as requests name them.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::core::{
    error::{InvalidOption, PipelineError},
    options::schema,
};
use facescan_imaging::{
    blur::Gaussian,
    crop::MaskCropOptions,
    orientation::Axis,
    preprocess::{Layout, Mode, Profile},
};

/// The maximum number of operations in one request.
pub(crate) const MAX_STEPS: usize = 16;

/// One operation. Operations run in the order of the list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "op", rename_all = "snake_case", deny_unknown_fields)]
#[schema(as = ProcessStep)]
pub enum Step {
    /// Cuts out the region of the masks, with padding, a minimum size, a maximum aspect ratio and even sides.
    MaskCrop {
        /// The padding on each side, as a share of the masks' box. The default is 0.5.
        #[serde(default)]
        #[schema(minimum = 0, maximum = 10)]
        padding_ratio: Option<f32>,
        /// The minimum width and height. The default is 512 and 512.
        #[serde(default)]
        #[schema(min_items = 2, max_items = 2)]
        min_size: Option<[u32; 2]>,
        /// The maximum ratio of the longer to the shorter side. The default is 2.
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
        /// Whether to cut each face into an image of its own, the largest first.
        #[serde(default)]
        faces: bool,
        /// The margin on each side, as a share of the box. The default is 0.
        #[serde(default)]
        #[schema(minimum = 0, maximum = 10)]
        margin: f32,
    },
    /// Resizes. If only one side is given, the aspect ratio stays.
    Resize {
        /// The width in pixels.
        #[serde(default)]
        #[schema(minimum = 1, maximum = 65535)]
        width: Option<u32>,
        /// The height in pixels.
        #[serde(default)]
        #[schema(minimum = 1, maximum = 65535)]
        height: Option<u32>,
        /// The library whose resize is reproduced.
        #[serde(default)]
        profile: Profile,
        /// How to fit an image with another aspect ratio.
        #[serde(default)]
        mode: Mode,
        /// Whether to antialias when the image shrinks. By default, the profile decides.
        #[serde(default)]
        antialias: Option<bool>,
        /// Whether to shrink to bounds instead of a size. The shorter side is then at most 640, the longer at most
        /// 1280, and both are multiples of 16.
        #[serde(default)]
        bounded: bool,
        /// The color of the letterbox bars: red, green, blue.
        #[serde(default)]
        #[schema(schema_with = schema::color)]
        pad: [u8; 3],
    },
    /// Blurs the whole image, a region, or the faces.
    GaussianBlur {
        /// The side of the kernel in pixels, at most 255. An even number counts as the next odd one. The default is 7.
        #[serde(default = "default_kernel")]
        #[schema(minimum = 1, maximum = 255)]
        kernel: u32,
        /// The standard deviation in pixels. The default is 1.5.
        #[serde(default = "default_sigma")]
        #[schema(minimum = 0.000001, maximum = 1000000)]
        sigma: f32,
        /// The region: x1, y1, x2, y2 in whole pixels, half-open.
        #[serde(default)]
        #[schema(min_items = 4, max_items = 4)]
        region: Option<[u32; 4]>,
        /// Whether to blur the box of each face.
        #[serde(default)]
        faces: bool,
    },
    /// Converts the samples to `(x / 255 − mean) / std`. It must be the last operation, and the format must be npy.
    Normalize {
        /// The means of red, green and blue, 0 to 1. The default is ImageNet's.
        #[serde(default)]
        #[schema(schema_with = schema::means)]
        mean: Option<[f32; 3]>,
        /// The standard deviations. The default is ImageNet's.
        #[serde(default)]
        #[schema(schema_with = schema::deviations)]
        std: Option<[f32; 3]>,
        /// Whether the channels are the first dimension.
        #[serde(default)]
        layout: Layout,
    },
    /// Rotates clockwise. Multiples of 90 degrees swap the sides. Other angles keep the size and fill the corners.
    Rotate {
        /// The angle in degrees, −360 to 360.
        #[schema(minimum = -360, maximum = 360)]
        degrees: f32,
        /// The color of the corners: red, green, blue.
        #[serde(default)]
        #[schema(schema_with = schema::color)]
        background: [u8; 3],
    },
    /// Mirrors the image.
    Flip {
        /// The axis: swaps left and right, or top and bottom.
        axis: Axis,
    },
    /// Sets all three channels to the luma (BT.601).
    Grayscale {},
    /// Hides every face, and searches again until the detector finds none.
    Anonymize {
        /// How to hide a face.
        #[serde(default)]
        method: Method,
        /// The margin on each side, as a share of the face's box. The default is 0.2.
        #[serde(default = "default_margin")]
        #[schema(minimum = 0, maximum = 10)]
        margin: f32,
        /// The color of `fill`: red, green, blue.
        #[serde(default)]
        #[schema(schema_with = schema::color)]
        color: [u8; 3],
    },
}

/// The method that hides a face.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema, clap::ValueEnum,
)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// Eight blocks along the longer side, smoothed. A face that is found again gets fewer blocks.
    #[default]
    Blur,
    /// Eight blocks along the longer side. A face that is found again gets fewer blocks.
    Pixelate,
    /// One color.
    Fill,
}

fn default_kernel() -> u32 {
    7
}

fn default_sigma() -> f32 {
    1.5
}

fn default_margin() -> f32 {
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

/// Returns whether a margin is in the allowed range.
fn is_share(value: f32) -> bool {
    (0.0..=10.0).contains(&value)
}

/// Returns whether a half-open box has pixels.
fn is_box(&[x1, y1, x2, y2]: &[u32; 4]) -> bool {
    x1 < x2 && y1 < y2
}

/// Checks the whole list. `masks` is the number of masks in the request. `longest_side` is the maximum side of an
/// image.
///
/// # Errors
/// [`PipelineError::InvalidOption`] with the name of the operation.
pub(crate) fn check_all(
    steps: &[Step],
    masks: usize,
    longest_side: u32,
) -> Result<(), PipelineError> {
    if !(1..=MAX_STEPS).contains(&steps.len()) {
        let wanted = "must be a list of 1 to 16 operations";
        return Err(InvalidOption::new("operations", wanted).into());
    }
    for (at, step) in steps.iter().enumerate() {
        step.check(masks, longest_side)?;
        let is_last = at + 1 == steps.len();
        check(
            is_last || !matches!(step, Step::Normalize { .. }),
            "normalize",
            "must be the last operation, because the others need whole levels",
        )?;
    }
    Ok(())
}

impl Step {
    /// Returns the name in requests.
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

    /// Returns whether the operation makes an image of each face.
    pub(super) fn cuts_faces(&self) -> bool {
        matches!(self, Self::Crop { faces: true, .. })
    }

    /// Returns whether the operation needs the faces of the image.
    pub(crate) fn finds_faces(&self) -> bool {
        match self {
            Self::Crop { faces, .. } | Self::GaussianBlur { faces, .. } => *faces,
            Self::Anonymize { .. } => true,
            Self::MaskCrop { .. }
            | Self::Resize { .. }
            | Self::Normalize { .. }
            | Self::Rotate { .. }
            | Self::Flip { .. }
            | Self::Grayscale {} => false,
        }
    }

    fn check(&self, masks: usize, longest_side: u32) -> Result<(), PipelineError> {
        let name = self.name();
        match self {
            Self::MaskCrop { .. } => self.check_mask_crop(masks, longest_side),
            Self::Crop {
                r#box,
                faces,
                margin,
            } => {
                let detail = "needs either `box` or `faces`";
                check(r#box.is_some() != *faces, name, detail)?;
                check(r#box.as_ref().is_none_or(is_box), name, "the box is empty")?;
                check(is_share(*margin), name, "margin must be from 0 to 10")
            }
            Self::Resize { .. } => self.check_resize(longest_side),
            Self::GaussianBlur {
                kernel,
                sigma,
                region,
                faces,
            } => {
                let is_gaussian = Gaussian::new(*kernel | 1, *sigma).is_some();
                let detail = "kernel must be from 1 to 255, and sigma above 0";
                check(is_gaussian, name, detail)?;
                let has_pixels = region.as_ref().is_none_or(is_box);
                check(has_pixels, name, "the region is empty")?;
                let is_one = region.is_none() || !faces;
                check(is_one, name, "accepts `region` or `faces`, not both")
            }
            Self::Normalize { mean, std, .. } => {
                let is_mean = |value: &f32| (0.0..=1.0).contains(value);
                let means = mean.is_none_or(|mean| mean.iter().all(is_mean));
                check(means, name, "mean must be from 0 to 1")?;
                let spreads = std.is_none_or(|std| std.into_iter().all(schema::is_deviation));
                check(spreads, name, "std must be from 0.000001 to 1000000")
            }
            Self::Rotate { degrees, .. } => {
                let is_turn = (-360.0..=360.0).contains(degrees);
                check(is_turn, name, "degrees must be from -360 to 360")
            }
            Self::Flip { .. } | Self::Grayscale {} => Ok(()),
            Self::Anonymize { margin, .. } => {
                check(is_share(*margin), name, "margin must be from 0 to 10")
            }
        }
    }

    fn check_mask_crop(&self, masks: usize, longest_side: u32) -> Result<(), PipelineError> {
        let Self::MaskCrop {
            padding_ratio,
            min_size,
            max_aspect,
        } = self
        else {
            return Ok(());
        };
        let name = self.name();
        let detail = "needs masks: send parts named `mask`, or `masks` in a JSON body";
        check(masks > 0, name, detail)?;
        let is_padding = padding_ratio.is_none_or(is_share);
        check(is_padding, name, "padding_ratio must be from 0 to 10")?;
        let sides = min_size.unwrap_or_default();
        let fits = sides.iter().all(|side| *side <= longest_side);
        check(
            fits,
            name,
            "min_size is larger than the maximum side of an image",
        )?;
        let is_aspect = max_aspect.is_none_or(|aspect| (1.0..=1000.0).contains(&aspect));
        check(is_aspect, name, "max_aspect must be from 1 to 1000")
    }

    fn check_resize(&self, longest_side: u32) -> Result<(), PipelineError> {
        let Self::Resize {
            width,
            height,
            bounded,
            mode,
            ..
        } = self
        else {
            return Ok(());
        };
        let name = self.name();
        let has_size = width.is_some() || height.is_some();
        let detail = "needs either a size or `bounded`";
        check(has_size != *bounded, name, detail)?;
        let fits = |side: &u32| (1..=longest_side).contains(side);
        let detail = "a side must be from 1 to the maximum side of an image";
        check(width.iter().chain(height).all(fits), name, detail)?;
        let has_both = width.is_some() && height.is_some();
        let detail = "this mode needs both width and height";
        check(has_both || *mode == Mode::Stretch, name, detail)
    }

    /// Returns the options of a crop by masks, with the defaults filled in.
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
