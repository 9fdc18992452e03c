//! The format of responses. HTTP and the command line use the same.

pub mod embed_image;

use std::fmt::Display;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use facescan_config::EmbeddingFormat;
use half::f16;
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::{
    core::{
        image_file::ImageInfo,
        quality::PictureQuality,
        run::{DevicesUsed, RunOutput, Timings},
        scan::{Face, FaceResults, Scan},
    },
    models::used::ModelsUsed,
    operations::scan::plan::ScanPlan,
};
use facescan_imaging::precision::NumericPrecision;
use facescan_inference::device::DeviceState;

/// The answer to a request. It has one result for each image, in the order of the request.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Answer<T> {
    /// The id of the request, as in the `x-request-id` header and in the log.
    pub request_id: String,
    /// The name of the operation.
    #[schema(example = "embed")]
    pub operation: &'static str,
    /// The models that made the results.
    pub models: ModelsUsed,
    /// The device of each operation. A result that another device made has its own `devices`.
    #[schema(value_type = BTreeMap<String, DeviceState>)]
    pub devices: DevicesUsed,
    /// One entry for each image.
    #[schema(value_type = Vec<T>)]
    pub results: Vec<ImageResult<T>>,
}

/// The result or the error of one image.
#[derive(Clone, Debug, Serialize)]
pub struct ImageResult<T> {
    /// The index of the image in the request.
    pub index: usize,
    /// The caller's id: the multipart filename or the JSON `id`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The result or the error.
    #[serde(flatten)]
    pub outcome: Outcome<T>,
    /// The devices of this result, if they differ from the answer's `devices`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub devices: Option<DevicesUsed>,
    /// Milliseconds by stage. Present with `timings=true`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timings_ms: Option<Timings>,
}

impl<T> ImageResult<T> {
    /// Creates the entry of one image. It has its own devices.
    pub fn new(
        index: usize,
        id: Option<String>,
        output: Result<RunOutput<T>, ErrorEntry>,
        reports_timings: bool,
    ) -> Self {
        let (outcome, run) = match output {
            Ok(RunOutput { result, run }) => (Outcome::Ok(result), Some(run)),
            Err(error) => (Outcome::Error { error }, None),
        };
        let timings = run.as_ref().map(|run| run.timings);
        Self {
            index,
            id,
            outcome,
            devices: run.map(|run| run.devices),
            timings_ms: timings.filter(|_| reports_timings),
        }
    }

    /// Converts the result with `convert`.
    pub fn map<U>(self, convert: impl FnOnce(T) -> U) -> ImageResult<U> {
        ImageResult {
            index: self.index,
            id: self.id,
            outcome: match self.outcome {
                Outcome::Ok(result) => Outcome::Ok(convert(result)),
                Outcome::Error { error } => Outcome::Error { error },
            },
            devices: self.devices,
            timings_ms: self.timings_ms,
        }
    }

    /// Removes the devices unless an operation fell back.
    #[must_use]
    pub fn with_fallbacks_only(self) -> Self {
        let has_fallback = |used: &DevicesUsed| used.values().any(DeviceState::fell_back);
        Self {
            devices: self.devices.filter(has_fallback),
            ..self
        }
    }
}

/// Returns the devices that most results have, and removes them from those results. The answer then names them once.
pub fn take_common_devices<T>(results: &mut [ImageResult<T>]) -> DevicesUsed {
    let mut counted: Vec<(DevicesUsed, usize)> = Vec::new();
    for used in results.iter().filter_map(|result| result.devices.as_ref()) {
        match counted.iter_mut().find(|(known, _)| known == used) {
            Some((_, count)) => *count += 1,
            None => counted.push((used.clone(), 1)),
        }
    }
    // If several are equally common, this returns the first.
    let most_common = counted.into_iter().rev().max_by_key(|(_, count)| *count);
    let common = most_common.map(|(used, _)| used).unwrap_or_default();
    for result in results {
        result.devices = result.devices.take().filter(|used| *used != common);
    }
    common
}

/// The result or the error of one image.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "status", rename_all = "lowercase")]
pub enum Outcome<T> {
    /// The image was processed.
    Ok(T),
    /// The image failed. The other images of the request are not affected.
    Error {
        /// The reason.
        error: ErrorEntry,
    },
}

impl<T> Outcome<T> {
    /// Returns whether there is a result.
    pub fn is_ok(&self) -> bool {
        matches!(self, Self::Ok(_))
    }
}

/// The error of one image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct ErrorEntry {
    /// The stable code.
    #[schema(example = "image_truncated")]
    pub code: &'static str,
    /// What is wrong and what to do.
    pub detail: String,
}

impl ErrorEntry {
    /// Returns the error of a file that cannot be read.
    pub fn unreadable(reason: impl Display) -> Self {
        Self {
            code: "file_unreadable",
            detail: format!("the file cannot be read: {reason}"),
        }
    }
}

/// The result of a scan for one image.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ScanResult {
    /// The id of the stored image. Absent with `store=false`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_id: Option<Uuid>,
    /// Whether the result comes from the database, without inference.
    pub cached: bool,
    /// The properties of the image.
    pub image: ImageInfo,
    /// The quality of the whole image. Only `/quality` has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub picture_quality: Option<PictureQuality>,
    /// The faces by area, largest first. Empty if there are none.
    pub faces: Vec<FaceAnswer>,
}

/// One face.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Face)]
pub struct FaceAnswer {
    /// The id of the stored face. Absent with `store=false`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub face_id: Option<Uuid>,
    /// `[x1, y1, x2, y2]` in pixels of the upright image, clipped to it.
    #[schema(min_items = 4, max_items = 4)]
    pub bbox: [f32; 4],
    /// The detection score, 0 to 1. Absent for aligned crops, which need no detection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub score: Option<f32>,
    /// Five points: the eye at the image's left, the other eye, the nose, the mouth corner at the left, the other
    /// corner.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub landmarks: Option<[[f32; 2]; 5]>,
    /// The results without a vector.
    #[serde(flatten)]
    pub results: FaceResults,
    /// The L2-normalized vector.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub embedding: Option<EmbeddingAnswer>,
    /// The length of the vector before normalization.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub embedding_norm: Option<f32>,
    /// The precision that the model used for the vector.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub precision: Option<NumericPrecision>,
    /// The aligned 112×112 crop, as a PNG in base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub crop: Option<String>,
}

/// A vector in the requested format.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
#[schema(as = Embedding)]
#[serde(untagged)]
pub enum EmbeddingAnswer {
    /// A list of numbers.
    Float(Vec<f32>),
    /// Little-endian numbers in base64.
    Base64(String),
}

impl EmbeddingAnswer {
    /// Writes a vector in `format`.
    pub fn new(vector: &[f32], format: EmbeddingFormat) -> Self {
        match format {
            EmbeddingFormat::Float => Self::Float(vector.to_vec()),
            EmbeddingFormat::Base64F32 => {
                let bytes: Vec<u8> = vector
                    .iter()
                    .flat_map(|value| value.to_le_bytes())
                    .collect();
                Self::Base64(BASE64_STANDARD.encode(bytes))
            }
            EmbeddingFormat::Base64F16 => {
                let bytes: Vec<u8> = vector
                    .iter()
                    .flat_map(|&value| f16::from_f32(value).to_le_bytes())
                    .collect();
                Self::Base64(BASE64_STANDARD.encode(bytes))
            }
        }
    }
}

impl ScanResult {
    /// Converts a scan by the options.
    pub fn new(scan: Scan, options: &ScanPlan) -> Self {
        Self {
            image_id: scan.image_id,
            cached: scan.cached,
            image: scan.image,
            picture_quality: scan.picture_quality,
            faces: scan
                .faces
                .into_iter()
                .map(|face| FaceAnswer::new(face, options))
                .collect(),
        }
    }
}

impl FaceAnswer {
    fn new(face: Face, options: &ScanPlan) -> Self {
        let (embedding, embedding_norm, precision) = match face.embedding {
            Some(found) => (
                Some(EmbeddingAnswer::new(
                    &found.vector,
                    options.embedding_format,
                )),
                Some(found.norm),
                found.precision,
            ),
            None => (None, None, None),
        };
        Self {
            face_id: face.id,
            bbox: face.bbox.to_array(),
            score: face.score,
            landmarks: face.landmarks.filter(|_| options.landmarks),
            results: face.results,
            embedding,
            embedding_norm,
            precision,
            crop: face.crop.map(|png| BASE64_STANDARD.encode(png)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::run::ImageRun;

    fn result(index: usize, active: &str) -> ImageResult<()> {
        let state = DeviceState {
            requested: "cuda:0".to_owned(),
            active: active.to_owned(),
            reason: (active == "cpu").then(|| "a run on cuda:0 failed (hung)".to_owned()),
        };
        let mut run = ImageRun::default();
        run.devices.insert("face_detection".into(), state);
        ImageResult::new(index, None, Ok(RunOutput { result: (), run }), false)
    }

    #[test]
    fn an_answer_names_common_devices_once_and_results_name_others() {
        let mut results = [result(0, "cpu"), result(1, "cuda:0"), result(2, "cuda:0")];
        let common = take_common_devices(&mut results);
        assert_eq!(common["face_detection"].active, "cuda:0");
        let own = results.map(|result| {
            result
                .devices
                .map(|used| used["face_detection"].fell_back())
        });
        assert_eq!(own, [Some(true), None, None]);
    }

    #[test]
    fn an_answer_without_results_names_no_device() {
        let error = ErrorEntry::unreadable("gone");
        let mut results = [ImageResult::<()>::new(0, None, Err(error), true)];
        assert!(take_common_devices(&mut results).is_empty());
        assert_eq!(results[0].timings_ms, None);
    }
}
