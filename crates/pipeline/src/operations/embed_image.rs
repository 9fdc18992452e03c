//! `/embed?kind=image`: the vectors of whole images.

use facescan_config::{Config, EmbeddingFormat};
use facescan_imaging::phash::perceptual_hash;
use facescan_inference::device_task::DeviceTask;

use super::scan::request::ScanRequest;
use crate::{
    Pipeline,
    core::{
        error::PipelineError,
        memory,
        options::{RunRequest, StorageOptions, StorageRequest},
        run::{ImageRun, RunOptions, millis},
        scan::Scan,
        work::{self, Size},
    },
    ingest::intake::LoadedImage,
    models::{
        encoder::{Encoder, PendingVector},
        preprocessing::PREPROCESSING,
    },
    operation::Operation,
    plan::{Plan, StoredAs},
};

/// The options for embedding whole images, with every default filled in.
#[derive(Clone, Debug)]
pub struct ImageEmbeddingPlan {
    /// The format of vectors in the response.
    pub embedding_format: EmbeddingFormat,
    /// How results are stored.
    pub storage: StorageOptions,
    /// The options of the run.
    pub run: RunOptions,
}

impl ImageEmbeddingPlan {
    /// Fills in the defaults. The options were read, or are [`checked`](facescan_fields::groups::checked).
    ///
    /// # Errors
    /// [`PipelineError::InvalidOption`] if an option applies to faces, or if a source is too long.
    pub fn resolve(asked: &mut ScanRequest, config: &Config) -> Result<Self, PipelineError> {
        let rest = ScanRequest {
            kind: None,
            embedding_format: None,
            storage: StorageRequest::default(),
            run: RunRequest::default(),
            ..asked.clone()
        };
        if let Some(option) = rest.first_set() {
            return Err(PipelineError::invalid_option(
                &option,
                "applies to faces only; leave it out with kind=image",
            ));
        }
        Ok(Self {
            embedding_format: *asked
                .embedding_format
                .get_or_insert(config.embedding.format),
            storage: asked.storage.resolve(&config.store)?,
            run: asked.run.resolve(),
        })
    }
}

impl Plan for ImageEmbeddingPlan {
    type Output = Scan;

    fn operation(&self) -> Operation {
        Operation::Embed
    }

    fn tasks(&self) -> Vec<DeviceTask> {
        vec![DeviceTask::ImageEmbedding]
    }

    fn run_options(&self) -> RunOptions {
        self.run
    }

    // No option decides the vector, so `key_options` has none.
    fn stored(&self) -> Option<StoredAs<'_, Scan>> {
        Some(StoredAs::of_scan("embed_image", &self.storage))
    }

    fn check(&self, pipeline: &Pipeline) -> Result<(), PipelineError> {
        pipeline.models.check(&self.tasks())?;
        pipeline.check_strict(self.run.strict_device, &self.tasks())?;
        pipeline.check_platform(self.run.strict_device)
    }

    fn memory(&self, size: Size) -> u64 {
        memory::decoding(size)
    }

    async fn run(
        &self,
        pipeline: &Pipeline,
        file: LoadedImage,
        run: &mut ImageRun,
    ) -> Result<Scan, PipelineError> {
        let encoder = pipeline.models.encoder()?;
        let (mut scan, submitted) = self.submit(pipeline, encoder, file, run).await?;
        // The row has all that the model needs, and a remote server can take long.
        run.release_permit();
        let assignment = &pipeline.preprocessing.assignment;
        run.record(PREPROCESSING, assignment, submitted.processed)?;
        let began = pipeline.clock.monotonic();
        let output = encoder.finish(submitted.pending).await?;
        pipeline.record(run, DeviceTask::ImageEmbedding, output.run)?;
        let queued = output
            .queued
            .min(pipeline.clock.monotonic().saturating_sub(began));
        run.timings.queue += millis(queued);
        run.timings.embed = pipeline.since(began + queued);
        scan.embedding = output.embedding;
        Ok(scan)
    }
}

impl ImageEmbeddingPlan {
    /// Decodes an image and submits its row. Returns the result without its vector.
    async fn submit(
        &self,
        pipeline: &Pipeline,
        encoder: &Encoder,
        file: LoadedImage,
        run: &mut ImageRun,
    ) -> Result<(Scan, PendingVector), PipelineError> {
        let price = |size| work::pixels(size) * work::DECODE + encoder.work(size);
        run.work.limit().check_file(&file.bytes, price)?;
        let (image, pixels) = pipeline.open(file, run, price).await?;
        let began = pipeline.clock.monotonic();
        let hint = self.storage.store.then(|| perceptual_hash(&pixels));
        run.timings.decode += pipeline.since(began);
        let scan = Scan {
            image_id: None,
            cached: false,
            image,
            perceptual_hash: hint.flatten(),
            picture_quality: None,
            faces: Vec::new(),
            embedding: None,
        };
        let began = pipeline.clock.monotonic();
        let submitted = encoder
            .submit_through(&pipeline.preprocessing.executor, &pixels)
            .await;
        run.timings.queue += millis(submitted.queued);
        run.timings.process = pipeline.since(began + submitted.queued);
        Ok((scan, submitted))
    }
}
