//! `/embed?kind=image`: the vectors of whole images.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::{
    config::{Config, EmbeddingFormat},
    context::RequestContext,
    ingest::intake::LoadedImage,
    pipeline::error::PipelineError,
    pipeline::{
        Pipeline, PooledImage,
        answer::{EmbeddingAnswer, ImageInfo},
        fan_out::ImageOperation,
        memory,
        models::{
            embedder::Embedding,
            encoder::{Encoder, PendingVector},
        },
        options::{ScanRequest, StorageOptions, source_text, source_url_text},
        run::{ImageRun, RunOptions, RunOutput},
        scan::{ContentHash, Scan, content_hash, image_info, millis},
        stored::{StoredPlan, StoredScans},
        work,
    },
};
use facescan_imaging::{phash::perceptual_hash, precision::NumericPrecision};
use facescan_inference::device_task::DeviceTask;

/// The subject of the vectors of `/embed`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum EmbedKind {
    /// Each face.
    #[default]
    Face,
    /// The whole image.
    Image,
}

/// The options for embedding whole images, with every default filled in.
#[derive(Clone, Debug)]
pub struct ImageEmbeddingPlan {
    /// The format of vectors in the answer.
    pub embedding_format: EmbeddingFormat,
    /// How results are stored.
    pub storage: StorageOptions,
    /// The options of the run.
    pub run: RunOptions,
}

impl ImageEmbeddingPlan {
    /// Fills in the defaults.
    ///
    /// # Errors
    /// [`PipelineError::InvalidOption`] if an option applies to faces, or if a source is too long.
    pub fn resolve(asked: ScanRequest, config: &Config) -> Result<Self, PipelineError> {
        let store = asked.store.unwrap_or(config.store.enabled);
        let plan = Self {
            embedding_format: asked.embedding_format.unwrap_or(config.embedding.format),
            storage: StorageOptions {
                store,
                cache: asked.cache.unwrap_or(config.store.cache) && store,
                source: source_text(asked.source.clone())?,
                source_url: source_url_text(asked.source_url.clone())?,
            },
            run: RunOptions::new(asked.strict_device, asked.timings),
        };
        let rest = ScanRequest {
            kind: None,
            embedding_format: None,
            priority: None,
            strict_device: None,
            timings: None,
            store: None,
            cache: None,
            source: None,
            source_url: None,
            ..asked
        };
        match rest.first_set() {
            None => Ok(plan),
            Some(option) => Err(PipelineError::invalid_option(
                &option,
                "applies to faces only; leave it out with kind=image",
            )),
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
    /// The L2-normalised vector. Absent if the model's output has no direction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub embedding: Option<EmbeddingAnswer>,
    /// The length of the vector before normalisation.
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
            |found: &Embedding| EmbeddingAnswer::new(&found.vector, plan.embedding_format);
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

impl ImageOperation for ImageEmbeddingPlan {
    type Output = Scan;

    fn name(&self) -> &'static str {
        "embed"
    }

    fn operations(&self) -> Vec<DeviceTask> {
        vec![DeviceTask::ImageEmbedding]
    }

    fn run_options(&self) -> RunOptions {
        self.run
    }

    fn check(&self, pipeline: &Pipeline) -> Result<(), PipelineError> {
        pipeline.models.check(&self.operations())?;
        pipeline.check_strict(self.run.strict_device, &self.operations())?;
        pipeline.check_platform(self.run.strict_device)
    }

    async fn run(
        &self,
        scans: &StoredScans,
        context: &RequestContext,
        image: LoadedImage,
    ) -> Result<RunOutput<Scan>, PipelineError> {
        let plan = self.for_image(image.source, image.source_url, image.url)?;
        scans.run(context, image.bytes, &plan).await
    }
}

impl StoredPlan for ImageEmbeddingPlan {
    fn storage(&self) -> &StorageOptions {
        &self.storage
    }

    fn with_storage(&self, storage: StorageOptions) -> Self {
        Self {
            storage,
            ..self.clone()
        }
    }

    fn operation_name(&self) -> &'static str {
        "embed_image"
    }

    fn key_options(&self) -> serde_json::Value {
        // No option decides the vector.
        serde_json::Value::Null
    }

    fn taking_part(&self) -> Vec<DeviceTask> {
        self.operations()
    }

    fn embedding_operation(&self) -> Option<DeviceTask> {
        Some(DeviceTask::ImageEmbedding)
    }

    fn current_precision(&self, pipeline: &Pipeline) -> Option<NumericPrecision> {
        let encoder = pipeline.models.encoder().ok()?;
        encoder.current_precision()
    }

    fn detects(&self) -> bool {
        false
    }

    async fn run_unstored(
        &self,
        pipeline: &Pipeline,
        context: &RequestContext,
        bytes: Bytes,
        hash: Option<ContentHash>,
    ) -> Result<RunOutput<Scan>, PipelineError> {
        pipeline.embed_image(context, bytes, hash, self).await
    }
}

impl Pipeline {
    /// Embeds one whole image without the database. `hash` is the hash of the bytes, if it is already computed.
    ///
    /// # Errors
    /// An error of the image, of the model or of the server.
    pub async fn embed_image(
        &self,
        context: &RequestContext,
        bytes: Bytes,
        hash: Option<ContentHash>,
        plan: &ImageEmbeddingPlan,
    ) -> Result<RunOutput<Scan>, PipelineError> {
        let started = self.clock.monotonic();
        let encoder = self.models.encoder()?.clone();
        let is_stored = plan.storage.store;
        let memory = self.memory_of(&bytes, memory::decoding);
        let work = move |pipeline: Self, mut run| async move {
            let image = (bytes, hash, is_stored);
            let submitted = pipeline.submit_now(&encoder, image, &mut run).await?;
            Ok((submitted, run))
        };
        let RunOutput { result, mut run } = self
            .drive(context, plan.run.strict_device, memory, work)
            .await?;
        let (mut scan, submitted) = result;
        self.record_preprocessing(&mut run, submitted.processed)?;
        // The permit is released here, because the row has all that the model needs. A remote server can take long.
        let began = self.clock.monotonic();
        let output = self.models.encoder()?.finish(submitted.pending).await?;
        self.record(&mut run, DeviceTask::ImageEmbedding, output.run)?;
        let queued = output
            .queued
            .min(self.clock.monotonic().saturating_sub(began));
        run.timings.queue += millis(queued);
        run.timings.embed = self.since(began + queued);
        run.timings.total = self.since(started);
        scan.embedding = output.embedding;
        Ok(RunOutput { result: scan, run })
    }

    /// Decodes an image and submits its row. Returns the result without its vector.
    async fn submit_now(
        &self,
        encoder: &Encoder,
        (bytes, hash, is_stored): (Bytes, Option<ContentHash>, bool),
        run: &mut ImageRun,
    ) -> Result<(Scan, PendingVector), PipelineError> {
        let price = |size| work::pixels(size) * work::DECODE + encoder.work(size);
        run.work.limit().check_file(&bytes, price)?;
        let began = self.clock.monotonic();
        let decoded = self.decode(&bytes, None).await?;
        run.work.add(price(decoded.size))?;
        let hash = hash.unwrap_or_else(|| content_hash(&bytes));
        let scan = Scan {
            image_id: None,
            cached: false,
            image: image_info(&decoded, hash),
            perceptual_hash: is_stored
                .then(|| perceptual_hash(&decoded.pixels))
                .flatten(),
            picture_quality: None,
            faces: Vec::new(),
            embedding: None,
        };
        drop(bytes);
        let pixels = PooledImage::new(decoded.pixels, self);
        run.timings.decode = self.since(began);
        run.count_pixels(&scan.image);
        let began = self.clock.monotonic();
        let submitted = encoder
            .submit_through(&self.preprocessing.executor, &pixels)
            .await;
        run.timings.queue += millis(submitted.queued);
        run.timings.process = self.since(began + submitted.queued);
        Ok((scan, submitted))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_about_faces_are_rejected_by_name() {
        let (config, _) = Config::load(&crate::config::Sources::default()).unwrap();
        let resolve = |asked: ScanRequest| ImageEmbeddingPlan::resolve(asked, &config);
        let usual = ScanRequest {
            kind: Some(EmbedKind::Image),
            store: Some(false),
            timings: Some(true),
            ..ScanRequest::default()
        };
        assert!(resolve(usual.clone()).unwrap().run.timings);
        let faces = ScanRequest {
            max_faces: Some(1),
            ..usual.clone()
        };
        let said = resolve(faces).unwrap_err().to_string();
        assert!(
            said.contains("max_faces") && said.contains("applies to faces only"),
            "{said}"
        );
        let stored = ScanRequest {
            store: Some(true),
            ..usual
        };
        assert!(resolve(stored).unwrap().storage.store);
    }
}
