//! The result of a scan: the faces of an image with their vectors and their quality.

use facescan_imaging::{
    geometry::{BBox, Landmarks},
    precision::NumericPrecision,
    quality::{
        self, ImageQuality,
        acceptance::{FaceMeasurements, Preset, Reason, judge},
        pose::{Pose, pose},
    },
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::core::image_file::ImageInfo;

/// The result of a scan of one image, before it is converted to a response. The database stores it.
#[derive(Clone, Debug)]
pub struct Scan {
    /// The id of the stored image.
    pub image_id: Option<Uuid>,
    /// Whether the result comes from the database.
    pub cached: bool,
    /// The properties of the image.
    pub image: ImageInfo,
    /// A hash for finding near-duplicates. `None` for flat images.
    pub perceptual_hash: Option<u64>,
    /// The quality of the whole image.
    pub picture_quality: Option<PictureQuality>,
    /// The faces, largest first.
    pub faces: Vec<Face>,
    /// The vector of the whole image. `None` if it was not computed, or if the model's output has no direction.
    pub embedding: Option<Embedding>,
}

/// A face with all requested results.
#[derive(Clone, Debug)]
pub struct Face {
    /// The id of the stored face.
    pub id: Option<Uuid>,
    /// The box in the image.
    pub bbox: BBox,
    /// The detection score. `None` if the image is an aligned crop.
    pub score: Option<f32>,
    /// The five landmarks.
    pub landmarks: Option<Landmarks>,
    /// The vector.
    pub embedding: Option<Embedding>,
    /// The results without a vector.
    pub results: FaceResults,
    /// The aligned crop, as a PNG.
    pub crop: Option<Vec<u8>>,
}

/// The results of the operations on a face that compute no vector. Answers and the database have this form.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct FaceResults {
    /// The quality of the face.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quality: Option<FaceQuality>,
}

impl Face {
    /// Creates a face without results, of which only the box is known.
    pub fn at(bbox: BBox) -> Self {
        Self {
            id: None,
            bbox,
            score: None,
            landmarks: None,
            embedding: None,
            results: FaceResults::default(),
            crop: None,
        }
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

impl FaceQuality {
    /// Judges a face by the thresholds of a preset. `measures` are those of its crop. `embedding_norm` is `None` if the thresholds
    /// do not apply to the embedder.
    pub(crate) fn judge(
        face: &Face,
        measures: ImageQuality,
        embedding_norm: Option<f32>,
        preset: Preset,
    ) -> Self {
        let overall = quality::overall(&measures, None);
        let face_size = face.bbox.width().min(face.bbox.height());
        let pose = face.landmarks.as_ref().map(pose);
        let reasons = judge(
            &FaceMeasurements {
                size_px: face_size,
                score: face.score,
                quality: measures,
                overall,
                pose,
                embedding_norm,
            },
            &preset.thresholds(),
        );
        Self {
            measures,
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

/// The vector of a face or of a whole image.
#[derive(Clone, Debug, PartialEq)]
pub struct Embedding {
    /// The vector, of length 1.
    pub vector: Vec<f32>,
    /// The length before normalization. It is small for faces that the model could hardly use.
    pub norm: f32,
    /// The precision that the model used. `None` if a remote server ran the model, because it does not report its
    /// precision.
    pub precision: Option<NumericPrecision>,
}

impl Embedding {
    /// Normalizes the values of a model to length 1. Returns `None` if they have no direction.
    pub(crate) fn from_raw(raw: &[f32], precision: Option<NumericPrecision>) -> Option<Self> {
        let norm = raw.iter().map(|value| value * value).sum::<f32>().sqrt();
        (norm.is_finite() && norm > 0.0).then(|| Self {
            vector: raw.iter().map(|value| value / norm).collect(),
            norm,
            precision,
        })
    }
}

/// Returns the cosine of two vectors of length 1.
pub fn cosine(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_have_length_one_and_keep_their_norm() {
        let embedding = Embedding::from_raw(&[3.0, 4.0], Some(NumericPrecision::Bf16)).unwrap();
        assert_eq!(embedding.norm, 5.0);
        assert_eq!(embedding.vector, [0.6, 0.8]);
        assert_eq!(embedding.precision, Some(NumericPrecision::Bf16));
    }

    #[test]
    fn a_vector_without_direction_is_none() {
        assert_eq!(Embedding::from_raw(&[0.0, 0.0], None), None);
        assert_eq!(Embedding::from_raw(&[f32::NAN, 1.0], None), None);
        assert_eq!(Embedding::from_raw(&[], None), None);
    }
}
