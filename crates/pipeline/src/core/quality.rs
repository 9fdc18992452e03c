//! The quality of a face, judged by a preset, and of a whole image.

use facescan_imaging::{
    geometry::{BBox, Landmarks},
    quality::{
        self, ImageQuality,
        acceptance::{FaceMeasurements, Preset, Reason, judge},
        pose::{Pose, pose},
    },
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

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
    /// The length of the vector before normalization, if the face was embedded.
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

/// The quality of a whole image, measured at a long side of 640 pixels.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = OverallQuality)]
pub struct PictureQuality {
    /// The four measures.
    #[serde(flatten)]
    pub measures: ImageQuality,
    /// The weighted sum of the measures, 0 to 1.
    pub overall: f32,
    /// Always false: occlusion is not measured, and the other terms share its weight.
    pub occlusion_measured: bool,
}

impl From<ImageQuality> for PictureQuality {
    fn from(measures: ImageQuality) -> Self {
        Self {
            measures,
            overall: quality::overall(&measures, None),
            occlusion_measured: false,
        }
    }
}
