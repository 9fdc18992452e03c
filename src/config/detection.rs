//! Defaults of the detection options.

use serde::{Deserialize, Serialize};

use super::rule::{Kind, Rule};

/// Section `detection`: the defaults of the request options of the same names.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Detection {
    /// Side of the letterboxed square that the detector sees, in pixels: a multiple of 32, which is the
    /// coarsest stride of the detector families.
    pub det_size: u32,
    /// A second, smaller side for faces that fill the frame; one NMS runs over both.
    pub second_det_size: Option<u32>,
    /// Faces that score less are dropped, 0–1; `None` is the detector's own threshold.
    pub min_score: Option<f32>,
    /// Intersection over union above which NMS drops the lower score, 0–1; `None` is the detector's own.
    pub nms_iou: Option<f32>,
    /// Most faces per picture, largest first; 0 is all.
    pub max_faces: usize,
    /// Faces whose shorter side is smaller are dropped, in pixels of the picture.
    pub min_face_size: u32,
    /// Whether answers have the five landmarks.
    pub landmarks: bool,
}

pub(super) const RULES: &[Rule] = &[
    Rule::checked(
        "detection.det_size",
        Kind::Yaml,
        "a multiple of 32 from 64 to 4096",
        |c| is_det_size(c.detection.det_size),
    ),
    Rule::checked(
        "detection.second_det_size",
        Kind::Yaml,
        "a multiple of 32 from 64 to 4096 that is smaller than det_size, or null",
        |c| {
            c.detection
                .second_det_size
                .is_none_or(|size| is_det_size(size) && size < c.detection.det_size)
        },
    ),
    Rule::checked(
        "detection.min_score",
        Kind::Yaml,
        "a number from 0 to 1, or null",
        |c| c.detection.min_score.is_none_or(is_share),
    ),
    Rule::checked(
        "detection.nms_iou",
        Kind::Yaml,
        "a number from 0 to 1, or null",
        |c| c.detection.nms_iou.is_none_or(is_share),
    ),
    Rule::checked(
        "detection.max_faces",
        Kind::Yaml,
        "a whole number from 0 to 100000 (0 = all)",
        |c| c.detection.max_faces <= 100_000,
    ),
    Rule::checked(
        "detection.min_face_size",
        Kind::Yaml,
        "a whole number from 0 to 65535",
        |c| c.detection.min_face_size <= 65_535,
    ),
    Rule::typed("detection.landmarks", Kind::Flag, "true or false"),
];

fn is_share(value: f32) -> bool {
    (0.0..=1.0).contains(&value)
}

fn is_det_size(size: u32) -> bool {
    (64..=4096).contains(&size) && size.is_multiple_of(32)
}
