//! The types that the store takes and returns.
//!
//! Coordinates are pixels of the upright image. Times are kept to the microsecond. Numbers must be finite. Texts must
//! not contain NUL, because Postgres cannot store it.

use facescan_imaging::geometry::{BBox, Landmarks};
use facescan_imaging::precision::NumericPrecision;
use serde_json::Value;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::record::record;

/// A model of the registry.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// The name in the registry.
    pub id: String,
    /// The role: `detector`, `embedder` …
    pub role: String,
    /// The architecture: `yunet`, `sface` …
    pub family: String,
    /// The SHA-256 of the file.
    pub sha256: [u8; 32],
    /// The vector space of its vectors; embedders only.
    pub vector_space: Option<String>,
    /// The number of values in a vector; embedders only.
    pub dim: Option<u32>,
}

/// A model file.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelFile {
    /// The name in the registry.
    pub id: String,
    /// The SHA-256 of the file.
    pub sha256: [u8; 32],
}

/// The embedder of a scan.
#[derive(Clone, Debug, PartialEq)]
pub struct Embedder {
    /// The name in the registry.
    pub id: String,
    /// The vector space of its vectors. Only vectors of the same vector space can be compared.
    pub vector_space: String,
}

/// The vector of a whole image.
#[derive(Clone, Debug, PartialEq)]
pub struct ImageEmbedding {
    /// The vector space. Only vectors of the same vector space can be compared.
    pub vector_space: String,
    /// The precision in which the model computed the vector. `None` if a remote server ran the model.
    pub precision: Option<NumericPrecision>,
    /// The length of the vector before normalization.
    pub norm: f32,
    /// The values, L2-normalized. The store returns the same bits.
    pub vector: Vec<f32>,
}

/// How a scan was made, and what it found besides faces.
#[derive(Clone, Debug, PartialEq)]
pub struct ScanRecord {
    /// A digest of the operation, its options, its models and their precision. Scans of one image with equal keys have
    /// equal results.
    pub scan_key: [u8; 32],
    /// The operation: `detect`, `embed` …
    pub operation: String,
    /// The detector; `None` if the image was an aligned crop.
    pub detector: Option<ModelFile>,
    /// The embedder; `None` if no embeddings were requested.
    pub embedder: Option<Embedder>,
    /// The quality of the whole image, if requested.
    pub picture_quality: Option<Value>,
    /// The device that ran each operation, by the name of the operation.
    pub devices: Option<Value>,
    /// Whether it can be returned from the cache. It cannot after one of its faces was deleted.
    pub answers_cache: bool,
    /// When it was made.
    pub created_at: OffsetDateTime,
    /// The vector of the whole image. Its scan has no faces.
    pub image_embedding: Option<ImageEmbedding>,
}

/// A scan of one image, to be saved. The caller chooses the ids and the times.
#[derive(Clone, Debug)]
pub struct NewScan {
    /// The id, a UUID of version 7.
    pub id: Uuid,
    /// The tenant that owns the rows.
    pub tenant: String,
    /// The image.
    pub image: NewImage,
    /// Where the image was seen, if known.
    pub source: Option<Source>,
    /// How it was made.
    pub record: ScanRecord,
    /// The faces, in the order of the response.
    pub faces: Vec<NewFace>,
}

/// The image of a [`NewScan`].
#[derive(Clone, Debug)]
pub struct NewImage {
    /// The id, a UUID of version 7. It is used only if the tenant does not have this content yet.
    pub id: Uuid,
    /// The SHA-256 of the bytes as received.
    pub sha256: [u8; 32],
    /// The number of bytes as received.
    pub byte_size: u64,
    /// The width of the upright image in pixels.
    pub width: u32,
    /// The height of the upright image in pixels.
    pub height: u32,
    /// The format: `jpeg`, `png` …
    pub format: String,
    /// The EXIF orientation of the file, 1 to 8.
    pub orientation: u8,
    /// A hash for finding near-duplicates; `None` for an image without structure.
    pub perceptual_hash: Option<u64>,
}

record! {
    /// Where an image was seen. An empty text is the same as `None`.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Source {
        /// The caller's name for the source, at most 1024 bytes.
        pub id: Option<String> = get("source_id"),
        /// The URL of the image.
        pub url: Option<String> = get("source_url"),
        /// When the image was seen there; for a stored source, the last time.
        pub seen_at: OffsetDateTime = get("seen_at"),
    }
}

/// One face of a [`NewScan`].
#[derive(Clone, Debug)]
pub struct NewFace {
    /// The id, a UUID of version 7.
    pub id: Uuid,
    /// The bounding box.
    pub bbox: BBox,
    /// The detection score, 0 to 1; `None` if the image was an aligned crop.
    pub score: Option<f32>,
    /// The five landmarks; `None` if the detector has none.
    pub landmarks: Option<Landmarks>,
    /// The results without a vector, as an object. `None` if there are none.
    pub results: Option<Value>,
    /// The embedding, if requested.
    pub embedding: Option<Embedding>,
}

/// The vector of a face.
#[derive(Clone, Debug, PartialEq)]
pub struct Embedding {
    /// The vector space. Only vectors of the same vector space can be compared.
    pub vector_space: String,
    /// The precision in which the model computed the vector. The stored values are 32-bit floats in any case.
    pub precision: NumericPrecision,
    /// The length of the vector before normalization.
    pub norm: f32,
    /// The values, L2-normalized. The store returns the same bits.
    pub vector: Vec<f32>,
}

/// The result of saving a [`NewScan`].
#[derive(Clone, Debug, PartialEq)]
pub enum SavedScan {
    /// The scan was written with its ids.
    Written {
        /// The id of the image. It is that of an older row if the tenant already had this content.
        image_id: Uuid,
    },
    /// The image already had a scan with the same key. Answer with that one.
    Kept(Box<StoredScan>),
}

impl SavedScan {
    /// Returns the id of the image in the database.
    pub fn image_id(&self) -> Uuid {
        match self {
            Self::Written { image_id } => *image_id,
            Self::Kept(scan) => scan.image_id,
        }
    }

    /// Returns the id of the scan in the database. `new` is the id that the call had.
    pub(crate) fn scan_id(&self, new: Uuid) -> Uuid {
        match self {
            Self::Written { .. } => new,
            Self::Kept(scan) => scan.id,
        }
    }
}

/// A stored image.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredImage {
    /// The image itself.
    pub summary: ImageSummary,
    /// Where it was seen, in the order of `seen_at`, oldest first. If it has more than [`MAX_SOURCES`](Self::MAX_SOURCES),
    /// these are the newest.
    pub sources: Vec<Source>,
    /// One page of its scans, oldest first.
    pub scans: Vec<StoredScan>,
    /// The id to pass as [`ScanPage::after`] for the next page. `None` if this is the last page.
    pub next: Option<Uuid>,
}

impl StoredImage {
    /// The largest number of sources that are returned with an image.
    pub const MAX_SOURCES: usize = 1000;
}

/// One page of the scans of an image.
#[derive(Clone, Copy, Debug)]
pub struct ScanPage {
    /// The last id of the previous page; `None` for the first page.
    pub after: Option<Uuid>,
    /// The maximum number of scans to return.
    pub limit: u32,
    /// The page ends before a scan with which it would have more than about so many bytes as JSON. It has at least one scan
    /// in any case.
    pub max_bytes: u64,
}

record! {
    /// A stored image without its sources and scans.
    #[derive(Clone, Debug, PartialEq)]
    pub struct ImageSummary {
        /// The id, a UUID of version 7. Its time is when the content was first saved.
        pub id: Uuid,
        /// The SHA-256 of the bytes as received.
        pub sha256: [u8; 32],
        /// The number of bytes as received.
        pub byte_size: u64,
        /// The width of the upright image in pixels.
        pub width: u32,
        /// The height of the upright image in pixels.
        pub height: u32,
        /// The format: `jpeg`, `png` …
        pub format: String,
        /// The EXIF orientation of the file, 1 to 8.
        pub orientation: u8,
        /// A hash for finding near-duplicates; `None` for an image without structure.
        pub perceptual_hash: Option<u64> = bits("perceptual_hash"),
        /// When the content was first saved.
        pub created_at: OffsetDateTime = get("created_at"),
    }
}

/// A stored scan.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredScan {
    /// The id, a UUID of version 7.
    pub id: Uuid,
    /// The id of its image.
    pub image_id: Uuid,
    /// The batch that wrote it, if no request was answered with it yet.
    pub batch_id: Option<Uuid>,
    /// How it was made.
    pub record: ScanRecord,
    /// The faces, in the order of the response.
    pub faces: Vec<StoredFace>,
}

/// A stored scan with its image.
#[derive(Clone, Debug, PartialEq)]
pub struct CachedScan {
    /// The image.
    pub image: ImageSummary,
    /// The scan.
    pub scan: StoredScan,
}

/// A stored face.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredFace {
    /// The id, a UUID of version 7.
    pub id: Uuid,
    /// The scan that found it.
    pub scan_id: Uuid,
    /// The image that it is in.
    pub image_id: Uuid,
    /// The index in the response of the scan, from 0.
    pub position: u32,
    /// The bounding box.
    pub bbox: BBox,
    /// The detection score, 0 to 1; `None` if the image was an aligned crop.
    pub score: Option<f32>,
    /// The five landmarks; `None` if the detector has none.
    pub landmarks: Option<Landmarks>,
    /// The results without a vector, as an object. `None` if there are none.
    pub results: Option<Value>,
    /// The embedding, if requested.
    pub embedding: Option<Embedding>,
}

/// The images to list.
#[derive(Clone, Debug, Default)]
pub struct ImageFilter {
    /// Only images that were seen at the source with this id.
    pub source: Option<String>,
}
