//! One entry of the registry.

use std::{
    num::NonZeroUsize,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::{Family, Role};
use crate::backend::kserve::RemoteSpec;
use facescan_imaging::{
    preprocess::{Layout, Mode, Preprocess, Profile},
    tensor::{ChannelOrder, Normalization},
};

/// An entry of the registry: everything about one model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelSpec {
    /// The name in settings, requests and responses: lower-case letters, digits, `.`, `_` and `-`.
    pub id: String,
    /// What the model does.
    pub role: Role,
    /// How its inputs and outputs are laid out.
    pub family: Family,
    /// The file, absolute or relative to the models directory; empty if a remote server runs the model.
    #[serde(default, skip_serializing_if = "is_empty")]
    pub file: PathBuf,
    /// The file's sha256, lower-case hex. A remote model needs it too, because vector spaces are computed from it, although
    /// the file cannot be checked.
    pub sha256: String,
    /// The license of the weights.
    pub license: String,
    /// Whether that license allows commercial use.
    pub commercial_use: bool,
    /// Where the weights come from.
    pub source: String,
    /// The input.
    pub input: InputSpec,
    /// The length of the embedding. For embedders and encoders.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dim: Option<usize>,
    /// The graph's name of the output that is the embedding. If absent, the graph has only one. For encoders.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// How an output of several vectors per image becomes one. For encoders.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pooling: Option<Pooling>,
    /// The number of rows in a run.
    #[serde(default)]
    pub batch: Batch,
    /// Default thresholds.
    #[serde(default)]
    pub thresholds: Thresholds,
    /// The server that runs the model instead of a file. For encoders.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote: Option<RemoteSpec>,
    /// How the file is made from a shipped one. If absent, the file is used as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prepare: Option<PrepareSpec>,
}

fn is_empty(path: &Path) -> bool {
    path.as_os_str().is_empty()
}

/// A model's input: one f32 tensor `[N, 3, height, width]`, or `[N, height, width, 3]`, with `x' = (x − mean) · scale`,
/// x in 0..255.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InputSpec {
    /// The graph's name of the input. If absent, the graph's only input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Width in pixels; the default width if sizes are dynamic.
    pub width: u32,
    /// Height in pixels; the default height if sizes are dynamic.
    pub height: u32,
    /// If set, the input accepts every width and height that is a multiple of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_multiple: Option<u32>,
    /// Which channel comes first.
    pub channel_order: ChannelOrder,
    /// Subtracted from each channel, in `channel_order`.
    pub mean: [f32; 3],
    /// Multiplied with the difference, in `channel_order`.
    pub scale: [f32; 3],
    /// Whether the channels come first. Only encoders have a choice.
    #[serde(default, skip_serializing_if = "Layout::is_nchw")]
    pub layout: Layout,
    /// The library whose resize the model was trained with; `preprocess.profile` if absent. For encoders.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<Profile>,
    /// How an image of another aspect ratio is fitted; `preprocess.mode` if absent. For encoders.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// The color of a letterbox's bars: red, green and blue in 0..255, before normalization; `preprocess.pad` if
    /// absent. For encoders.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pad: Option<[u8; 3]>,
}

impl InputSpec {
    /// Returns the conversion of pixels to the input's values.
    pub fn normalization(&self) -> Normalization {
        Normalization {
            order: self.channel_order,
            mean: self.mean,
            scale: self.scale,
        }
    }

    /// Takes the resize of an encoder's images from the settings, if the entry does not have it.
    pub(super) fn resize_as(&mut self, defaults: &ResizeDefaults) {
        self.profile.get_or_insert(defaults.profile);
        self.mode.get_or_insert(defaults.mode);
        self.pad.get_or_insert(defaults.pad);
    }

    /// Returns how an encoder's images become its input, with the channels as red, green and blue.
    pub fn preprocess(&self) -> Preprocess {
        let rgb = |mut channels: [f32; 3]| {
            if self.channel_order == ChannelOrder::Bgr {
                channels.reverse();
            }
            channels
        };
        Preprocess {
            height: self.height,
            width: self.width,
            profile: self.profile.unwrap_or_default(),
            mode: self.mode.unwrap_or_default(),
            layout: self.layout,
            pad: self.pad.unwrap_or_default(),
            mean: rgb(self.mean).map(|mean| (f64::from(mean) / 255.0) as f32),
            std: rgb(self.scale).map(|scale| (1.0 / (f64::from(scale) * 255.0)) as f32),
        }
    }

    /// Returns the shape of a row at the default size.
    pub fn row_shape(&self) -> [usize; 3] {
        let (width, height) = (self.width as usize, self.height as usize);
        match self.layout {
            Layout::Nchw => [3, height, width],
            Layout::Nhwc => [height, width, 3],
        }
    }

    /// Returns whether the model accepts squares of `side` pixels.
    pub fn takes_square(&self, side: u32) -> bool {
        match self.size_multiple {
            Some(multiple) => side.is_multiple_of(multiple),
            None => self.width == side && self.height == side,
        }
    }
}

/// The default resize of an encoder's images, for entries without their own.
#[derive(Clone, Copy, Debug)]
pub struct ResizeDefaults {
    /// The library whose resize is matched.
    pub profile: Profile,
    /// How an image of another aspect ratio is fitted.
    pub mode: Mode,
    /// The color of a letterbox's bars: red, green and blue in 0..=255.
    pub pad: [u8; 3],
}

/// How an output of several vectors, `[N, tokens, dim]`, becomes one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pooling {
    /// The first vector, which is the class token of vision transformers.
    First,
    /// The mean of all vectors.
    Mean,
}

impl Pooling {
    /// Returns the name in the registry.
    pub fn name(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Mean => "mean",
        }
    }
}

/// The number of rows in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    rename_all = "lowercase",
    expecting = "expected `dynamic` or a number from 1"
)]
pub enum Batch {
    /// Any number of rows.
    #[default]
    Dynamic,
    /// Always this many rows. More rows run as several batches, one after the other.
    #[serde(untagged)]
    Fixed(NonZeroUsize),
}

impl Batch {
    /// Returns the number of rows, if it is fixed.
    pub fn fixed(self) -> Option<NonZeroUsize> {
        match self {
            Self::Dynamic => None,
            Self::Fixed(rows) => Some(rows),
        }
    }
}

/// Default thresholds of a model. A request can override them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Thresholds {
    /// Lowest score of a face, 0..1. For detectors.
    pub score: f32,
    /// Largest overlap of two faces as intersection over union, 0..1. For detectors.
    pub nms_iou: f32,
    /// Cosine above which two faces are the same person, with one false match in 1,000. For embedders.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cosine_far_1e3: Option<f32>,
    /// The same threshold with one false match in 10,000.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cosine_far_1e4: Option<f32>,
}

impl Default for Thresholds {
    fn default() -> Self {
        Self {
            score: 0.6,
            nms_iou: 0.3,
            cosine_far_1e3: None,
            cosine_far_1e4: None,
        }
    }
}

/// How a model's file is made from a shipped one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrepareSpec {
    /// The shipped file, relative to the directory of shipped files.
    pub file: PathBuf,
    /// Its sha256, lower-case hex.
    pub sha256: String,
    /// The steps.
    pub recipe: Recipe,
    /// Whether preparing all models skips this one if its shipped file is missing.
    #[serde(default)]
    pub opt_in: bool,
}

/// The steps that are applied to a shipped file. See [`crate::prepare`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Recipe {
    /// Weights to f32, dynamic batch and size, Reshapes that keep the batch.
    Yunet,
    /// Weights to f32, dynamic batch, PRelu split.
    Sface,
    /// Dynamic batch and size.
    Centerface,
}
