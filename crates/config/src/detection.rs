//! The options for finding faces: in the settings, in requests and on the command line, and with the defaults filled in.
//!
//! A new option has a field in each of the three structs and a line in [`DetectionRequest::resolve`],
//! [`DetectOptions::without_limits`] and [`DetectOptions::scaled`].

use std::str::FromStr;

use clap::Args;
use facescan_inference::registry::Thresholds;
use garde::Validate;
use serde::{Deserialize, Serialize};
use utoipa::{
    IntoParams, ToSchema,
    openapi::{ObjectBuilder, OneOfBuilder, Schema, Type},
};

use super::checks::must;

/// The minimum of `det_size`.
pub const MIN_DET_SIZE: u32 = 64;

/// The maximum of `det_size`.
pub const MAX_DET_SIZE: u32 = 4096;

/// The number that divides every `det_size`: the coarsest stride of the detector families.
pub const DET_SIZE_STEP: u32 = 32;

/// The side of the detector's input for [`DetSize::Fit`].
const FIT_SIDE: u32 = 640;

/// Section `detection`.
#[derive(Debug, Clone, Serialize, Deserialize, Validate)]
#[expect(missing_docs, reason = "configs/config.yaml describes every setting")]
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

/// The options of requests and of the command line that decide how faces are found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema, IntoParams, Args)]
#[into_params(parameter_in = Query)]
pub struct DetectionRequest {
    /// The lowest detection score of a face, 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 1)]
    #[arg(long, value_name = "SCORE")]
    pub min_score: Option<f32>,
    /// The NMS drops boxes that overlap a better box by more than this IoU, 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 1)]
    #[arg(long, value_name = "IOU")]
    pub nms_iou: Option<f32>,
    /// The longer side of the detector's input, to which images are scaled, in pixels. A multiple of 32. `fit` shrinks
    /// images to 640 and does not enlarge smaller ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = det_size)]
    #[arg(long, value_name = "PIXELS")]
    pub det_size: Option<DetSize>,
    /// A second side, for faces that fill the image, or 0 for none. One NMS covers both sizes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = second_det_size)]
    #[arg(long, value_name = "PIXELS")]
    pub second_det_size: Option<u32>,
    /// The maximum number of faces. The largest faces are kept. 0 means no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 4294967295u64)]
    #[arg(long, value_name = "COUNT")]
    pub max_faces: Option<usize>,
    /// The shortest side of a face's box, in pixels of the image. Smaller faces are dropped.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 65535)]
    #[arg(long, value_name = "PIXELS")]
    pub min_face_size: Option<f32>,
}

/// The options for finding faces, with every default filled in.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DetectOptions {
    /// The lowest detection score, 0..=1.
    pub min_score: f32,
    /// The NMS threshold, 0..=1.
    pub nms_iou: f32,
    /// The side of the detector's input, a multiple of 32.
    pub det_size: DetSize,
    /// A second side, for faces that fill the image.
    pub second_det_size: Option<u32>,
    /// The maximum number of faces. The largest faces are kept.
    pub max_faces: Option<usize>,
    /// The shortest side of a face's box, in pixels of the image.
    pub min_face_size: f32,
}

impl DetectionRequest {
    /// Fills in the defaults. If the settings have no threshold, this uses the threshold of the model. The ranges were checked
    /// before.
    pub fn resolve(&mut self, settings: &Detection, thresholds: &Thresholds) -> DetectOptions {
        let min_score = settings.min_score.unwrap_or(thresholds.score);
        let nms_iou = settings.nms_iou.unwrap_or(thresholds.nms_iou);
        let det_size = *self.det_size.get_or_insert(settings.det_size);
        let second = self.second_det_size.or(settings.second_det_size);
        // A second side that is not smaller has nothing to add. That of the settings is for their first side.
        let second = second.filter(|side| (1..det_size.side()).contains(side));
        self.second_det_size = Some(second.unwrap_or(0));
        let max_faces = *self.max_faces.get_or_insert(settings.max_faces);
        let min_face_size = settings.min_face_size as f32;
        DetectOptions {
            min_score: *self.min_score.get_or_insert(min_score),
            nms_iou: *self.nms_iou.get_or_insert(nms_iou),
            det_size,
            second_det_size: second,
            max_faces: (max_faces != 0).then_some(max_faces),
            min_face_size: *self.min_face_size.get_or_insert(min_face_size),
        }
    }
}

/// The size of one input of the detector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InputSize {
    /// The longer side in pixels.
    pub side: u32,
    /// Whether smaller images are enlarged to it.
    pub enlarges: bool,
}

impl DetectOptions {
    /// Returns the options for finding every face: those that leave faces out are off.
    #[must_use]
    pub fn without_limits(self) -> Self {
        let Self {
            min_score,
            nms_iou,
            det_size,
            second_det_size,
            max_faces: _,
            min_face_size: _,
        } = self;
        Self {
            min_score,
            nms_iou,
            det_size,
            second_det_size,
            max_faces: None,
            min_face_size: 0.0,
        }
    }

    /// Returns the options for finding the same faces in an image whose sides are `factor` times as long.
    #[must_use]
    pub fn scaled(self, factor: f32) -> Self {
        let Self {
            min_score,
            nms_iou,
            det_size,
            second_det_size,
            max_faces,
            min_face_size,
        } = self;
        Self {
            min_score,
            nms_iou,
            det_size,
            second_det_size,
            max_faces,
            min_face_size: min_face_size * factor,
        }
    }

    /// Returns the size of the input that `det_size` asks for.
    pub fn main_input(&self) -> InputSize {
        self.input(self.det_size.side())
    }

    /// Returns the size of each input that is made of an image, the smaller one first.
    pub fn inputs(&self) -> impl Iterator<Item = InputSize> + use<> {
        let second = self.second_det_size.map(|side| self.input(side));
        second.into_iter().chain([self.main_input()])
    }

    fn input(&self, side: u32) -> InputSize {
        InputSize {
            side,
            enlarges: self.det_size.enlarges(),
        }
    }
}

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
fn is_det_side(side: u32) -> bool {
    is_det_size_step(&side) && (MIN_DET_SIZE..=MAX_DET_SIZE).contains(&side)
}

fn is_det_size_step(side: &u32) -> bool {
    side.is_multiple_of(DET_SIZE_STEP)
}

/// Returns the schema of one side of the detector's input.
fn det_side() -> ObjectBuilder {
    ObjectBuilder::new()
        .schema_type(Type::Integer)
        .minimum(Some(MIN_DET_SIZE))
        .maximum(Some(MAX_DET_SIZE))
        .multiple_of(Some(DET_SIZE_STEP))
        .description(Some("The longer side in pixels."))
}

/// Returns the schema of the size of the detector's input.
fn det_size() -> Schema {
    let fit = ObjectBuilder::new()
        .schema_type(Type::String)
        .enum_values(Some(["fit"]))
        .description(Some("640, or the image's own side if that is shorter."));
    det_side_or(
        fit,
        "The size of the detector's input: its longer side, or `fit`.",
    )
}

/// Returns the schema of a second size of the detector's input.
fn second_det_size() -> Schema {
    let none = ObjectBuilder::new()
        .schema_type(Type::Integer)
        .minimum(Some(0))
        .maximum(Some(0))
        .description(Some("No second size."));
    det_side_or(
        none,
        "A second, smaller side, for faces that fill the image, or 0 for none. One NMS covers both sizes.",
    )
}

fn det_side_or(other: ObjectBuilder, description: &str) -> Schema {
    let choice = OneOfBuilder::new()
        .item(det_side())
        .item(other)
        .item(ObjectBuilder::new().schema_type(Type::Null))
        .description(Some(description));
    Schema::OneOf(choice.build())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_side_that_is_not_smaller_is_not_used() {
        let (config, _) = crate::Config::load(&crate::Sources::default()).unwrap();
        let settings = Detection {
            second_det_size: Some(320),
            ..config.detection
        };
        for (first, second, used) in [
            (640, None, Some(320)),
            (320, None, None),
            (640, Some(0), None),
            (640, Some(640), None),
            (640, Some(608), Some(608)),
        ] {
            let mut request = DetectionRequest {
                det_size: Some(DetSize::Side(first)),
                second_det_size: second,
                ..DetectionRequest::default()
            };
            let options = request.resolve(&settings, &Thresholds::default());
            assert_eq!(options.second_det_size, used, "{first} {second:?}");
            assert_eq!(request.second_det_size, Some(used.unwrap_or(0)));
        }
    }
}
