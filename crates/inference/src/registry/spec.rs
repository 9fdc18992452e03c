//! One entry of the registry.

use std::{
    fmt,
    num::NonZeroUsize,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::backend::kserve::RemoteSpec;
use facescan_imaging::{
    preprocess::{Layout, Mode, Preprocess, Profile},
    tensor::{ChannelOrder, Normalisation},
};

/// Everything the registry says about a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelSpec {
    /// Its name in settings, requests and answers: lower-case letters, digits, `.`, `_` and `-`.
    pub id: String,
    /// What it is for.
    pub role: Role,
    /// How its inputs and outputs are laid out.
    pub family: Family,
    /// Its file, absolute or relative to the models directory; empty where a remote server runs it.
    #[serde(default, skip_serializing_if = "is_empty")]
    pub file: PathBuf,
    /// The file's sha256, lower-case hex. Of a remote model's file too, which is not at hand to be checked: contracts
    /// are made of it.
    pub sha256: String,
    /// The licence of the weights.
    pub licence: String,
    /// Whether that licence allows commercial use.
    pub commercial_use: bool,
    /// Where the weights come from.
    pub source: String,
    /// What it takes.
    pub input: InputSpec,
    /// Length of the embedding; embedders and encoders.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dim: Option<usize>,
    /// Which output the embedding is, by the graph's name; the only one when absent. Encoders.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// How an output of several vectors a picture becomes one. Encoders.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pooling: Option<Pooling>,
    /// How many rows a run takes.
    #[serde(default)]
    pub batch: Batch,
    /// Default thresholds.
    #[serde(default)]
    pub thresholds: Thresholds,
    /// The server that runs it, in the place of a file. Encoders.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote: Option<RemoteSpec>,
    /// How the file is made from a shipped one; absent when it is used as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prepare: Option<PrepareSpec>,
}

fn is_empty(path: &Path) -> bool {
    path.as_os_str().is_empty()
}

/// What a model is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Finds faces and their five points.
    Detector,
    /// Turns an aligned 112×112 crop into a vector.
    Embedder,
    /// Turns a whole picture into a vector.
    Encoder,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Detector => "detector",
            Self::Embedder => "embedder",
            Self::Encoder => "encoder",
        })
    }
}

/// How a model's inputs and outputs are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    /// YuNet: twelve outputs, class, objectness, box and points at strides 8, 16 and 32.
    Yunet,
    /// SCRFD: scores, distances and, in nine-output files, points at strides 8, 16 and 32, two anchors a cell.
    Scrfd,
    /// CenterFace: heatmap, log-size, offset and points at stride 4.
    Centerface,
    /// SFace: one vector.
    Sface,
    /// ArcFace and its relatives: one vector.
    Arcface,
    /// Any encoder of whole pictures: one vector, or one for each token.
    Image,
}

impl Family {
    /// The role that models of this family have.
    pub fn role(self) -> Role {
        match self {
            Self::Yunet | Self::Scrfd | Self::Centerface => Role::Detector,
            Self::Sface | Self::Arcface => Role::Embedder,
            Self::Image => Role::Encoder,
        }
    }

    /// Its name in the registry.
    pub fn name(self) -> &'static str {
        match self {
            Self::Yunet => "yunet",
            Self::Scrfd => "scrfd",
            Self::Centerface => "centerface",
            Self::Sface => "sface",
            Self::Arcface => "arcface",
            Self::Image => "image",
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What a model takes: one f32 tensor `[N, 3, height, width]`, or `[N, height, width, 3]`, with
/// `x' = (x − mean) · scale`, x in 0..255.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InputSpec {
    /// The graph's name of the input; whatever the only input is called when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Width in pixels; the default one where sizes are free.
    pub width: u32,
    /// Height in pixels; the default one where sizes are free.
    pub height: u32,
    /// When set, any width and height that are multiples of it are taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_multiple: Option<u32>,
    /// Which channel comes first.
    pub channel_order: ChannelOrder,
    /// Subtracted from each channel, in `channel_order`.
    pub mean: [f32; 3],
    /// Multiplied after that, in `channel_order`.
    pub scale: [f32; 3],
    /// Whether the channels come first. Encoders; the others take them first.
    #[serde(default, skip_serializing_if = "Layout::is_nchw")]
    pub layout: Layout,
    /// Whose resize the model was trained with; `preprocess.profile` when absent. Encoders.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<Profile>,
    /// How a picture of another aspect is fitted; `preprocess.mode` when absent. Encoders.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// The colour of a letterbox's bars, red, green and blue in 0..255, before normalisation; `preprocess.pad` when
    /// absent. Encoders.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pad: Option<[u8; 3]>,
}

impl InputSpec {
    /// How pixels become this input's values.
    pub fn normalisation(&self) -> Normalisation {
        Normalisation {
            order: self.channel_order,
            mean: self.mean,
            scale: self.scale,
        }
    }

    /// Fills in from the settings how an encoder's pictures are resized, where its entry does not say.
    pub(super) fn resize_as(&mut self, defaults: &ResizeDefaults) {
        self.profile.get_or_insert(defaults.profile);
        self.mode.get_or_insert(defaults.mode);
        self.pad.get_or_insert(defaults.pad);
    }

    /// How an encoder's pictures become its input, with the channels as red, green and blue.
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

    /// The shape of a row at the default size.
    pub fn row_shape(&self) -> [usize; 3] {
        let (width, height) = (self.width as usize, self.height as usize);
        match self.layout {
            Layout::Nchw => [3, height, width],
            Layout::Nhwc => [height, width, 3],
        }
    }

    /// Whether the model takes squares of `side` pixels.
    pub fn takes_square(&self, side: u32) -> bool {
        match self.size_multiple {
            Some(multiple) => side.is_multiple_of(multiple),
            None => self.width == side && self.height == side,
        }
    }
}

/// How the images of an encoder are resized where its entry in the registry does not say.
#[derive(Clone, Copy, Debug)]
pub struct ResizeDefaults {
    /// Which library's resize is matched.
    pub profile: Profile,
    /// How an image of another aspect ratio is fitted.
    pub mode: Mode,
    /// The colour of a letterbox's bars: red, green and blue in 0..=255.
    pub pad: [u8; 3],
}

/// How an output of several vectors, `[N, tokens, dim]`, becomes one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pooling {
    /// The first of them, the class token of vision transformers.
    First,
    /// The mean of all of them.
    Mean,
}

impl Pooling {
    /// The name in the registry.
    pub fn name(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Mean => "mean",
        }
    }
}

/// How many rows a run takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Batch {
    /// Any number.
    #[default]
    Dynamic,
    /// Always this many: more rows are run one such batch after the other.
    Fixed(NonZeroUsize),
}

impl Batch {
    /// The number of rows, where it is fixed.
    pub fn fixed(self) -> Option<NonZeroUsize> {
        match self {
            Self::Dynamic => None,
            Self::Fixed(rows) => Some(rows),
        }
    }
}

impl Serialize for Batch {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Dynamic => serializer.serialize_str("dynamic"),
            Self::Fixed(rows) => rows.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Batch {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "expected `dynamic` or a number from 1")]
        enum Written {
            Word(Dynamic),
            Rows(NonZeroUsize),
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "lowercase")]
        enum Dynamic {
            Dynamic,
        }
        Ok(match Written::deserialize(deserializer)? {
            Written::Word(Dynamic::Dynamic) => Self::Dynamic,
            Written::Rows(rows) => Self::Fixed(rows),
        })
    }
}

/// Thresholds that suit a model, unless a request says otherwise.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Thresholds {
    /// Lowest score of a face, 0..1; detectors.
    pub score: f32,
    /// Largest overlap of two faces as intersection over union, 0..1; detectors.
    pub nms_iou: f32,
    /// Cosine above which two faces are one person with one false match in 1,000; embedders.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cosine_far_1e3: Option<f32>,
    /// The same with one false match in 10,000.
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
    /// What is done to it.
    pub recipe: Recipe,
    /// Whether preparing all models passes this one by when its shipped file is absent.
    #[serde(default)]
    pub opt_in: bool,
}

/// What is done to a shipped file; [`crate::prepare`] has the steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Recipe {
    /// Weights to f32, batch and size free, Reshapes that keep the batch.
    Yunet,
    /// Weights to f32, batch free, PRelu split.
    Sface,
    /// Batch and size free.
    Centerface,
}
