//! `GET /images`, and `GET` and `DELETE /images/{id}`.

use facescan_audit::AuditEvent;
use facescan_pipeline::{
    admission::priority_semaphore::DecodePermit,
    core::{image_file::hex, options::source_text, scan::FaceResults},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use time::OffsetDateTime;
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use super::{erasures::erase_named, page::Cursor};
use crate::http::{
    error::ApiError,
    extract::{
        api_request::ApiRequest,
        page_size,
        stored_request::{StoredRequest, not_found},
    },
    openapi::failures::{EraseFailures, ServiceFailures, StoredFailures},
    respond::{
        negotiated::{Negotiated, NoContent},
        page::{Listed, Page},
    },
};
use facescan_imaging::{geometry::Landmarks, precision::NumericPrecision};
use facescan_store::{
    ErasureTarget, ImageFilter, ImageSummary, ScanPage, StoredFace, StoredImage, StoredScan,
};

/// The maximum number of scans that an image is returned with.
const MAX_SCANS: u32 = 100;
/// The scans that an image is returned with have at most about so many bytes, but at least one scan.
const MAX_SCAN_BYTES: u64 = 16 << 20;

/// The images to list.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ListQuery {
    /// Only images that have this source.
    #[param(max_length = 512, pattern = "^[^\\x00]*$")]
    source: Option<String>,
    /// The `next` of the previous page.
    after: Option<Uuid>,
    /// The number of images on the page, 1 to 500.
    #[param(minimum = 1, maximum = 500, default = 50)]
    limit: Option<u32>,
}

/// The scans to return with an image.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ScansQuery {
    /// The `next` of the previous response.
    after: Option<Uuid>,
    /// The number of scans, 1 to 100. A response with many vectors can have fewer.
    #[param(minimum = 1, maximum = 100, default = 100)]
    limit: Option<u32>,
}

impl Listed for ImageSummaryResponse {
    const DESCRIPTION: &'static str = "A page of images, newest first.";

    fn page_name() -> String {
        "ImagePage".to_owned()
    }
}

/// A stored image.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = StoredImageSummary)]
pub struct ImageSummaryResponse {
    /// The id. A result of `/detect` or another scan names it as `image_id`.
    id: Uuid,
    /// The sha256 of the bytes, in hex.
    sha256: String,
    /// The number of bytes.
    byte_size: u64,
    /// Width of the upright image, in pixels.
    width: u32,
    /// Height of the upright image, in pixels.
    height: u32,
    /// The format, detected from the bytes.
    format: String,
    /// The EXIF orientation, 1 to 8.
    orientation: u8,
    /// A hash for finding near-duplicates, 16 hex digits. Absent for flat images.
    #[serde(skip_serializing_if = "Option::is_none")]
    perceptual_hash: Option<String>,
    /// The time when the bytes were stored first.
    #[serde(with = "facescan_clock::rfc3339")]
    created_at: OffsetDateTime,
}

/// A stored image with its results.
#[derive(Serialize, ToSchema)]
#[schema(as = StoredImage)]
pub struct ImageResponse {
    #[serde(flatten)]
    summary: ImageSummaryResponse,
    /// The newest 1000 sources of the image, oldest first.
    sources: Vec<SourceResponse>,
    /// Scans of the image, oldest first.
    scans: Vec<StoredScanResponse>,
    /// The value of `after` for the next scans. Absent if there are no more.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<Uuid>,
    /// Ends when the response is written, even if its caller does not wait for it.
    #[serde(skip)]
    _turn: DecodePermit,
}

/// A source of an image.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ImageSighting)]
pub struct SourceResponse {
    /// The caller's name for the source.
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<String>,
    /// The address where the image was found.
    #[serde(skip_serializing_if = "Option::is_none")]
    source_url: Option<String>,
    /// The time when the image was last sent with this source.
    #[serde(with = "facescan_clock::rfc3339")]
    seen_at: OffsetDateTime,
}

/// A stored scan of an image.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = StoredScan)]
pub struct StoredScanResponse {
    /// The id.
    id: Uuid,
    /// The operation, such as `detect`. `embed_image` is `/embed` with `kind=image`.
    operation: String,
    /// The id of the detector. Absent for aligned crops.
    #[serde(skip_serializing_if = "Option::is_none")]
    detector: Option<String>,
    /// The id of the embedder.
    #[serde(skip_serializing_if = "Option::is_none")]
    embedder: Option<String>,
    /// The quality of the whole image.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Object)]
    picture_quality: Option<Value>,
    /// The device of each operation. Absent for scans of an older version.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Object)]
    devices: Option<Value>,
    /// The time of the scan.
    #[serde(with = "facescan_clock::rfc3339")]
    created_at: OffsetDateTime,
    /// The faces, largest first.
    faces: Vec<StoredFaceResponse>,
    /// The L2-normalized vector of the whole image.
    #[serde(skip_serializing_if = "Option::is_none")]
    embedding: Option<Vec<f32>>,
    /// The length of that vector before normalization.
    #[serde(skip_serializing_if = "Option::is_none")]
    embedding_norm: Option<f32>,
    /// The vector space of that vector. Only vectors with the same vector space can be compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    vector_space: Option<String>,
    /// The precision that the model used for that vector. Absent if a remote server ran the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    precision: Option<NumericPrecision>,
}

/// A stored face.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = StoredFace)]
pub struct StoredFaceResponse {
    /// The id. A result of a scan names it as `face_id`.
    id: Uuid,
    /// The image that shows it.
    image_id: Uuid,
    /// The scan that found it.
    scan_id: Uuid,
    /// `[x1, y1, x2, y2]` in pixels of the upright image.
    bbox: [f32; 4],
    /// The detection score. Absent for aligned crops.
    #[serde(skip_serializing_if = "Option::is_none")]
    score: Option<f32>,
    /// The five landmarks.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<[f32; 2]>>)]
    landmarks: Option<Landmarks>,
    /// The results without a vector.
    #[serde(flatten)]
    #[schema(value_type = FaceResults)]
    results: Option<Value>,
    /// The L2-normalized vector.
    #[serde(skip_serializing_if = "Option::is_none")]
    embedding: Option<Vec<f32>>,
    /// The length of the vector before normalization.
    #[serde(skip_serializing_if = "Option::is_none")]
    embedding_norm: Option<f32>,
    /// The vector space of the vector. Only vectors with the same vector space can be compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    vector_space: Option<String>,
    /// The precision that the model used for the vector.
    #[serde(skip_serializing_if = "Option::is_none")]
    precision: Option<NumericPrecision>,
}

impl From<ImageSummary> for ImageSummaryResponse {
    fn from(image: ImageSummary) -> Self {
        Self {
            id: image.id,
            sha256: hex(&image.sha256),
            byte_size: image.byte_size,
            width: image.width,
            height: image.height,
            format: image.format,
            orientation: image.orientation,
            perceptual_hash: image.perceptual_hash.map(|hash| format!("{hash:016x}")),
            created_at: image.created_at,
        }
    }
}

impl ImageResponse {
    fn new(image: StoredImage, turn: DecodePermit) -> Self {
        let sources = image.sources.into_iter().map(|source| SourceResponse {
            source: source.id,
            source_url: source.url,
            seen_at: source.seen_at,
        });
        Self {
            summary: image.summary.into(),
            sources: sources.collect(),
            scans: image
                .scans
                .into_iter()
                .map(StoredScanResponse::from)
                .collect(),
            next: image.next,
            _turn: turn,
        }
    }
}

impl From<StoredScan> for StoredScanResponse {
    fn from(scan: StoredScan) -> Self {
        let record = scan.record;
        let embedding = record.image_embedding;
        Self {
            id: scan.id,
            operation: record.operation,
            detector: record.detector.map(|model| model.id),
            embedder: record.embedder.map(|model| model.id),
            picture_quality: record.picture_quality,
            devices: record.devices,
            created_at: record.created_at,
            faces: scan
                .faces
                .into_iter()
                .map(StoredFaceResponse::from)
                .collect(),
            embedding_norm: embedding.as_ref().map(|stored| stored.norm),
            precision: embedding.as_ref().and_then(|stored| stored.precision),
            vector_space: embedding.as_ref().map(|stored| stored.vector_space.clone()),
            embedding: embedding.map(|stored| stored.vector),
        }
    }
}

impl From<StoredFace> for StoredFaceResponse {
    fn from(face: StoredFace) -> Self {
        let embedding = face.embedding;
        Self {
            id: face.id,
            image_id: face.image_id,
            scan_id: face.scan_id,
            bbox: face.bbox.to_array(),
            score: face.score,
            landmarks: face.landmarks,
            results: face.results,
            embedding_norm: embedding.as_ref().map(|stored| stored.norm),
            precision: embedding.as_ref().map(|stored| stored.precision),
            vector_space: embedding.as_ref().map(|stored| stored.vector_space.clone()),
            embedding: embedding.map(|stored| stored.vector),
        }
    }
}

/// Lists stored images, newest first.
#[utoipa::path(
    get, path = "/images", operation_id = "list_images", tag = "store", params(ListQuery),
    security(("key" = ["read"])),
    responses(ServiceFailures)
)]
pub async fn list(request: ApiRequest) -> Result<Negotiated<Page<ImageSummaryResponse>>, ApiError> {
    let query: ListQuery = request.query()?;
    let cursor = Cursor::new(query.after, query.limit)?;
    let filter = ImageFilter {
        source: source_text(query.source)?,
    };
    let event = AuditEvent {
        target: None,
        ..AuditEvent::read("list_images", "")
    };
    request.record(event).await?;
    let store = &request.state.store;
    let listed = store.list_images(request.tenant(), &filter, cursor.wanted());
    let listed = listed.await?;
    let page = cursor.page(listed, |image| image.id, ImageSummaryResponse::from);
    request.large(page).await
}

/// Reads a stored image with its sources, scans, faces and vectors.
///
/// An image with many scans has them on several pages.
#[utoipa::path(
    get, path = "/images/{id}", operation_id = "read_image", tag = "store",
    security(("key" = ["read"])),
    params(("id" = Uuid, Path, description = "The id of the image"), ScansQuery),
    responses(StoredFailures)
)]
pub async fn read(request: StoredRequest) -> Result<Negotiated<ImageResponse>, ApiError> {
    let query: ScansQuery = request.query()?;
    let page = ScanPage {
        after: query.after,
        limit: page_size(query.limit, MAX_SCANS, MAX_SCANS)?,
        max_bytes: MAX_SCAN_BYTES,
    };
    request
        .record(AuditEvent::read("read_image", request.id))
        .await?;
    let turn = request.large_response().await;
    let store = &request.state.store;
    let image = store.image(request.tenant(), request.id, page).await?;
    let image = image.ok_or_else(|| not_found("image", request.id))?;
    let response = ImageResponse::new(image, turn);
    request.large(response).await
}

/// Erases an image with all its results.
#[utoipa::path(
    delete, path = "/images/{id}", operation_id = "erase_image", tag = "store",
    security(("key" = ["erase"])),
    params(("id" = Uuid, Path, description = "The id of the image")),
    responses(EraseFailures)
)]
pub async fn erase(request: StoredRequest) -> Result<NoContent, ApiError> {
    erase_named(&request, ErasureTarget::Image(request.id)).await
}
