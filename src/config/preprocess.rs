//! Defaults of the preprocessing options.

use facescan_inference::registry::ResizeDefaults;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::rule::{Kind, Rule};
use facescan_imaging::preprocess::{LONGEST_SIDE, Layout, Mode, Profile};

/// Section `preprocess`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Preprocess {
    /// Height and width of the output, in pixels.
    pub image_size: [u32; 2],
    /// Means of red, green and blue that are subtracted, in 0..=1.
    pub mean: [f32; 3],
    /// Standard deviations that the difference is divided by, in the same units.
    pub std: [f32; 3],
    /// Pictures in a batch of the command line.
    pub batch_size: usize,
    /// Pictures that the command line loads at a time.
    pub num_workers: usize,
    /// Whether the channels come first.
    pub data_format: Layout,
    /// Whose resize is matched.
    pub profile: Profile,
    /// How a picture of another aspect is fitted.
    pub mode: Mode,
    /// The colour of a letterbox's bars, red, green and blue, before normalisation.
    pub pad: [u8; 3],
    /// The type of the values.
    pub dtype: Dtype,
    /// Whether pictures are preprocessed on the accelerator where `platform` says nothing.
    pub use_gpu: bool,
    /// Where pictures are preprocessed; wins over `use_gpu`.
    pub platform: Option<Platform>,
    /// Whether a platform that is not there is an error at start instead of a warning.
    pub strict: bool,
    /// Whether the accelerator's graphs are built and run once at start.
    pub warm_up: bool,
}

/// The type of a tensor's values.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Dtype {
    /// 32-bit floats.
    #[default]
    F32,
    /// 16-bit floats (IEEE 754).
    F16,
    /// Brain floats: the upper half of an `f32`.
    Bf16,
}

/// Where pictures are preprocessed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Platform {
    /// The CPU.
    Cpu,
    /// The accelerator of `devices.backend`.
    Gpu,
    /// A TPU, which no backend here drives.
    Tpu,
}

impl Platform {
    /// The name in settings and messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Gpu => "gpu",
            Self::Tpu => "tpu",
        }
    }
}

impl Preprocess {
    /// How the images of an encoder are resized where its registry entry does not say.
    pub fn resize_defaults(&self) -> ResizeDefaults {
        ResizeDefaults {
            profile: self.profile,
            mode: self.mode,
            pad: self.pad,
        }
    }

    /// What is asked for: `platform`, or else `use_gpu`.
    pub fn asked(&self) -> Platform {
        self.platform.unwrap_or(if self.use_gpu {
            Platform::Gpu
        } else {
            Platform::Cpu
        })
    }
}

pub(super) const RULES: &[Rule] = &[
    Rule::checked(
        "preprocess.image_size",
        Kind::Yaml,
        "a height and a width from 1 to 8192",
        |c| {
            c.preprocess
                .image_size
                .iter()
                .all(|side| (1..=LONGEST_SIDE).contains(side))
        },
    ),
    Rule::checked(
        "preprocess.mean",
        Kind::Yaml,
        "three numbers from 0 to 1",
        |c| c.preprocess.mean.iter().all(|m| (0.0..=1.0).contains(m)),
    ),
    Rule::checked("preprocess.std", Kind::Yaml, "three numbers above 0", |c| {
        c.preprocess.std.iter().all(|s| *s > 0.0 && s.is_finite())
    }),
    Rule::checked(
        "preprocess.batch_size",
        Kind::Yaml,
        "a whole number from 1 to 65536",
        |c| (1..=65_536).contains(&c.preprocess.batch_size),
    ),
    Rule::checked(
        "preprocess.num_workers",
        Kind::Yaml,
        "a whole number from 1 to 1024",
        |c| (1..=1024).contains(&c.preprocess.num_workers),
    ),
    Rule::typed("preprocess.data_format", Kind::Text, "NCHW or NHWC"),
    Rule::typed(
        "preprocess.profile",
        Kind::Choice,
        "torchvision, jax, pil or opencv",
    ),
    Rule::typed(
        "preprocess.mode",
        Kind::Choice,
        "stretch, letterbox, center_crop or short_side",
    ),
    Rule::typed(
        "preprocess.pad",
        Kind::Yaml,
        "three whole numbers from 0 to 255",
    ),
    Rule::typed("preprocess.dtype", Kind::Choice, "f32, f16 or bf16"),
    Rule::typed("preprocess.use_gpu", Kind::Flag, "true or false"),
    Rule::typed("preprocess.platform", Kind::Yaml, "cpu, gpu, tpu or null"),
    Rule::typed("preprocess.strict", Kind::Flag, "true or false"),
    Rule::typed("preprocess.warm_up", Kind::Flag, "true or false"),
];
