//! The format of responses. HTTP and the command line use the same.

pub mod response;
pub mod schemas;

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
        scan::{Embedding, Face, FaceResults, PictureQuality, Scan},
    },
    operations::{embed_image::ImageEmbeddingPlan, scan::request::ScanPlan},
};
use facescan_imaging::precision::NumericPrecision;

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
    pub faces: Vec<FaceResponse>,
}

/// One face.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Face)]
pub struct FaceResponse {
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
    pub embedding: Option<EmbeddingResponse>,
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
pub enum EmbeddingResponse {
    /// A list of numbers.
    Float(Vec<f32>),
    /// Little-endian numbers in base64.
    Base64(String),
}

impl EmbeddingResponse {
    /// Writes a vector in `format`.
    pub fn new(vector: &[f32], format: EmbeddingFormat) -> Self {
        match format {
            EmbeddingFormat::Float => Self::Float(vector.to_vec()),
            EmbeddingFormat::Base64F32 => {
                let bytes = vector.iter().flat_map(|value| value.to_le_bytes());
                Self::Base64(BASE64_STANDARD.encode(bytes.collect::<Vec<u8>>()))
            }
            EmbeddingFormat::Base64F16 => {
                let halves = vector.iter().map(|&value| f16::from_f32(value));
                let bytes = halves.flat_map(f16::to_le_bytes);
                Self::Base64(BASE64_STANDARD.encode(bytes.collect::<Vec<u8>>()))
            }
        }
    }
}

impl ScanResult {
    /// Converts a scan by the options.
    pub fn new(scan: Scan, options: &ScanPlan) -> Self {
        let faces = scan.faces.into_iter();
        let faces = faces.map(|face| FaceResponse::new(face, options));
        Self {
            image_id: scan.image_id,
            cached: scan.cached,
            image: scan.image,
            picture_quality: scan.picture_quality,
            faces: faces.collect(),
        }
    }
}

impl FaceResponse {
    fn new(face: Face, options: &ScanPlan) -> Self {
        let found = face.embedding.as_ref();
        let written =
            |found: &Embedding| EmbeddingResponse::new(&found.vector, options.embedding_format);
        Self {
            face_id: face.id,
            bbox: face.bbox.to_array(),
            score: face.score,
            landmarks: face.landmarks.filter(|_| options.landmarks),
            results: face.results,
            embedding: found.map(written),
            embedding_norm: found.map(|found| found.norm),
            precision: found.and_then(|found| found.precision),
            crop: face.crop.map(|png| BASE64_STANDARD.encode(png)),
        }
    }
}

/// The result of `/embed?kind=image` for one image.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = EncodeResult)]
pub struct ImageEmbeddingResult {
    /// The id of the stored image. Absent with `store=false`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_id: Option<Uuid>,
    /// Whether the result comes from the database, without inference.
    pub cached: bool,
    /// The properties of the image.
    pub image: ImageInfo,
    /// The L2-normalized vector. Absent if the model's output has no direction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub embedding: Option<EmbeddingResponse>,
    /// The length of the vector before normalization.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub embedding_norm: Option<f32>,
    /// The precision that the model used for the vector. Absent if a remote server ran the model, because it does not
    /// report its precision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub precision: Option<NumericPrecision>,
}

impl ImageEmbeddingResult {
    /// Converts a vector by the options of `plan`.
    pub fn new(embedded: Scan, plan: &ImageEmbeddingPlan) -> Self {
        let found = embedded.embedding.as_ref();
        let written =
            |found: &Embedding| EmbeddingResponse::new(&found.vector, plan.embedding_format);
        Self {
            image_id: embedded.image_id,
            cached: embedded.cached,
            image: embedded.image,
            embedding: found.map(written),
            embedding_norm: found.map(|found| found.norm),
            precision: found.and_then(|found| found.precision),
        }
    }
}
