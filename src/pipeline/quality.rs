//! Face quality: measured on the aligned crop and judged by a preset.

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
    device::DeviceRun,
    engine::{Engine, Pending},
};

/// Measures the quality of images on an engine.
#[derive(Clone)]
pub struct Grader {
    engine: Engine,
}

/// The quality of an image, or the row that will measure it.
pub(super) enum PendingQuality {
    /// Measured on the CPU.
    Done(ImageQuality),
    /// An engine will measure it.
    Pending {
        /// The future output of the row.
        row: Pending,
        /// The size of the measured image.
        measured_at: [u32; 2],
    },
}

impl Grader {
    /// Creates a grader that runs the quality graph on `engine`.
    pub fn new(engine: Engine) -> Self {
        Self { engine }
    }

    /// Measures an image on the engine of `grader`. Measures it on this thread if there is no grader or the image is
    /// empty. This is CPU work.
    pub(super) fn measure(grader: Option<&Self>, image: &RgbImage) -> PendingQuality {
        let Some(grader) = grader.filter(|_| !image.is_empty()) else {
            return PendingQuality::Done(quality::measure(image));
        };
        let (width, height) = image.dimensions();
        let mut row = grader.engine.claim(&[3, height as usize, width as usize]);
        fill_row(
            image,
            &Normalisation::identity(ChannelOrder::Rgb),
            row.values(),
        );
        PendingQuality::Pending {
            row: row.commit(),
            measured_at: [width, height],
        }
    }
}

impl PendingQuality {
    /// Waits for the measures. Returns them with the device that took them.
    ///
    /// # Errors
    /// The error of the engine.
    pub async fn finish(self) -> Result<(ImageQuality, DeviceRun), PipelineError> {
        let (row, measured_at) = match self {
            Self::Done(measures) => return Ok((measures, DeviceRun::CPU)),
            Self::Pending { row, measured_at } => (row.await?, measured_at),
        };
        let measures = row.outputs.first().map(|measures| measures.row(row.row));
        let Some(&[blur_score, brightness, contrast, sharpness]) = measures else {
            return Err(PipelineError::UnexpectedOutput(
                "the quality graph did not return four measures".to_owned(),
            ));
        };
        let measures = ImageQuality {
            blur_score,
            brightness,
            contrast,
            sharpness,
            measured_at,
        };
        Ok((measures, row.device_run()))
    }
}

/// The quality of a face.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct FaceQuality {
    /// The four measures of the aligned crop.
    #[serde(flatten)]
    pub measures: ImageQuality,
    /// The weighted sum of the measures, 0 to 1.
    pub overall: f32,
    /// Always false: occlusion is not measured, and the other terms share its weight.
    pub occlusion_measured: bool,
    /// The shorter side of the box, in pixels of the image.
    pub face_size: f32,
    /// The angles in degrees, estimated from the five landmarks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pose_estimate: Option<Pose>,
    /// The preset whose thresholds the face is judged by.
    pub preset: Preset,
    /// Whether the face passes all thresholds.
    pub acceptable: bool,
    /// The thresholds that the face does not pass.
    pub reasons: Vec<Reason>,
}

/// The properties of a face that decide its quality.
pub struct Subject<'a> {
    /// The box in the image.
    pub bbox: BBox,
    /// The detection score. `None` if no detector ran.
    pub score: Option<f32>,
    /// The five landmarks.
    pub landmarks: Option<&'a Landmarks>,
    /// The measures of the crop.
    pub measures: ImageQuality,
    /// The length of the vector before normalisation, if the face was embedded.
    pub embedding_norm: Option<f32>,
}

impl FaceQuality {
    /// Judges a face by the thresholds of a preset.
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
