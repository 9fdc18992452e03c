//! Scans that use the database. A stored result is returned if there is one, and new results are stored.

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::{
    context::RequestContext,
    pipeline::error::PipelineError,
    pipeline::{
        Pipeline,
        answer::ImageInfo,
        faces::{Face, FaceResults},
        models::embedder::Embedding,
        options::{ScanKind, ScanPlan, source_text, source_url_text},
        run::{ImageRun, RunOutput},
        scan::{ContentHash, Scan, content_hash, hex, millis},
    },
};
use facescan_imaging::precision::NumericPrecision;
use facescan_inference::pool::Stage;
use facescan_inference::registry::ModelSpec;
use facescan_store::{
    CachedScan, NewFace, NewImage, NewScan, SavedScan, Source, Store, StoredFace,
};

/// The version of the results. Increase it when the same bytes, models and options can have another result. Older
/// stored scans are then ignored.
const PIPELINE_VERSION: u32 = 1;

impl ScanPlan {
    /// Returns the options of one image, which can have its own source. If the request has no `source_url`, this is the
    /// URL that the image was fetched from.
    ///
    /// # Errors
    /// [`PipelineError::InvalidOption`] if a source is too long.
    pub fn for_image(
        &self,
        source: Option<String>,
        source_url: Option<String>,
        fetched_from: Option<String>,
    ) -> Result<Self, PipelineError> {
        let mut options = self.clone();
        if source.is_some() {
            options.source = source_text(source)?;
        }
        if source_url.is_some() {
            options.source_url = source_url_text(source_url)?;
        }
        options.source_url = options.source_url.or(fetched_from);
        Ok(options)
    }
}

/// The content of an image file, as the database identifies it.
struct Content<'a> {
    tenant: &'a str,
    hash: ContentHash,
    byte_size: u64,
}

/// The pipeline with the database.
#[derive(Clone)]
pub struct StoredScans {
    /// Scans images.
    pub pipeline: Pipeline,
    /// Stores results.
    pub store: Arc<dyn Store>,
}

impl StoredScans {
    /// Scans one image. Uses the database if the options request it.
    ///
    /// # Errors
    /// An error of the image, of a model or of the server. Returns [`PipelineError::Store`] before any inference if the
    /// database cannot be used.
    pub async fn scan(
        &self,
        context: &RequestContext,
        bytes: Bytes,
        options: &ScanPlan,
    ) -> Result<RunOutput<Scan>, PipelineError> {
        let started = self.pipeline.clock.monotonic();
        if !options.store {
            return self.pipeline.scan(context, bytes, None, options).await;
        }
        let hashed = bytes.clone();
        let hash = self
            .pipeline
            .pool
            .run(Stage::Begin, move || content_hash(&hashed))
            .await?;
        let precision = self.pipeline.models.embedder.current_precision();
        let key = self.scan_key(options, precision);
        if options.cache {
            if let Some(mut stored) = self.stored_answer(context, &hash, &key, options).await? {
                let timings = &mut stored.run.timings;
                timings.cache = millis(self.pipeline.clock.monotonic() - started);
                timings.total = timings.cache;
                return Ok(stored);
            }
        } else {
            self.store.ping().await?;
        }
        let looked_up = self.pipeline.clock.monotonic();
        let content = Content {
            tenant: &context.principal.tenant,
            hash,
            byte_size: bytes.len() as u64,
        };
        let scanned = self
            .pipeline
            .scan(context, bytes, Some(hash), options)
            .await?;
        let saving = self.pipeline.clock.monotonic();
        let precisions =
            Precisions::of(&scanned.result.faces).unwrap_or(Precisions::Same(precision));
        let new_scan = self.new_scan(&scanned, content, options, precisions)?;
        let mut saved = self.save(scanned, new_scan).await?;
        let timings = &mut saved.run.timings;
        timings.cache = millis(looked_up - started);
        timings.store = millis(self.pipeline.clock.monotonic() - saving);
        timings.total = millis(self.pipeline.clock.monotonic() - started);
        Ok(saved)
    }

    /// Returns a digest of everything that decides the content of a scan, except the bytes of the image.
    ///
    /// `precision` is the precision of the embedder.
    fn scan_key(&self, options: &ScanPlan, precision: Option<NumericPrecision>) -> ContentHash {
        // Without `..`, so that the compiler requires a decision for each new option.
        let ScanPlan {
            kind,
            detect,
            quality,
            preset,
            aligned,
            // These decide how the scan is run, stored and written, but not its content.
            landmarks: _,
            crops: _,
            embedding_format: _,
            store: _,
            cache: _,
            source: _,
            source_url: _,
            run: _,
        } = options;
        let models: BTreeMap<_, _> = options
            .operations()
            .into_iter()
            .map(|operation| {
                (
                    operation.name(),
                    self.pipeline.models.key(operation, precision),
                )
            })
            .collect();
        let key = json!({
            "version": PIPELINE_VERSION,
            "operation": kind,
            "models": models,
            "detect": (!aligned).then_some(detect),
            "preset": quality.then_some(preset),
            "aligned": aligned,
            "background": self.pipeline.decoding.background,
        });
        Sha256::digest(key.to_string()).into()
    }

    async fn stored_answer(
        &self,
        context: &RequestContext,
        hash: &ContentHash,
        key: &ContentHash,
        options: &ScanPlan,
    ) -> Result<Option<RunOutput<Scan>>, PipelineError> {
        let Some(found) = self
            .store
            .find_scan(&context.principal.tenant, hash, key)
            .await?
        else {
            return Ok(None);
        };
        let image_id = found.image.id;
        let stored = Scan::from_stored(found);
        if let (Some(_), Some(source)) = (&stored, self.source(options)) {
            let is_there = self
                .store
                .add_source(&context.principal.tenant, image_id, &source);
            if !is_there.await? {
                // The image was erased in the meantime. Erased results are not returned.
                return Ok(None);
            }
        }
        Ok(stored)
    }

    fn source(&self, options: &ScanPlan) -> Option<Source> {
        (options.source.is_some() || options.source_url.is_some()).then(|| Source {
            id: options.source.clone(),
            url: options.source_url.clone(),
            seen_at: self.pipeline.clock.now(),
        })
    }

    /// Converts a scan for the database.
    fn new_scan(
        &self,
        scanned: &RunOutput<Scan>,
        content: Content<'_>,
        options: &ScanPlan,
        precisions: Precisions,
    ) -> Result<NewScan, PipelineError> {
        let scan = &scanned.result;
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
            source: self.source(options),
            id: self.pipeline.clock.new_id(),
            // A row may have run on another device than expected at the lookup.
            scan_key: self.scan_key(options, precisions.first()),
            operation: options.kind.name().to_owned(),
            detector: (!options.aligned)
                .then(|| model_file(&self.pipeline.models.detector.spec))
                .transpose()?,
            embedder: (options.kind == ScanKind::Embed).then(|| facescan_store::Embedder {
                id: self.pipeline.models.embedder.spec().id.clone(),
                contract: self.pipeline.models.embedder.contract.clone(),
            }),
            picture_quality: scan.picture_quality.as_ref().map(to_value).transpose()?,
            devices: Some(to_value(&scanned.run.devices)?),
            // A request for one precision must not get vectors of several precisions.
            answers_cache: matches!(precisions, Precisions::Same(_)),
            created_at: self.pipeline.clock.now(),
            faces: faces.collect::<Result<_, _>>()?,
        })
    }

    async fn save(
        &self,
        mut scanned: RunOutput<Scan>,
        new_scan: NewScan,
    ) -> Result<RunOutput<Scan>, PipelineError> {
        let ids: Vec<_> = new_scan.faces.iter().map(|face| face.id).collect();
        let saved = self.store.save_scan(new_scan).await?;
        let kept_id = saved.image_id();
        let scan = &mut scanned.result;
        scan.image_id = Some(kept_id);
        match saved {
            SavedScan::Written { .. } => {
                for (face, id) in scan.faces.iter_mut().zip(ids) {
                    face.id = Some(id);
                }
            }
            // Another request stored the same scan first. Only its faces can be read and erased.
            SavedScan::Kept(kept) => {
                let devices = read_back(kept.devices).flatten().unwrap_or_default();
                let kept: Option<Vec<_>> = kept.faces.into_iter().map(Face::from_stored).collect();
                match kept {
                    Some(kept) if kept.len() == scan.faces.len() => {
                        let crops = std::mem::take(&mut scan.faces)
                            .into_iter()
                            .map(|face| face.crop);
                        scan.faces = kept
                            .into_iter()
                            .zip(crops)
                            .map(|(face, crop)| Face { crop, ..face })
                            .collect();
                        scanned.run.devices = devices;
                    }
                    _ => tracing::warn!(
                        image_id = %kept_id,
                        "this version cannot read a stored scan; the faces of the answer have no ids"
                    ),
                }
            }
        }
        Ok(scanned)
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
            // The registry allows remote models only for whole images, whose vectors are not stored.
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

/// The precisions of the vectors of a scan.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Precisions {
    /// All vectors have this precision.
    Same(Option<NumericPrecision>),
    /// The first vector has this precision, and another vector has another one.
    Mixed(Option<NumericPrecision>),
}

impl Precisions {
    /// Returns the precisions of the vectors of `faces`, or `None` if no face has a vector.
    fn of(faces: &[Face]) -> Option<Self> {
        let embeddings = faces.iter().filter_map(|face| face.embedding.as_ref());
        let mut precisions = embeddings.map(|embedding| embedding.precision);
        let first = precisions.next()?;
        Some(if precisions.all(|other| other == first) {
            Self::Same(first)
        } else {
            Self::Mixed(first)
        })
    }

    fn first(self) -> Option<NumericPrecision> {
        match self {
            Self::Same(first) | Self::Mixed(first) => first,
        }
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

/// Converts a result to JSON.
fn to_value(value: &impl Serialize) -> Result<Value, PipelineError> {
    // A direct conversion turns each `f32` into an `f64`, so 0.53 would be stored as 0.5299999713897705.
    Ok(serde_json::from_slice(&serde_json::to_vec(value)?)?)
}

impl Scan {
    /// Converts a stored scan and the devices that ran it. Returns `None` if another version wrote other fields.
    fn from_stored(found: CachedScan) -> Option<RunOutput<Self>> {
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
fn read_back<T: DeserializeOwned>(stored: Option<Value>) -> Option<Option<T>> {
    match stored {
        None => Some(None),
        Some(value) => serde_json::from_value(value).ok().map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
