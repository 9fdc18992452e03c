//! How images, scans and faces are read from rows.

use super::records::{
    Embedder, Embedding, ImageEmbedding, ModelFile, ScanRecord, StoredFace, StoredScan,
};
use crate::record::{Columns, Record};
use crate::values::{Digest, Floats};
use facescan_imaging::geometry::{BBox, Landmarks};
use facescan_imaging::precision::NumericPrecision;

/// The column lists of the queries, so that each list exists once.
macro_rules! sql {
    (image_columns) => {
        "i.id, i.sha256, i.byte_size, i.width, i.height, i.format, i.orientation, \
         i.perceptual_hash, i.created_at"
    };
    (scans) => {
        "SELECT s.id, s.image_id, s.scan_key, s.operation, s.detector_id, s.detector_sha256, \
         s.embedder_id, s.embedder_vector_space, s.picture_quality, s.devices, s.answers_cache, s.created_at, \
         s.batch_id, v.vector_space, v.precision, v.norm, v.vector \
         FROM scans s LEFT JOIN image_embeddings v ON v.scan_id = s.id "
    };
    (with_key) => {
        "WHERE s.image_id = (SELECT id FROM images WHERE tenant = :tenant AND sha256 = :sha256) \
         AND s.scan_key = :scan_key AND s.answers_cache"
    };
    (faces) => {
        "SELECT f.id, f.scan_id, f.image_id, f.position, f.x1, f.y1, f.x2, f.y2, f.score, \
         f.landmarks, f.results, e.vector_space, e.precision, e.norm, e.vector \
         FROM faces f LEFT JOIN embeddings e ON e.face_id = f.id "
    };
}
pub(super) use sql;

/// A scan without its faces. Give them to it with `add_faces` before it is returned: without them it is a scan that found none.
impl Record for StoredScan {
    fn from_row(row: &Columns<'_>) -> Result<Self, sqlx::Error> {
        let detector: Option<String> = row.get("detector_id")?;
        let detector = detector.zip(row.get::<Option<Digest>>("detector_sha256")?);
        let embedder: Option<String> = row.get("embedder_id")?;
        let embedder = embedder.zip(row.get("embedder_vector_space")?);
        Ok(Self {
            id: row.get("id")?,
            image_id: row.get("image_id")?,
            batch_id: row.get("batch_id")?,
            record: ScanRecord {
                scan_key: row.get::<Digest>("scan_key")?.0,
                operation: row.get("operation")?,
                detector: detector.map(|(id, sha256)| ModelFile {
                    id,
                    sha256: sha256.0,
                }),
                embedder: embedder.map(|(id, vector_space)| Embedder { id, vector_space }),
                picture_quality: row.get("picture_quality")?,
                devices: row.get("devices")?,
                answers_cache: row.get("answers_cache")?,
                created_at: row.get("created_at")?,
                image_embedding: Option::from_row(row)?,
            },
            faces: Vec::new(),
        })
    }
}

/// The vector of a whole image. If it has none, every column is null.
impl Record for Option<ImageEmbedding> {
    fn from_row(row: &Columns<'_>) -> Result<Self, sqlx::Error> {
        let (Some(vector_space), Some(norm), Some(Floats(vector))) = (
            row.get("vector_space")?,
            row.get("norm")?,
            row.get("vector")?,
        ) else {
            return Ok(None);
        };
        let precision = row.get::<Option<String>>("precision")?;
        let precision = precision.map(|name| {
            let named = NumericPrecision::named(&name);
            named.ok_or_else(|| row.damaged("precision"))
        });
        Ok(Some(ImageEmbedding {
            vector_space,
            precision: precision.transpose()?,
            norm,
            vector,
        }))
    }
}

impl Record for StoredFace {
    fn from_row(row: &Columns<'_>) -> Result<Self, sqlx::Error> {
        let landmarks = row.get::<Option<Floats>>("landmarks")?.map(|points| {
            Landmarks::try_from(points.0.as_chunks().0).map_err(|_| row.damaged("landmarks"))
        });
        let embedding = Option::<ImageEmbedding>::from_row(row)?.and_then(|embedding| {
            Some(Embedding {
                vector_space: embedding.vector_space,
                precision: embedding.precision?,
                norm: embedding.norm,
                vector: embedding.vector,
            })
        });
        Ok(Self {
            id: row.get("id")?,
            scan_id: row.get("scan_id")?,
            image_id: row.get("image_id")?,
            position: row.number("position")?,
            bbox: BBox {
                x1: row.get("x1")?,
                y1: row.get("y1")?,
                x2: row.get("x2")?,
                y2: row.get("y2")?,
            },
            score: row.get("score")?,
            landmarks: landmarks.transpose()?,
            results: row.get("results")?,
            embedding,
        })
    }
}
