//! The defaults of request options, besides those of `detection`.

#![expect(missing_docs, reason = "configs/config.yaml describes every setting")]

use std::ops::RangeInclusive;

use facescan_imaging::{
    encode::OutputFormat,
    npy,
    preprocess::{Layout, MAX_SIDE, Mode, Profile},
    quality::acceptance::Preset,
};
use facescan_inference::registry::ResizeDefaults;
use garde::Validate;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The standard deviations that a normalization divides by.
pub const DEVIATIONS: RangeInclusive<f64> = 1e-6..=1e6;

/// Section `embedding`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Embedding {
    pub format: EmbeddingFormat,
}

/// The format of an embedding in a response.
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
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Quality {
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

    /// Returns how an image is encoded. Only JPEG has a quality.
    pub fn output(self, jpeg_quality: u8) -> OutputFormat {
        match self {
            Self::Jpeg => OutputFormat::Jpeg {
                quality: jpeg_quality,
            },
            Self::Png => OutputFormat::Png,
            Self::Webp => OutputFormat::Webp,
            Self::Avif => OutputFormat::Avif,
        }
    }
}

/// Section `preprocess`.
#[derive(Debug, Clone, Serialize, Deserialize, Validate)]
#[garde(allow_unvalidated)]
pub struct Preprocess {
    #[garde(inner(range(min = 1, max = MAX_SIDE)))]
    pub image_size: [u32; 2],
    #[garde(inner(range(min = 0.0, max = 1.0)))]
    pub mean: [f32; 3],
    #[garde(inner(range(min = *DEVIATIONS.start() as f32, max = *DEVIATIONS.end() as f32)))]
    pub std: [f32; 3],
    #[garde(range(min = 1, max = 65_536))]
    pub batch_size: usize,
    #[garde(range(min = 1, max = 1024))]
    pub num_workers: usize,
    pub data_format: Layout,
    pub profile: Profile,
    pub mode: Mode,
    pub pad: [u8; 3],
    pub dtype: Dtype,
    pub use_gpu: bool,
    pub platform: Option<Platform>,
    pub strict: bool,
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
