//! Rows of the tables, and their conversion to and from records.

use facescan_imaging::geometry::{BBox, Landmarks};
use sqlx::types::JsonValue;
use time::OffsetDateTime;
use uuid::Uuid;

use super::records::{
    Embedder, Embedding, ImageEmbedding, ImageSummary, ModelFile, NewFace, NewScan, ScanRecord,
    Source, StoredFace, StoredScan,
};
use crate::error::StoreError;
use crate::record::record;
use crate::times::to_the_microsecond;
use crate::values::{Digest, Floats, Value};

/// The column lists of the queries, so that each list exists once.
macro_rules! sql {
    (image_columns) => {
        "i.id, i.sha256, i.byte_size, i.width, i.height, i.format, i.orientation, \
         i.perceptual_hash, i.created_at"
    };
    (scans) => {
        "SELECT s.id, s.image_id, s.scan_key, s.operation, s.detector_id, s.detector_sha256, \
         s.embedder_id, s.embedder_vector_space, s.picture_quality, s.devices, s.answers_cache, s.created_at, \
         s.batch_id, v.vector_space, v.precision, v.dim, v.norm, v.vector \
         FROM scans s LEFT JOIN image_embeddings v ON v.scan_id = s.id "
    };
    (faces) => {
        "SELECT f.id, f.scan_id, f.image_id, f.position, f.x1, f.y1, f.x2, f.y2, f.score, \
         f.landmarks, f.results, e.vector_space, e.precision, e.dim, e.norm, e.vector \
         FROM faces f LEFT JOIN embeddings e ON e.face_id = f.id "
    };
}
pub(super) use sql;

record! {
    pub(super) struct ImageRow {
        id: Uuid,
        sha256: Digest,
        byte_size: i64,
        width: i32,
        height: i32,
        format: String,
        orientation: i16,
        perceptual_hash: Option<i64>,
        created_at: OffsetDateTime,
    }
}

impl TryFrom<ImageRow> for ImageSummary {
    type Error = StoreError;

    fn try_from(row: ImageRow) -> Result<Self, StoreError> {
        let out_of_range = |_| StoreError::corrupt(format!("a size of image {}", row.id));
        Ok(Self {
            id: row.id,
            sha256: row.sha256.0,
            byte_size: row.byte_size.try_into().map_err(out_of_range)?,
            width: row.width.try_into().map_err(out_of_range)?,
            height: row.height.try_into().map_err(out_of_range)?,
            format: row.format,
            orientation: row.orientation.try_into().map_err(out_of_range)?,
            perceptual_hash: row.perceptual_hash.map(i64::cast_unsigned),
            created_at: row.created_at,
        })
    }
}

record! {
    pub(super) struct SourceRow {
        source_id: Option<String>,
        source_url: Option<String>,
        seen_at: OffsetDateTime,
    }
}

impl From<SourceRow> for Source {
    fn from(row: SourceRow) -> Self {
        Self {
            id: row.source_id,
            url: row.source_url,
            seen_at: row.seen_at,
        }
    }
}

record! {
    pub(super) struct ScanRow {
        pub(super) id: Uuid,
        pub(super) image_id: Uuid,
        scan_key: Digest,
        operation: String,
        detector_id: Option<String>,
        detector_sha256: Option<Digest>,
        embedder_id: Option<String>,
        embedder_vector_space: Option<String>,
        picture_quality: Option<JsonValue>,
        devices: Option<JsonValue>,
        pub(super) answers_cache: bool,
        created_at: OffsetDateTime,
        batch_id: Option<Uuid>,
    } with embedding: EmbeddingRow
}

impl ScanRow {
    pub(super) const INTO: &'static str = "scans (id, image_id, scan_key, operation, \
         detector_id, detector_sha256, embedder_id, embedder_vector_space, picture_quality, \
         devices, answers_cache, created_at, batch_id)";
    pub(super) const INTO_EMBEDDINGS: &'static str =
        "image_embeddings (scan_id, vector_space, precision, dim, norm, vector)";

    /// `batch_id` is the batch that makes the scan, if one does.
    pub(super) fn new(image_id: Uuid, scan: &NewScan, batch_id: Option<Uuid>) -> Self {
        let record = &scan.record;
        let detector = record.detector.as_ref();
        let embedder = record.embedder.as_ref();
        Self {
            id: scan.id,
            image_id,
            scan_key: Digest(record.scan_key),
            operation: record.operation.clone(),
            detector_id: detector.map(|detector| detector.id.clone()),
            detector_sha256: detector.map(|detector| Digest(detector.sha256)),
            embedder_id: embedder.map(|embedder| embedder.id.clone()),
            embedder_vector_space: embedder.map(|embedder| embedder.vector_space.clone()),
            picture_quality: record.picture_quality.clone(),
            devices: record.devices.clone(),
            answers_cache: record.answers_cache,
            created_at: to_the_microsecond(record.created_at),
            batch_id,
            embedding: record
                .image_embedding
                .as_ref()
                .map(EmbeddingRow::of_image)
                .unwrap_or_default(),
        }
    }

    /// Returns the values for [`Self::INTO_EMBEDDINGS`], if the scan has the vector of an image.
    pub(super) fn embedding_values(&self) -> Option<[&dyn Value; 6]> {
        self.embedding.values(&self.id)
    }

    /// Returns the values for [`Self::INTO`].
    pub(super) fn values(&self) -> [&dyn Value; 13] {
        [
            &self.id,
            &self.image_id,
            &self.scan_key,
            &self.operation,
            &self.detector_id,
            &self.detector_sha256,
            &self.embedder_id,
            &self.embedder_vector_space,
            &self.picture_quality,
            &self.devices,
            &self.answers_cache,
            &self.created_at,
            &self.batch_id,
        ]
    }

    pub(super) fn with_faces(self, faces: Vec<StoredFace>) -> Result<StoredScan, StoreError> {
        let image_embedding = self.embedding.image_embedding(self.id)?;
        let detector = self.detector_id.zip(self.detector_sha256);
        let embedder = self.embedder_id.zip(self.embedder_vector_space);
        Ok(StoredScan {
            id: self.id,
            image_id: self.image_id,
            batch_id: self.batch_id,
            record: ScanRecord {
                scan_key: self.scan_key.0,
                operation: self.operation,
                detector: detector.map(|(id, sha256)| ModelFile {
                    id,
                    sha256: sha256.0,
                }),
                embedder: embedder.map(|(id, vector_space)| Embedder { id, vector_space }),
                picture_quality: self.picture_quality,
                devices: self.devices,
                answers_cache: self.answers_cache,
                created_at: self.created_at,
                image_embedding,
            },
            faces,
        })
    }
}

// A face and its embedding, if it has one.
record! {
    pub(super) struct FaceRow {
        id: Uuid,
        scan_id: Uuid,
        image_id: Uuid,
        position: i32,
        x1: f32,
        y1: f32,
        x2: f32,
        y2: f32,
        score: Option<f32>,
        landmarks: Option<Floats>,
        results: Option<JsonValue>,
    } with embedding: EmbeddingRow
}

// If the face or the image has no embedding, every column is null.
record! {
    #[derive(Default)]
    struct EmbeddingRow {
        vector_space: Option<String>,
        precision: Option<String>,
        dim: Option<i32>,
        norm: Option<f32>,
        vector: Option<Floats>,
    }
}

impl EmbeddingRow {
    fn of_image(embedding: &ImageEmbedding) -> Self {
        Self {
            vector_space: Some(embedding.vector_space.clone()),
            precision: embedding
                .precision
                .map(|precision| precision.name().to_owned()),
            dim: i32::try_from(embedding.vector.len()).ok(),
            norm: Some(embedding.norm),
            vector: Some(Floats(embedding.vector.clone())),
        }
    }

    /// Returns the values for an INSERT, if there is an embedding. `id` is the id of the face or of the scan.
    fn values<'a>(&'a self, id: &'a Uuid) -> Option<[&'a dyn Value; 6]> {
        let Self {
            vector_space,
            precision,
            dim,
            norm,
            vector,
        } = self;
        vector.as_ref()?;
        Some([id, vector_space, precision, dim, norm, vector])
    }

    /// Returns the vector of the whole image of a scan.
    fn image_embedding(self, scan: Uuid) -> Result<Option<ImageEmbedding>, StoreError> {
        let (Some(vector_space), Some(norm), Some(vector)) =
            (self.vector_space, self.norm, self.vector)
        else {
            return Ok(None);
        };
        let damaged = |_| StoreError::corrupt(format!("the precision of scan {scan}"));
        Ok(Some(ImageEmbedding {
            vector_space,
            precision: self
                .precision
                .map(|name| name.parse())
                .transpose()
                .map_err(damaged)?,
            norm,
            vector: vector.0,
        }))
    }
}

impl FaceRow {
    pub(super) const INTO: &'static str = "faces \
         (id, scan_id, image_id, position, x1, y1, x2, y2, score, landmarks, results)";
    pub(super) const INTO_EMBEDDINGS: &'static str =
        "embeddings (face_id, vector_space, precision, dim, norm, vector)";

    pub(super) fn new(scan: &ScanRow, position: i32, face: &NewFace) -> Self {
        let embedding = face.embedding.as_ref().map(|embedding| EmbeddingRow {
            vector_space: Some(embedding.vector_space.clone()),
            precision: Some(embedding.precision.name().to_owned()),
            dim: i32::try_from(embedding.vector.len()).ok(),
            norm: Some(embedding.norm),
            vector: Some(Floats(embedding.vector.clone())),
        });
        Self {
            id: face.id,
            scan_id: scan.id,
            image_id: scan.image_id,
            position,
            x1: face.bbox.x1,
            y1: face.bbox.y1,
            x2: face.bbox.x2,
            y2: face.bbox.y2,
            score: face.score,
            landmarks: face
                .landmarks
                .map(|points| Floats(points.as_flattened().to_vec())),
            results: face.results.clone(),
            embedding: embedding.unwrap_or_default(),
        }
    }

    /// Returns the values for [`Self::INTO`].
    pub(super) fn values(&self) -> [&dyn Value; 11] {
        [
            &self.id,
            &self.scan_id,
            &self.image_id,
            &self.position,
            &self.x1,
            &self.y1,
            &self.x2,
            &self.y2,
            &self.score,
            &self.landmarks,
            &self.results,
        ]
    }

    /// Returns the values for [`Self::INTO_EMBEDDINGS`], if the face has an embedding.
    pub(super) fn embedding_values(&self) -> Option<[&dyn Value; 6]> {
        self.embedding.values(&self.id)
    }
}

impl TryFrom<FaceRow> for StoredFace {
    type Error = StoreError;

    fn try_from(row: FaceRow) -> Result<Self, StoreError> {
        let damaged = |what| StoreError::corrupt(format!("the {what} of face {}", row.id));
        let landmarks = row.landmarks.map(|points| {
            Landmarks::try_from(points.0.as_chunks().0).map_err(|_| damaged("landmarks"))
        });
        let embedding = match row.embedding {
            EmbeddingRow {
                vector_space: Some(vector_space),
                precision: Some(precision),
                dim: Some(_),
                norm: Some(norm),
                vector: Some(vector),
            } => Some(Embedding {
                vector_space,
                precision: precision.parse().map_err(|_| damaged("precision"))?,
                norm,
                vector: vector.0,
            }),
            _ => None,
        };
        Ok(Self {
            id: row.id,
            scan_id: row.scan_id,
            image_id: row.image_id,
            position: row.position.try_into().map_err(|_| damaged("position"))?,
            bbox: BBox {
                x1: row.x1,
                y1: row.y1,
                x2: row.x2,
                y2: row.y2,
            },
            score: row.score,
            landmarks: landmarks.transpose()?,
            results: row.results,
            embedding,
        })
    }
}
