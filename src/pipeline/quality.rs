//! A face's quality: measured on its aligned crop, judged by a preset.

use image::RgbImage;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::pipeline::error::PipelineError;
use facescan_imaging::{
    geometry::{BBox, Landmarks},
    quality::{
        self, ImageQuality,
        acceptance::{FaceMeasurements, Preset, Reason, judge},
        pose::{Pose, pose},
    },
    tensor::{ChannelOrder, Normalisation, fill_row},
};
use facescan_inference::{
    engine::{Engine, Pending},
    health::Fault,
};

/// Measures pictures on an engine.
#[derive(Clone)]
pub struct Grader {
    engine: Engine,
}

/// The measures of a picture, taken or to come.
pub(super) enum Measuring {
    /// Taken on the CPU, where the pixels were.
    Done(ImageQuality),
    /// On their way through an engine.
    Pending {
        /// The row's answer.
        row: Pending,
        /// The size of what is measured.
        measured_at: [u32; 2],
    },
}

impl Grader {
    /// One that runs the quality graph on `engine`.
    pub fn new(engine: Engine) -> Self {
        Self { engine }
    }

    /// Measures a picture that has pixels: on the engine where there is one, or else here. CPU work.
    pub(super) fn measure(grader: Option<&Self>, picture: &RgbImage) -> Measuring {
        let Some(grader) = grader.filter(|_| !picture.is_empty()) else {
            return Measuring::Done(quality::measure(picture));
        };
        let (width, height) = picture.dimensions();
        let mut row = grader.engine.claim(&[3, height as usize, width as usize]);
        fill_row(
            picture,
            &Normalisation::identity(ChannelOrder::Rgb),
            row.values(),
        );
        Measuring::Pending {
            row: row.commit(),
            measured_at: [width, height],
        }
    }
}

impl Measuring {
    /// Waits for the measures; and why they were taken on the CPU, where a device was meant to.
    ///
    /// # Errors
    /// A fault of the engine.
    pub async fn finish(self) -> Result<(ImageQuality, Option<Fault>), PipelineError> {
        let (row, measured_at) = match self {
            Self::Done(measures) => return Ok((measures, None)),
            Self::Pending { row, measured_at } => (row.await?, measured_at),
        };
        let measures = row.outputs.first().map(|measures| measures.row(row.row));
        let Some(&[blur_score, brightness, contrast, sharpness]) = measures else {
            return Err(PipelineError::UnexpectedOutput(
                "the quality graph gave no four measures".to_owned(),
            ));
        };
        let measures = ImageQuality {
            blur_score,
            brightness,
            contrast,
            sharpness,
            measured_at,
        };
        Ok((measures, row.fallback))
    }
}

/// How good a face is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct FaceQuality {
    /// The four measures, taken on the aligned crop.
    #[serde(flatten)]
    pub measures: ImageQuality,
    /// Their weighted sum, 0 to 1.
    pub overall: f32,
    /// Occlusion is not measured: its weight is spread over the other terms.
    pub occlusion_measured: bool,
    /// The shorter side of the box, in pixels of the picture.
    pub face_size: f32,
    /// Degrees, estimated from the five points.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pose_estimate: Option<Pose>,
    /// The thresholds it was judged by.
    pub preset: Preset,
    /// Whether no threshold was missed.
    pub acceptable: bool,
    /// The thresholds that were missed.
    pub reasons: Vec<Reason>,
}

/// What is known of a face before it is judged.
pub struct Subject<'a> {
    /// The box in the picture.
    pub bbox: BBox,
    /// The detection score, unless nothing detected it.
    pub score: Option<f32>,
    /// The five points.
    pub landmarks: Option<&'a Landmarks>,
    /// The measures of the crop.
    pub measures: ImageQuality,
    /// The vector's length, when the face was embedded.
    pub embedding_norm: Option<f32>,
}

impl FaceQuality {
    /// Judges a face by a preset's thresholds.
    pub fn judge(subject: Subject<'_>, preset: Preset) -> Self {
        let overall = quality::overall(&subject.measures, None);
        let face_size = subject.bbox.width().min(subject.bbox.height());
        let pose = subject.landmarks.map(pose);
        let reasons = judge(
            &FaceMeasurements {
                size_px: face_size,
                score: subject.score,
                quality: subject.measures,
                overall,
                pose,
                embedding_norm: subject.embedding_norm,
            },
            &preset.thresholds(),
        );
        Self {
            measures: subject.measures,
            overall,
            occlusion_measured: false,
            face_size,
            pose_estimate: pose,
            preset,
            acceptable: reasons.is_empty(),
            reasons,
        }
    }
}
