//! What goes into the store and what comes out.
//!
//! Coordinates are pixels of the upright picture. Times are kept to the microsecond. Numbers must
//! be finite, and texts may not hold NUL, which Postgres cannot store.

use serde_json::Value;
use time::OffsetDateTime;
use uuid::Uuid;

use facescan_imaging::geometry::{BBox, Landmarks};

/// A model, as the registry has it.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// Name in the registry.
    pub id: String,
    /// What it does: `detector`, `embedder` …
    pub role: String,
    /// Its architecture: `yunet`, `sface` …
    pub family: String,
    /// Digest of the file.
    pub sha256: [u8; 32],
    /// Embedders only: the embedding contract.
    pub contract: Option<String>,
    /// Embedders only: length of the vector.
    pub dim: Option<u32>,
}

/// A model file.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelFile {
    /// Name in the registry.
    pub id: String,
    /// Digest of the file.
    pub sha256: [u8; 32],
}

/// An embedder as it was used.
#[derive(Clone, Debug, PartialEq)]
pub struct Embedder {
    /// Name in the registry.
    pub id: String,
    /// Vectors are comparable only under the same contract.
    pub contract: String,
}

/// One scan of one picture, to be saved. Ids and times come from the caller.
#[derive(Clone, Debug)]
pub struct NewScan {
    /// Owner of everything in it.
    pub tenant: String,
    /// The picture that was scanned.
    pub image: NewImage,
    /// Where the picture was seen, if the caller said.
    pub source: Option<Source>,
    /// Id of the scan, UUID version 7.
    pub id: Uuid,
    /// Digest of the operation, its options and its models: equal keys mean equal answers.
    pub scan_key: [u8; 32],
    /// `detect`, `embed` …
    pub operation: String,
    /// The detector, unless the input was an aligned crop.
    pub detector: Option<ModelFile>,
    /// The embedder, when embeddings were asked for.
    pub embedder: Option<Embedder>,
    /// Quality of the whole picture, when asked for.
    pub picture_quality: Option<Value>,
    /// Whether later requests may be answered from this scan.
    pub answers_cache: bool,
    /// When the scan was made.
    pub created_at: OffsetDateTime,
    /// In the order of the answer.
    pub faces: Vec<NewFace>,
}

/// The picture of a [`NewScan`].
#[derive(Clone, Debug)]
pub struct NewImage {
    /// Id if the content is new to the tenant, UUID version 7.
    pub id: Uuid,
    /// Digest of the bytes as received.
    pub sha256: [u8; 32],
    /// Length of the bytes as received.
    pub byte_size: u64,
    /// Width of the upright picture in pixels.
    pub width: u32,
    /// Height of the upright picture in pixels.
    pub height: u32,
    /// `jpeg`, `png` …
    pub format: String,
    /// EXIF orientation of the file, 1 to 8.
    pub orientation: u8,
    /// A hint of what the picture looks like; none for a flat picture.
    pub perceptual_hash: Option<u64>,
}

/// Where a picture was seen. An empty text counts as none.
#[derive(Clone, Debug, PartialEq)]
pub struct Source {
    /// The caller's own name of the place, at most 1024 bytes.
    pub id: Option<String>,
    /// Its address.
    pub url: Option<String>,
    /// When; of a stored source, the last time.
    pub seen_at: OffsetDateTime,
}

/// One face of a [`NewScan`].
#[derive(Clone, Debug)]
pub struct NewFace {
    /// UUID version 7.
    pub id: Uuid,
    /// Where it is.
    pub bbox: BBox,
    /// Detection score, 0..1; none of a crop that came aligned.
    pub score: Option<f32>,
    /// The five points; none from a detector without them.
    pub landmarks: Option<Landmarks>,
    /// Quality of the face, when asked for.
    pub quality: Option<Value>,
    /// The embedding, when asked for.
    pub embedding: Option<Embedding>,
}

/// A face's vector.
#[derive(Clone, Debug, PartialEq)]
pub struct Embedding {
    /// What it may be compared with.
    pub contract: String,
    /// Length before normalisation.
    pub norm: f32,
    /// L2-normalised; comes back bit for bit.
    pub vector: Vec<f32>,
}

/// What became of a [`NewScan`].
#[derive(Clone, Debug, PartialEq)]
pub enum SavedScan {
    /// It was written, under the ids it came with, save the picture's.
    Written {
        /// Id of the picture: an older one if the tenant had this content already.
        image_id: Uuid,
    },
    /// A scan with the same key was there already and stays; answer from it.
    Kept(Box<StoredScan>),
}

impl SavedScan {
    /// Id of the picture in the database.
    pub fn image_id(&self) -> Uuid {
        match self {
            Self::Written { image_id } => *image_id,
            Self::Kept(scan) => scan.image_id,
        }
    }
}

/// A stored picture.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredImage {
    /// The picture itself.
    pub summary: ImageSummary,
    /// Where it was seen, in the order of the last sighting.
    pub sources: Vec<Source>,
    /// Its scans, oldest first.
    pub scans: Vec<StoredScan>,
}

/// A stored picture without what was found in it.
#[derive(Clone, Debug, PartialEq)]
pub struct ImageSummary {
    /// UUID version 7, of the time the content was first saved.
    pub id: Uuid,
    /// Digest of the bytes as received.
    pub sha256: [u8; 32],
    /// Length of the bytes as received.
    pub byte_size: u64,
    /// Width of the upright picture in pixels.
    pub width: u32,
    /// Height of the upright picture in pixels.
    pub height: u32,
    /// `jpeg`, `png` …
    pub format: String,
    /// EXIF orientation of the file, 1 to 8.
    pub orientation: u8,
    /// A hint of what the picture looks like; none for a flat picture.
    pub perceptual_hash: Option<u64>,
    /// When the content was first saved.
    pub created_at: OffsetDateTime,
}

/// A stored scan.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredScan {
    /// UUID version 7.
    pub id: Uuid,
    /// The picture it is of.
    pub image_id: Uuid,
    /// Digest of the operation, its options and its models.
    pub scan_key: [u8; 32],
    /// `detect`, `embed` …
    pub operation: String,
    /// The detector, unless the input was an aligned crop.
    pub detector: Option<ModelFile>,
    /// The embedder, when embeddings were asked for.
    pub embedder: Option<Embedder>,
    /// Quality of the whole picture, when asked for.
    pub picture_quality: Option<Value>,
    /// Whether requests may be answered from it; false once one of its faces was erased.
    pub answers_cache: bool,
    /// When it was made.
    pub created_at: OffsetDateTime,
    /// In the order of the answer.
    pub faces: Vec<StoredFace>,
}

/// A stored scan with the picture it is of.
#[derive(Clone, Debug, PartialEq)]
pub struct CachedScan {
    /// The picture.
    pub image: ImageSummary,
    /// The scan.
    pub scan: StoredScan,
}

/// A stored face.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredFace {
    /// UUID version 7.
    pub id: Uuid,
    /// The scan that found it.
    pub scan_id: Uuid,
    /// The picture it is in.
    pub image_id: Uuid,
    /// Place in the scan's answer, from 0.
    pub position: u32,
    /// Where it is.
    pub bbox: BBox,
    /// Detection score, 0..1; none of a crop that came aligned.
    pub score: Option<f32>,
    /// The five points; none from a detector without them.
    pub landmarks: Option<Landmarks>,
    /// Quality of the face, when it was asked for.
    pub quality: Option<Value>,
    /// The embedding, when it was asked for.
    pub embedding: Option<Embedding>,
}

/// Which pictures to list.
#[derive(Clone, Debug, Default)]
pub struct ImageFilter {
    /// Only those seen at this source id.
    pub source: Option<String>,
}

/// One page of a list.
#[derive(Clone, Copy, Debug)]
pub struct PageRequest {
    /// The last id of the page before.
    pub after: Option<Uuid>,
    /// Most entries to give.
    pub limit: u32,
}
