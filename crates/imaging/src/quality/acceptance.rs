//! Acceptance of a face for a purpose, with machine-readable reasons.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::ImageQuality;
use super::pose::Pose;

/// The purpose of a face.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Preset {
    /// Filling a collection from unknown sources. The strictest preset.
    Ingest,
    /// Registering a person who can be asked for another image.
    Enroll,
    /// Comparing a face with a known face.
    Verify,
    /// Searching for a face. The most lenient preset.
    Search,
}

/// The smallest or largest acceptable value of each measure, inclusive.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Thresholds {
    /// Short side of the box in pixels of the image.
    pub min_face_px: f32,
    /// [`ImageQuality::blur_score`] of the aligned crop.
    pub min_blur: f32,
    /// The larger of |yaw| and |pitch|, degrees.
    pub max_angle: f32,
    /// [`super::overall`].
    pub min_overall: f32,
    /// The detector's score.
    pub min_score: f32,
    /// Smallest mean gray of the aligned crop.
    pub min_brightness: f32,
    /// Largest mean gray of the aligned crop.
    pub max_brightness: f32,
    /// Standard deviation of gray of the aligned crop.
    pub min_contrast: f32,
    /// The norm of the embedding before normalization. It depends on the model; these values are for SFace.
    pub min_embedding_norm: f32,
}

impl Preset {
    /// Returns the thresholds of the preset.
    ///
    /// Size, blur, angle and overall are part of the definition. The other thresholds leave a margin to the measures of
    /// 150 aligned faces of LFW (1st to 99th percentile): brightness 59..=161, contrast from 29, SFace norm from 9.8.
    /// The norm is a weak indicator: the same faces blurred with σ = 4 still have a median of 9.2, and good faces in
    /// crowds go down to 7.9.
    pub fn thresholds(self) -> Thresholds {
        match self {
            Self::Ingest => Thresholds {
                min_face_px: 80.0,
                min_blur: 80.0,
                max_angle: 25.0,
                min_overall: 0.60,
                min_score: 0.80,
                min_brightness: 45.0,
                max_brightness: 210.0,
                min_contrast: 22.0,
                min_embedding_norm: 8.5,
            },
            Self::Enroll => Thresholds {
                min_face_px: 64.0,
                min_blur: 30.0,
                max_angle: 30.0,
                min_overall: 0.40,
                min_score: 0.75,
                min_brightness: 40.0,
                max_brightness: 220.0,
                min_contrast: 18.0,
                min_embedding_norm: 7.5,
            },
            Self::Verify => Thresholds {
                min_face_px: 80.0,
                min_blur: 60.0,
                max_angle: 25.0,
                min_overall: 0.55,
                min_score: 0.75,
                min_brightness: 40.0,
                max_brightness: 220.0,
                min_contrast: 18.0,
                min_embedding_norm: 7.5,
            },
            Self::Search => Thresholds {
                min_face_px: 32.0,
                min_blur: 30.0,
                max_angle: 45.0,
                min_overall: 0.30,
                min_score: 0.60,
                min_brightness: 25.0,
                max_brightness: 235.0,
                min_contrast: 10.0,
                min_embedding_norm: 6.5,
            },
        }
    }
}

/// The measures of a face.
#[derive(Clone, Copy, Debug)]
pub struct FaceMeasurements {
    /// Short side of the box in pixels of the image.
    pub size_px: f32,
    /// The detector's score; `None` for a crop that was aligned by the client.
    pub score: Option<f32>,
    /// The quality of the aligned crop.
    pub quality: ImageQuality,
    /// [`super::overall`] of the aligned crop.
    pub overall: f32,
    /// The pose; `None` without landmarks.
    pub pose: Option<Pose>,
    /// The norm of the embedding; `None` if no embedding was requested.
    pub embedding_norm: Option<f32>,
}

/// A reason why a face is not acceptable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// Below `min_face_px`.
    FaceTooSmall,
    /// Below `min_score`.
    LowScore,
    /// Below `min_blur`.
    TooBlurry,
    /// Below `min_brightness`.
    TooDark,
    /// Above `max_brightness`.
    TooBright,
    /// Below `min_contrast`.
    LowContrast,
    /// Above `max_angle`.
    ExtremePose,
    /// Below `min_embedding_norm`.
    LowEmbeddingNorm,
    /// Below `min_overall`.
    LowOverall,
}

/// Returns all reasons why the face is not acceptable. If there are none, it is acceptable. Measures that are missing
/// are not checked. NaN fails.
pub fn judge(face: &FaceMeasurements, thresholds: &Thresholds) -> Vec<Reason> {
    let t = thresholds;
    let (quality, score) = (&face.quality, face.score);
    let (pose, norm) = (face.pose, face.embedding_norm);
    let checks = [
        (Reason::FaceTooSmall, face.size_px >= t.min_face_px),
        (Reason::LowScore, score.is_none_or(|s| s >= t.min_score)),
        (Reason::TooBlurry, quality.blur_score >= t.min_blur),
        (Reason::TooDark, quality.brightness >= t.min_brightness),
        (Reason::TooBright, quality.brightness <= t.max_brightness),
        (Reason::LowContrast, quality.contrast >= t.min_contrast),
        (
            Reason::ExtremePose,
            pose.is_none_or(|pose| pose.extreme() <= t.max_angle),
        ),
        (
            Reason::LowEmbeddingNorm,
            norm.is_none_or(|norm| norm >= t.min_embedding_norm),
        ),
        (Reason::LowOverall, face.overall >= t.min_overall),
    ];
    checks
        .into_iter()
        .filter_map(|(reason, holds)| (!holds).then_some(reason))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{
        Preset::{Enroll, Ingest, Search, Verify},
        *,
    };

    fn good() -> FaceMeasurements {
        FaceMeasurements {
            size_px: 120.0,
            score: Some(0.93),
            quality: ImageQuality {
                blur_score: 300.0,
                brightness: 120.0,
                contrast: 50.0,
                sharpness: 60.0,
                measured_size: [112, 112],
            },
            overall: 0.7,
            pose: Some(Pose {
                yaw: 5.0,
                pitch: -5.0,
                roll: 80.0,
            }),
            embedding_norm: Some(11.0),
        }
    }

    #[test]
    fn a_good_face_passes_every_preset() {
        for preset in [Ingest, Enroll, Verify, Search] {
            assert_eq!(judge(&good(), &preset.thresholds()), [], "{preset:?}");
        }
    }

    #[test]
    fn each_measure_has_a_reason() {
        let ingest = Ingest.thresholds();
        type Spoil = fn(&mut FaceMeasurements);
        let cases: [(Spoil, &str); 11] = [
            (|f| f.size_px = 79.9, "face_too_small"),
            (|f| f.score = Some(0.6), "low_score"),
            (|f| f.quality.blur_score = 79.0, "too_blurry"),
            (|f| f.quality.brightness = 30.0, "too_dark"),
            (|f| f.quality.brightness = 240.0, "too_bright"),
            (|f| f.quality.contrast = 5.0, "low_contrast"),
            (|f| f.pose.as_mut().unwrap().yaw = -26.0, "extreme_pose"),
            (|f| f.pose.as_mut().unwrap().pitch = 26.0, "extreme_pose"),
            (|f| f.embedding_norm = Some(3.0), "low_embedding_norm"),
            (|f| f.overall = 0.59, "low_overall"),
            (|f| f.overall = f32::NAN, "low_overall"),
        ];
        for (spoil, reason) in cases {
            let mut face = good();
            spoil(&mut face);
            let reasons = serde_json::to_value(judge(&face, &ingest)).unwrap();
            assert_eq!(reasons, serde_json::json!([reason]));
        }
    }

    #[test]
    fn missing_measures_are_not_checked() {
        let mut face = good();
        (face.score, face.pose, face.embedding_norm) = (None, None, None);
        assert_eq!(judge(&face, &Ingest.thresholds()), []);
    }

    #[test]
    fn presets_have_the_defined_values() {
        let defined = |preset: Preset| {
            let t = preset.thresholds();
            (t.min_face_px, t.min_blur, t.max_angle, t.min_overall)
        };
        assert_eq!(defined(Ingest), (80.0, 80.0, 25.0, 0.60));
        assert_eq!(defined(Enroll), (64.0, 30.0, 30.0, 0.40));
        assert_eq!(defined(Verify), (80.0, 60.0, 25.0, 0.55));
        assert_eq!(defined(Search), (32.0, 30.0, 45.0, 0.30));
    }
}
