//! The shape of answers, the same over HTTP and on the command line.

use std::{collections::BTreeMap, fmt::Display};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use half::f16;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::{
    config::EmbeddingFormat,
    pipeline::{
        options::ScanOptions,
        quality::FaceQuality,
        scan::{Face, Scan},
    },
};
use facescan_imaging::{format::Format, precision::NumericPrecision, quality::ImageQuality};
use facescan_inference::device::DeviceState;

/// The answer to a request, one result for each image in the order they were sent.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Answer<T> {
    /// The request's id, as in the `x-request-id` header and in the log.
    pub request_id: String,
    /// The operation that was asked for.
    #[schema(example = "embed")]
    pub operation: &'static str,
    /// The models behind the results.
    pub models: ModelsUsed,
    /// The device of each operation that took part.
    #[schema(value_type = BTreeMap<String, DeviceState>)]
    pub devices: BTreeMap<&'static str, DeviceState>,
    /// One entry for each image.
    #[schema(value_type = Vec<T>)]
    pub results: Vec<ImageResult<T>>,
}

/// The models behind an answer.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct ModelsUsed {
    /// Finds the faces.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detector: Option<DetectorUsed>,
    /// Makes the vectors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub embedder: Option<EmbedderUsed>,
    /// Makes the vectors of whole pictures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encoder: Option<EmbedderUsed>,
}

/// A detector, by id and content.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct DetectorUsed {
    /// The registry's id.
    pub id: String,
    /// The model file's sha256.
    pub sha256: String,
}

/// An embedder, by id and contract.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct EmbedderUsed {
    /// The registry's id.
    pub id: String,
    /// Length of its vectors.
    pub dim: usize,
    /// Vectors of two contracts are never comparable.
    pub contract: String,
}

/// What became of one image.
#[derive(Clone, Debug, Serialize)]
pub struct ImageResult<T> {
    /// The image's place in the request.
    pub index: usize,
    /// The id that the caller gave it: the multipart filename or the JSON `id`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The result or the error.
    #[serde(flatten)]
    pub outcome: Outcome<T>,
}

/// A result, or the error that stands in its place.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "status", rename_all = "lowercase")]
pub enum Outcome<T> {
    /// The image was scanned.
    Ok(T),
    /// The image failed; its siblings did not.
    Error {
        /// Why.
        error: ErrorEntry,
    },
}

impl<T> Outcome<T> {
    /// Whether there is a result.
    pub fn is_ok(&self) -> bool {
        matches!(self, Self::Ok(_))
    }
}

/// The error of one image among several.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ErrorEntry {
    /// The stable code.
    #[schema(example = "image_truncated")]
    pub code: &'static str,
    /// What to do about it.
    pub detail: String,
}

impl ErrorEntry {
    /// The error of a file that cannot be read.
    pub fn unreadable(reason: impl Display) -> Self {
        Self {
            code: "file_unreadable",
            detail: format!("the file cannot be read: {reason}"),
        }
    }
}

/// What is known of a picture.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ImageInfo {
    /// Width of the upright picture, in pixels.
    pub width: u32,
    /// Height of the upright picture, in pixels.
    pub height: u32,
    /// The format found from the bytes.
    pub format: Format,
    /// The sha256 of the bytes, in hex.
    pub sha256: String,
    /// The EXIF orientation found, 1 to 8; already applied.
    pub orientation: u8,
}

/// The result of `/detect`, `/embed` and `/quality` for one image.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ScanResult {
    /// The stored image; absent with `store=false`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_id: Option<Uuid>,
    /// Whether the database answered, without inference.
    pub cached: bool,
    /// The picture.
    pub image: ImageInfo,
    /// The whole picture's quality, of `/quality`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub picture_quality: Option<PictureQualityAnswer>,
    /// The faces by area, largest first; empty when there are none.
    pub faces: Vec<FaceAnswer>,
    /// Milliseconds by stage; with `timings=true`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timings_ms: Option<Timings>,
}

/// The quality of a whole picture, measured at a long side of 640.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = OverallQuality)]
pub struct PictureQualityAnswer {
    /// The four measures.
    #[serde(flatten)]
    pub measures: ImageQuality,
    /// Their weighted sum, 0 to 1.
    pub overall: f32,
    /// Occlusion is not measured: its weight is spread over the other terms.
    pub occlusion_measured: bool,
}

/// One face.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Face)]
pub struct FaceAnswer {
    /// The stored face; absent with `store=false`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub face_id: Option<Uuid>,
    /// `[x1, y1, x2, y2]` in pixels of the upright picture, clipped to it.
    #[schema(min_items = 4, max_items = 4)]
    pub bbox: [f32; 4],
    /// The detection score, 0 to 1; absent for aligned crops, which nothing detected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub score: Option<f32>,
    /// Five points: the eye at the image's left, the other eye, nose, mouth corner at the left, the other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub landmarks: Option<[[f32; 2]; 5]>,
    /// How good the face is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quality: Option<FaceQuality>,
    /// The L2-normalised vector.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub embedding: Option<EmbeddingAnswer>,
    /// The vector's length before normalisation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub embedding_norm: Option<f32>,
    /// The precision in which the model computed the vector.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub precision: Option<NumericPrecision>,
    /// The aligned 112×112 crop, PNG in base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub crop: Option<String>,
}

/// A vector in the format asked for.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
#[schema(as = Embedding)]
#[serde(untagged)]
pub enum EmbeddingAnswer {
    /// Numbers.
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

/// Milliseconds by stage; a stage that did not run is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, ToSchema)]
pub struct Timings {
    /// Fetching a URL, and the wait for room to do so.
    pub fetch: f64,
    /// Asking the database for a stored answer.
    pub cache: f64,
    /// Decoding, and the wait for a CPU worker.
    pub decode: f64,
    /// Waiting for the models' sessions.
    pub queue: f64,
    /// Letterbox, detector run and NMS.
    pub detect: f64,
    /// Aligning and measuring the faces.
    pub align: f64,
    /// Embedder runs.
    pub embed: f64,
    /// Enhancing and encoding.
    pub enhance: f64,
    /// The operations of `/process`, and encoding.
    pub process: f64,
    /// Writing to the database.
    pub store: f64,
    /// All of it.
    pub total: f64,
}

impl Timings {
    /// The times of an image that took `milliseconds` to fetch before.
    pub fn after_fetch(self, milliseconds: f64) -> Self {
        // Microseconds are the finest that means anything here.
        let fetch = (milliseconds * 1e3).round() / 1e3;
        Self {
            fetch,
            total: self.total + fetch,
            ..self
        }
    }
}

impl ScanResult {
    /// Writes a scan the way the options ask for.
    pub fn new(scan: Scan, options: &ScanOptions) -> Self {
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
            timings_ms: options.timings.then_some(scan.timings),
        }
    }
}

impl FaceAnswer {
    fn new(face: Face, options: &ScanOptions) -> Self {
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
            quality: face.quality,
            embedding,
            embedding_norm,
            precision,
            crop: face.crop.map(|png| BASE64_STANDARD.encode(png)),
        }
    }
}
