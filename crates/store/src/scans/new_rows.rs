//! The rows of new images, scans, faces and vectors.

use std::fmt::Display;

use time::OffsetDateTime;
use uuid::Uuid;

use super::records::{NewFace, NewScan};
use crate::error::StoreError;
use crate::times::to_the_microsecond;
use crate::values::{Digest, Value};

/// A scan to be saved.
#[derive(Clone, Copy)]
pub(crate) struct ScanToSave<'a> {
    pub(crate) scan: &'a NewScan,
    /// The batch that makes it. `None` if a request does.
    pub(crate) batch: Option<Uuid>,
}

impl<'a> ScanToSave<'a> {
    pub(crate) fn from_request(scan: &'a NewScan) -> Self {
        Self { scan, batch: None }
    }

    /// Returns what no two images have in common.
    pub(super) fn image_key(&self) -> (&'a str, &'a [u8; 32]) {
        (&self.scan.tenant, &self.scan.image.sha256)
    }
}

/// The image of a scan to be inserted.
pub(super) struct NewImageRow<'a> {
    scan: &'a NewScan,
    byte_size: i64,
    width: i32,
    height: i32,
    orientation: i16,
    perceptual_hash: Option<i64>,
    created_at: OffsetDateTime,
}

impl<'a> NewImageRow<'a> {
    pub(super) const INTO: &'static str = "images (id, tenant, sha256, byte_size, width, height, format, orientation, \
         perceptual_hash, created_at)";

    /// # Errors
    ///
    /// [`StoreError::Invalid`] if a size of the image is too large.
    pub(super) fn new(scan: &'a NewScan) -> Result<Self, StoreError> {
        let image = &scan.image;
        Ok(Self {
            scan,
            byte_size: stored_size("byte_size", image.byte_size)?,
            width: stored_size("width", image.width)?,
            height: stored_size("height", image.height)?,
            orientation: i16::from(image.orientation),
            perceptual_hash: image.perceptual_hash.map(u64::cast_signed),
            created_at: to_the_microsecond(scan.record.created_at),
        })
    }

    pub(super) fn values(&self) -> [&dyn Value; 10] {
        let image = &self.scan.image;
        [
            &image.id,
            &self.scan.tenant,
            &image.sha256,
            &self.byte_size,
            &self.width,
            &self.height,
            &image.format,
            &self.orientation,
            &self.perceptual_hash,
            &self.created_at,
        ]
    }
}

/// Returns a size of an image in the type of the databases.
fn stored_size<S, D>(field: &str, size: S) -> Result<D, StoreError>
where
    S: Copy + Display + TryInto<D>,
{
    size.try_into().map_err(|_| {
        StoreError::Invalid(format!(
            "the {field} of the image, {size}, is too large to store; send a smaller image"
        ))
    })
}

/// A scan of an image to be inserted.
pub(super) struct NewScanRow<'a> {
    pub(super) scan: &'a NewScan,
    pub(super) image_id: Uuid,
    /// The batch that makes it, if one does.
    batch: Option<Uuid>,
    detector_id: Option<String>,
    detector_sha256: Option<Digest>,
    embedder_id: Option<String>,
    embedder_vector_space: Option<String>,
    created_at: OffsetDateTime,
}

impl<'a> NewScanRow<'a> {
    pub(super) const INTO: &'static str = "scans (id, image_id, scan_key, operation, detector_id, detector_sha256, \
         embedder_id, embedder_vector_space, picture_quality, devices, answers_cache, created_at, batch_id)";

    pub(super) fn new(scan: &'a NewScan, image_id: Uuid, batch: Option<Uuid>) -> Self {
        let detector = scan.record.detector.as_ref();
        let embedder = scan.record.embedder.as_ref();
        Self {
            scan,
            image_id,
            batch,
            detector_id: detector.map(|detector| detector.id.clone()),
            detector_sha256: detector.map(|detector| Digest(detector.sha256)),
            embedder_id: embedder.map(|embedder| embedder.id.clone()),
            embedder_vector_space: embedder.map(|embedder| embedder.vector_space.clone()),
            created_at: to_the_microsecond(scan.record.created_at),
        }
    }

    pub(super) fn values(&self) -> [&dyn Value; 13] {
        let record = &self.scan.record;
        [
            &self.scan.id,
            &self.image_id,
            &record.scan_key,
            &record.operation,
            &self.detector_id,
            &self.detector_sha256,
            &self.embedder_id,
            &self.embedder_vector_space,
            &record.picture_quality,
            &record.devices,
            &record.answers_cache,
            &self.created_at,
            &self.batch,
        ]
    }
}

/// A face to be inserted.
pub(super) struct NewFaceRow<'a> {
    scan: &'a NewScanRow<'a>,
    position: i32,
    face: &'a NewFace,
}

impl<'a> NewFaceRow<'a> {
    pub(super) const INTO: &'static str =
        "faces (id, scan_id, image_id, position, x1, y1, x2, y2, score, landmarks, results)";

    /// Returns the faces of a scan.
    pub(super) fn all(scan: &'a NewScanRow<'a>) -> impl Iterator<Item = Self> + 'a {
        let faces = (0..).zip(&scan.scan.faces);
        faces.map(move |(position, face)| Self {
            scan,
            position,
            face,
        })
    }

    pub(super) fn values(&self) -> [&dyn Value; 11] {
        let Self {
            scan,
            position,
            face,
        } = self;
        [
            &face.id,
            &scan.scan.id,
            &scan.image_id,
            position,
            &face.bbox.x1,
            &face.bbox.y1,
            &face.bbox.x2,
            &face.bbox.y2,
            &face.score,
            &face.landmarks,
            &face.results,
        ]
    }
}

/// A vector of a face or of a whole image to be inserted.
pub(super) struct NewVectorRow<'a> {
    image_id: &'a Uuid,
    /// The face or the scan.
    id: &'a Uuid,
    vector_space: &'a String,
    precision: Option<String>,
    dim: Option<i32>,
    norm: f32,
    vector: &'a Vec<f32>,
}

impl<'a> NewVectorRow<'a> {
    pub(super) const INTO_FACES: &'static str =
        "embeddings (face_id, vector_space, precision, dim, norm, vector)";
    pub(super) const INTO_SCANS: &'static str =
        "image_embeddings (scan_id, vector_space, precision, dim, norm, vector)";

    pub(super) fn from_face(face: &NewFaceRow<'a>) -> Option<Self> {
        let embedding = face.face.embedding.as_ref()?;
        Some(Self {
            image_id: &face.scan.image_id,
            id: &face.face.id,
            vector_space: &embedding.vector_space,
            precision: Some(embedding.precision.name().to_owned()),
            dim: i32::try_from(embedding.vector.len()).ok(),
            norm: embedding.norm,
            vector: &embedding.vector,
        })
    }

    /// Returns the vector of the whole image.
    pub(super) fn from_scan(scan: &'a NewScanRow<'a>) -> Option<Self> {
        let embedding = scan.scan.record.image_embedding.as_ref()?;
        Some(Self {
            image_id: &scan.image_id,
            id: &scan.scan.id,
            vector_space: &embedding.vector_space,
            precision: embedding.precision.map(|it| it.name().to_owned()),
            dim: i32::try_from(embedding.vector.len()).ok(),
            norm: embedding.norm,
            vector: &embedding.vector,
        })
    }

    /// Returns the values for [`Self::INTO_FACES`] and [`Self::INTO_SCANS`].
    pub(super) fn values(&self) -> [&dyn Value; 6] {
        [
            self.id,
            self.vector_space,
            &self.precision,
            &self.dim,
            &self.norm,
            self.vector,
        ]
    }

    /// Returns the id of the image and the values.
    pub(super) fn values_with_image(&self) -> [&dyn Value; 7] {
        let [id, vector_space, precision, dim, norm, vector] = self.values();
        [
            self.image_id,
            id,
            vector_space,
            precision,
            dim,
            norm,
            vector,
        ]
    }
}
