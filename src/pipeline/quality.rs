//! A face's quality: measured on its aligned crop, judged by a preset.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::imaging::{
    geometry::{BBox, Landmarks},
    quality::{
        self, PictureQuality,
        acceptance::{FaceMeasurements, Preset, Reason, judge},
        pose::{Pose, pose},
    },
};

/// How good a face is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct FaceQuality {
    /// The four measures, taken on the aligned crop.
    #[serde(flatten)]
    pub measures: PictureQuality,
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
    pub measures: PictureQuality,
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
