//! Results as rows of the database.

use facescan_imaging::format::Format;
use facescan_inference::{device_task::DeviceTask, registry::ModelSpec};
use facescan_store::{CachedScan, NewFace, NewImage, NewScan, ScanRecord, StoredFace};

use super::storage::Storage;
use crate::{
    core::{
        error::PipelineError,
        image_file::{ImageInfo, hash_from_hex, hex},
        json::{read_back, to_value},
        run::{ImageRun, RunOutput, StoredScan},
        scan::{Embedding, Face, FaceResults, Scan},
    },
    plan::Plan,
};

impl<P: Plan> Storage<'_, P> {
    /// Converts a scan for the database.
    pub(super) fn new_scan(&self, scan: &Scan, run: &ImageRun) -> Result<NewScan, PipelineError> {
        let models = &self.pipeline.models;
        let embedder = self.vector_task.and_then(|task| models.embedder_used(task));
        // A model server that was at fault may return the vector the next time.
        let lacks_vector =
            scan.embedding.is_none() && self.vector_task == Some(DeviceTask::ImageEmbedding);
        let detects = self.tasks.contains(&DeviceTask::FaceDetection);
        let faces = scan.faces.iter().map(|face| self.new_face(face));
        let of_faces = scan.faces.iter().filter_map(|face| face.embedding.as_ref());
        let embeddings = of_faces.chain(&scan.embedding);
        let mut precisions = embeddings.map(|embedding| embedding.precision);
        // A row may have run on another device than expected at the lookup.
        let precision = precisions.next().unwrap_or(self.precision);
        // A request for one precision must not get vectors of several precisions.
        let has_one_precision = precisions.all(|other| other == precision);
        Ok(NewScan {
            tenant: self.tenant.as_ref().to_owned(),
            image: NewImage {
                id: self.pipeline.clock.new_id(),
                sha256: self.hash,
                byte_size: self.byte_size,
                width: scan.image.width,
                height: scan.image.height,
                format: scan.image.format.to_string(),
                orientation: scan.image.orientation,
                perceptual_hash: scan.perceptual_hash,
            },
            source: self.source(),
            id: self.pipeline.clock.new_id(),
            record: ScanRecord {
                scan_key: self.key(precision),
                operation: self.stored.name.to_owned(),
                detector: detects
                    .then(|| model_file(&models.detector.spec))
                    .transpose()?,
                embedder: embedder.as_ref().map(|embedder| facescan_store::Embedder {
                    id: embedder.id.clone(),
                    vector_space: embedder.vector_space.clone(),
                }),
                picture_quality: scan.picture_quality.as_ref().map(to_value).transpose()?,
                devices: Some(to_value(&run.devices)?),
                answers_cache: has_one_precision && !lacks_vector,
                created_at: self.pipeline.clock.now(),
                image_embedding: scan.embedding.as_ref().zip(embedder.as_ref()).map(
                    |(embedding, embedder)| facescan_store::ImageEmbedding {
                        vector_space: embedder.vector_space.clone(),
                        precision: embedding.precision,
                        norm: embedding.norm,
                        vector: embedding.vector.clone(),
                    },
                ),
            },
            faces: faces.collect::<Result<_, _>>()?,
        })
    }

    fn new_face(&self, face: &Face) -> Result<NewFace, PipelineError> {
        let embedding = face.embedding.as_ref();
        Ok(NewFace {
            id: self.pipeline.clock.new_id(),
            bbox: face.bbox,
            score: face.score,
            landmarks: face.landmarks,
            results: match face.results == FaceResults::default() {
                true => None,
                false => Some(to_value(&face.results)?),
            },
            embedding: embedding
                .map(|embedding| self.new_embedding(embedding))
                .transpose()?,
        })
    }

    fn new_embedding(
        &self,
        embedding: &Embedding,
    ) -> Result<facescan_store::Embedding, PipelineError> {
        let precision = embedding.precision.ok_or_else(|| {
            // The registry allows remote models only for whole images.
            PipelineError::UnexpectedOutput(format!(
                "the embedder {} does not report its precision",
                self.pipeline.models.embedder.spec().id
            ))
        })?;
        Ok(facescan_store::Embedding {
            vector_space: self.pipeline.models.embedder.vector_space.clone(),
            precision,
            norm: embedding.norm,
            vector: embedding.vector.clone(),
        })
    }
}

/// Converts a model of the registry for the database.
///
/// # Errors
/// [`PipelineError::NotASha256`] if the sha256 is not hexadecimal. The checks of the registry prevent that.
pub fn model_file(spec: &ModelSpec) -> Result<facescan_store::ModelFile, PipelineError> {
    Ok(facescan_store::ModelFile {
        id: spec.id.clone(),
        sha256: hash_from_hex(&spec.sha256)?,
    })
}

impl Scan {
    /// Converts a stored scan, its id and the devices that ran it. Returns `None` if another version wrote other fields.
    pub fn from_stored(found: CachedScan) -> Option<RunOutput<Self>> {
        let CachedScan { image, scan } = found;
        let run = ImageRun::stored(read_back(scan.record.devices)?.unwrap_or_default());
        let result = Self {
            image_id: Some(image.id),
            cached: true,
            image: ImageInfo {
                width: image.width,
                height: image.height,
                format: Format::named(&image.format)?,
                sha256: hex(&image.sha256),
                orientation: image.orientation,
            },
            perceptual_hash: image.perceptual_hash,
            picture_quality: read_back(scan.record.picture_quality)?,
            faces: scan
                .faces
                .into_iter()
                .map(Face::from_stored)
                .collect::<Option<_>>()?,
            embedding: scan.record.image_embedding.map(|embedding| Embedding {
                vector: embedding.vector,
                norm: embedding.norm,
                precision: embedding.precision,
            }),
        };
        Some(RunOutput {
            result,
            run,
            stored: Some(StoredScan::Found(scan.id)),
        })
    }
}

impl Face {
    /// Converts a stored face. Returns `None` if another version wrote other results.
    pub fn from_stored(face: StoredFace) -> Option<Self> {
        Some(Self {
            id: Some(face.id),
            bbox: face.bbox,
            score: face.score,
            landmarks: face.landmarks,
            results: read_back(face.results)?.unwrap_or_default(),
            embedding: face.embedding.map(|embedding| Embedding {
                vector: embedding.vector,
                norm: embedding.norm,
                precision: Some(embedding.precision),
            }),
            crop: None,
        })
    }
}
