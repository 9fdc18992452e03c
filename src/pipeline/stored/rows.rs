//! Results as rows of the database.

use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::{Content, Precisions, StoredPlan, StoredScans, key::scan_key};
use crate::pipeline::{
    answer::ImageInfo,
    error::PipelineError,
    faces::{Face, FaceResults},
    models::embedder::Embedding,
    run::{ImageRun, RunOutput},
    scan::{ContentHash, Scan, hex},
};
use facescan_inference::{device_task::DeviceTask, registry::ModelSpec};
use facescan_store::{CachedScan, NewFace, NewImage, NewScan, StoredFace};

impl StoredScans {
    /// Converts a scan for the database.
    pub(super) fn new_scan<P: StoredPlan>(
        &self,
        scanned: &RunOutput<Scan>,
        content: Content<'_>,
        plan: &P,
        precisions: Precisions,
    ) -> Result<NewScan, PipelineError> {
        let scan = &scanned.result;
        let models = &self.pipeline.models;
        let embedder = plan
            .embedding_operation()
            .and_then(|operation| models.embedder_used(operation));
        // A model server that was at fault may return the vector the next time.
        let lacks_vector = scan.embedding.is_none()
            && plan.embedding_operation() == Some(DeviceTask::ImageEmbedding);
        let faces = scan.faces.iter().map(|face| self.new_face(face));
        Ok(NewScan {
            tenant: content.tenant.to_owned(),
            image: NewImage {
                id: self.pipeline.clock.new_id(),
                sha256: content.hash,
                byte_size: content.byte_size,
                width: scan.image.width,
                height: scan.image.height,
                format: scan.image.format.to_string(),
                orientation: scan.image.orientation,
                perceptual_hash: scan.perceptual_hash,
            },
            source: self.source(plan.storage()),
            id: self.pipeline.clock.new_id(),
            // A row may have run on another device than expected at the lookup.
            scan_key: scan_key(&self.pipeline, plan, precisions.first()),
            operation: plan.operation_name().to_owned(),
            detector: plan
                .detects()
                .then(|| model_file(&self.pipeline.models.detector.spec))
                .transpose()?,
            embedder: embedder.as_ref().map(|embedder| facescan_store::Embedder {
                id: embedder.id.clone(),
                contract: embedder.contract.clone(),
            }),
            picture_quality: scan.picture_quality.as_ref().map(to_value).transpose()?,
            devices: Some(to_value(&scanned.run.devices)?),
            // A request for one precision must not get vectors of several precisions.
            answers_cache: matches!(precisions, Precisions::Same(_)) && !lacks_vector,
            created_at: self.pipeline.clock.now(),
            faces: faces.collect::<Result<_, _>>()?,
            image_embedding: scan.embedding.as_ref().zip(embedder.as_ref()).map(
                |(embedding, embedder)| facescan_store::ImageEmbedding {
                    contract: embedder.contract.clone(),
                    precision: embedding.precision,
                    norm: embedding.norm,
                    vector: embedding.vector.clone(),
                },
            ),
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
            contract: self.pipeline.models.embedder.contract.clone(),
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

/// Parses a sha256 in hexadecimal digits.
///
/// # Errors
/// [`PipelineError::NotASha256`] if `text` is not a sha256.
pub fn hash_from_hex(text: &str) -> Result<ContentHash, PipelineError> {
    let wrong = || PipelineError::NotASha256(text.to_owned());
    let mut hash = ContentHash::default();
    if text.len() != 2 * hash.len() || !text.is_ascii() {
        return Err(wrong());
    }
    for (byte, at) in hash.iter_mut().zip((0..text.len()).step_by(2)) {
        *byte = u8::from_str_radix(&text[at..at + 2], 16).map_err(|_| wrong())?;
    }
    Ok(hash)
}

/// Converts a result or options to JSON.
///
/// # Errors
/// [`PipelineError::Serialize`] if the value cannot be written as JSON.
pub fn to_value(value: &impl Serialize) -> Result<Value, PipelineError> {
    // A direct conversion turns each `f32` into an `f64`, so 0.53 would be stored as 0.5299999713897705.
    Ok(serde_json::from_slice(&serde_json::to_vec(value)?)?)
}

impl Scan {
    /// Converts a stored scan and the devices that ran it. Returns `None` if another version wrote other fields.
    pub fn from_stored(found: CachedScan) -> Option<RunOutput<Self>> {
        let CachedScan { image, scan } = found;
        let run = ImageRun::stored(read_back(scan.devices)?.unwrap_or_default());
        let result = Self {
            image_id: Some(image.id),
            cached: true,
            image: ImageInfo {
                width: image.width,
                height: image.height,
                format: image.format.parse().ok()?,
                sha256: hex(&image.sha256),
                orientation: image.orientation,
            },
            perceptual_hash: image.perceptual_hash,
            picture_quality: read_back(scan.picture_quality)?,
            faces: scan
                .faces
                .into_iter()
                .map(Face::from_stored)
                .collect::<Option<_>>()?,
            embedding: scan.image_embedding.map(|embedding| Embedding {
                vector: embedding.vector,
                norm: embedding.norm,
                precision: embedding.precision,
            }),
        };
        Some(RunOutput { result, run })
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

/// Parses a stored value. Returns `Some(None)` if nothing was stored, and `None` if the value has another format.
pub(super) fn read_back<T: DeserializeOwned>(stored: Option<Value>) -> Option<Option<T>> {
    match stored {
        None => Some(None),
        Some(value) => serde_json::from_value(value).ok().map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::scan::content_hash;

    #[test]
    fn stored_values_have_the_digits_of_answers() {
        let value = to_value(&[0.53_f32, 1.0, 1e-7]).unwrap();
        assert_eq!(value.to_string(), "[0.53,1.0,1e-7]");
    }

    #[test]
    fn hashes_are_parsed_from_hex() {
        let hash = content_hash(b"facescan");
        assert_eq!(hash_from_hex(&hex(&hash)).unwrap(), hash);
        for wrong in ["", "abc", &"g".repeat(64), &"é".repeat(32)] {
            assert!(hash_from_hex(wrong).is_err(), "{wrong}");
        }
    }
}
