//! The defaults of request options.

#![expect(missing_docs, reason = "configs/config.yaml describes every setting")]

use std::str::FromStr;

use facescan_imaging::{
    npy,
    preprocess::{Layout, MAX_SIDE, Mode, Profile},
    quality::acceptance::Preset,
};
use facescan_inference::registry::ResizeDefaults;
use garde::Validate;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::must;

/// The minimum of `det_size`.
pub const MIN_DET_SIZE: u32 = 64;

/// The maximum of `det_size`.
pub const MAX_DET_SIZE: u32 = 4096;

/// The number that divides every `det_size`: the coarsest stride of the detector families.
pub const DET_SIZE_STEP: u32 = 32;

/// The side of the detector's input for [`DetSize::Fit`].
const FIT_SIDE: u32 = 640;

/// The longer side of the detector's input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(
    untagged,
    expecting = "expected a multiple of 32 from 64 to 4096, or fit"
)]
pub enum DetSize {
    /// Images that are larger than 640 pixels are shrunk to this side. No image is enlarged.
    Fit(Fit),
    /// Every image is shrunk or enlarged to this side in pixels.
    Side(u32),
}

/// The word `fit`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Fit {
    /// Images are not enlarged.
    Fit,
}

impl DetSize {
    /// Returns the side in pixels. An image that is not enlarged can be smaller.
    pub fn side(self) -> u32 {
        match self {
            Self::Fit(Fit::Fit) => FIT_SIDE,
            Self::Side(side) => side,
        }
    }

    /// Returns whether small images are enlarged to the side.
    pub fn enlarges(self) -> bool {
        matches!(self, Self::Side(_))
    }
}

impl FromStr for DetSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "fit" => Ok(Self::Fit(Fit::Fit)),
            side => side
                .parse()
                .map(Self::Side)
                .map_err(|_| "expected a number of pixels, or fit".to_owned()),
        }
    }
}

/// Section `detection`.
#[derive(Debug, Clone, Serialize, Deserialize, Validate)]
pub struct Detection {
    #[garde(custom(must(|size: &DetSize| is_det_side(size.side()))))]
    pub det_size: DetSize,
    #[garde(
        range(min = MIN_DET_SIZE, max = self.det_size.side().saturating_sub(1).min(MAX_DET_SIZE)),
        inner(custom(must(is_det_size_step)))
    )]
    pub second_det_size: Option<u32>,
    #[garde(skip)]
    pub padding: Padding,
    #[garde(skip)]
    pub decode: DecodeMode,
    #[garde(range(min = 0.0, max = 1.0))]
    pub min_score: Option<f32>,
    #[garde(range(min = 0.0, max = 1.0))]
    pub nms_iou: Option<f32>,
    #[garde(range(max = 100_000))]
    pub max_faces: usize,
    #[garde(range(max = 65_535))]
    pub min_face_size: u32,
    #[garde(skip)]
    pub landmarks: bool,
}

/// How much of a large JPEG is decoded to find and embed faces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum DecodeMode {
    /// All pixels.
    Full,
    /// No more pixels than the models need, if libjpeg-turbo is installed.
    Fast,
}

impl FromStr for DecodeMode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "full" => Ok(Self::Full),
            "fast" => Ok(Self::Fast),
            _ => Err("expected full or fast".to_owned()),
        }
    }
}

/// How an image that is not square fills the detector's input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Padding {
    /// The input has the image's shape, up to the next multiple of the model's stride.
    Minimal,
    /// The input is a square.
    Square,
}

/// Returns whether a detector's input can have this side.
pub fn is_det_side(side: u32) -> bool {
    is_det_size_step(&side) && (MIN_DET_SIZE..=MAX_DET_SIZE).contains(&side)
}

fn is_det_size_step(side: &u32) -> bool {
    side.is_multiple_of(DET_SIZE_STEP)
}

/// Section `embedding`.
#[derive(Debug, Clone, Serialize, Deserialize, Validate)]
pub struct Embedding {
    #[garde(skip)]
    pub format: EmbeddingFormat,
}

/// The format of an embedding in an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum EmbeddingFormat {
    /// A list of numbers.
    #[serde(rename = "float")]
    Float,
    /// Base64 of little-endian 32-bit floats.
    #[serde(rename = "base64-f32")]
    Base64F32,
    /// Base64 of little-endian 16-bit floats.
    #[serde(rename = "base64-f16")]
    Base64F16,
}

/// Section `quality`.
#[derive(Debug, Clone, Serialize, Deserialize, Validate)]
pub struct Quality {
    #[garde(skip)]
    pub preset: Preset,
}

/// Section `enhancement`.
#[derive(Debug, Clone, Serialize, Deserialize, Validate)]
pub struct Enhancement {
    #[garde(skip)]
    pub format: EnhancedFormat,
    #[garde(range(min = 1, max = 100))]
    pub jpeg_quality: u8,
    #[garde(range(min = -1.0, max = 1.0))]
    pub identity_threshold: f32,
}

/// The format of an enhanced image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum EnhancedFormat {
    /// JPEG with `enhancement.jpeg_quality`.
    Jpeg,
    /// PNG, lossless.
    Png,
    /// WebP, lossless.
    Webp,
    /// AVIF, lossy.
    Avif,
}

impl EnhancedFormat {
    /// Returns the media type of the format.
    pub fn media_type(self) -> &'static str {
        match self {
            Self::Jpeg => "image/jpeg",
            Self::Png => "image/png",
            Self::Webp => "image/webp",
            Self::Avif => "image/avif",
        }
    }
}

/// Section `preprocess`.
#[derive(Debug, Clone, Serialize, Deserialize, Validate)]
pub struct Preprocess {
    #[garde(inner(range(min = 1, max = MAX_SIDE)))]
    pub image_size: [u32; 2],
    #[garde(inner(range(min = 0.0, max = 1.0)))]
    pub mean: [f32; 3],
    #[garde(inner(range(min = f32::MIN_POSITIVE, max = f32::MAX)))]
    pub std: [f32; 3],
    #[garde(range(min = 1, max = 65_536))]
    pub batch_size: usize,
    #[garde(range(min = 1, max = 1024))]
    pub num_workers: usize,
    #[garde(skip)]
    pub data_format: Layout,
    #[garde(skip)]
    pub profile: Profile,
    #[garde(skip)]
    pub mode: Mode,
    #[garde(skip)]
    pub pad: [u8; 3],
    #[garde(skip)]
    pub dtype: Dtype,
    #[garde(skip)]
    pub use_gpu: bool,
    #[garde(skip)]
    pub platform: Option<Platform>,
    #[garde(skip)]
    pub strict: bool,
    #[garde(skip)]
    pub warm_up: bool,
}

/// The type of the values of a tensor.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Dtype {
    /// 32-bit floats.
    #[default]
    F32,
    /// 16-bit floats (IEEE 754).
    F16,
    /// bfloat16: the upper half of an `f32`.
    Bf16,
}

impl Dtype {
    /// Returns the bytes of one value.
    pub fn size(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::Bf16 => 2,
        }
    }

    /// Returns the type in NumPy files.
    pub fn npy(self) -> npy::Kind {
        match self {
            Self::F32 => npy::Kind::F32,
            Self::F16 => npy::Kind::F16,
            Self::Bf16 => npy::Kind::Bf16,
        }
    }
}

/// The platform that preprocesses images.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Platform {
    /// The CPU.
    Cpu,
    /// The accelerator of `devices.backend`.
    Gpu,
    /// A TPU. This server has no backend for it.
    Tpu,
}

impl Platform {
    /// Returns the name in settings and messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Gpu => "gpu",
            Self::Tpu => "tpu",
        }
    }
}

impl Preprocess {
    /// Returns how the images of an encoder are resized if its registry entry does not say it.
    pub fn resize_defaults(&self) -> ResizeDefaults {
        let Self {
            profile, mode, pad, ..
        } = *self;
        ResizeDefaults { profile, mode, pad }
    }

    /// Returns the platform in the settings: `platform`, or else `use_gpu`.
    pub fn requested_platform(&self) -> Platform {
        let by_default = if self.use_gpu {
            Platform::Gpu
        } else {
            Platform::Cpu
        };
        self.platform.unwrap_or(by_default)
    }
}
