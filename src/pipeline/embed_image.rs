//! `/embed?kind=image`: the vectors of whole images.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    config::{Config, EmbeddingFormat},
    context::RequestContext,
    ingest::intake::LoadedImage,
    pipeline::error::PipelineError,
    pipeline::{
        Pipeline, PooledImage,
        answer::{EmbeddingAnswer, ImageInfo},
        fan_out::ImageOperation,
        models::{
            embedder::Embedding,
            encoder::{Encoder, PendingVector},
        },
        options::ScanRequest,
        run::{ImageRun, RunOptions, RunOutput},
        scan::{content_hash, image_info, millis},
        stored::StoredScans,
    },
};
use facescan_imaging::{decode::decode_within, precision::NumericPrecision};
use facescan_inference::operation::Operation;

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
    /// The options of the run.
    pub run: RunOptions,
}

impl ImageEmbeddingPlan {
    /// Fills in the defaults.
    ///
    /// # Errors
    /// [`PipelineError::InvalidOption`] if an option applies to faces or to the database.
    pub fn resolve(asked: ScanRequest, config: &Config) -> Result<Self, PipelineError> {
        let plan = Self {
            embedding_format: asked.embedding_format.unwrap_or(config.embedding.format),
            run: RunOptions::new(asked.strict_device, asked.timings),
        };
        let rest = ScanRequest {
            kind: None,
            embedding_format: None,
            priority: None,
            strict_device: None,
            timings: None,
            // `store=false` is allowed, because nothing is stored anyway.
            store: asked.store.filter(|store| *store),
            ..asked
        };
        match rest.first_set() {
            None => Ok(plan),
            Some(option) if option == "store" => Err(PipelineError::invalid_option(
                "store",
                "vectors of whole images are not stored; leave it out or send false",
            )),
            Some(option) => Err(PipelineError::invalid_option(
                &option,
                "applies to faces only; leave it out with kind=image",
            )),
        }
    }
}

/// The vector of a whole image.
pub struct ImageEmbedding {
    /// The properties of the image.
    pub image: ImageInfo,
    /// The vector. `None` if the model's output has no direction.
    pub embedding: Option<Embedding>,
}

/// The result of `/embed?kind=image` for one image.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = EncodeResult)]
pub struct ImageEmbeddingResult {
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
    pub fn new(embedded: ImageEmbedding, plan: &ImageEmbeddingPlan) -> Self {
        let found = embedded.embedding.as_ref();
        let written =
            |found: &Embedding| EmbeddingAnswer::new(&found.vector, plan.embedding_format);
        Self {
            image: embedded.image,
            embedding: found.map(written),
            embedding_norm: found.map(|found| found.norm),
            precision: found.and_then(|found| found.precision),
        }
    }
}

impl ImageOperation for ImageEmbeddingPlan {
    type Output = ImageEmbedding;

    fn name(&self) -> &'static str {
        "embed"
    }

    fn operations(&self) -> Vec<Operation> {
        vec![Operation::ImageEmbedding]
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
    ) -> Result<RunOutput<ImageEmbedding>, PipelineError> {
        scans.pipeline.embed_image(context, image.bytes, self).await
    }
}

impl Pipeline {
    /// Embeds one whole image.
    ///
    /// # Errors
    /// An error of the image, of the model or of the server.
    pub async fn embed_image(
        &self,
        context: &RequestContext,
        bytes: Bytes,
        plan: &ImageEmbeddingPlan,
    ) -> Result<RunOutput<ImageEmbedding>, PipelineError> {
        let started = self.clock.monotonic();
        let encoder = self.models.encoder()?.clone();
        let work = move |pipeline: Self, mut run| async move {
            let submitted = pipeline.submit_now(&encoder, bytes, &mut run).await?;
            Ok((submitted, run))
        };
        let RunOutput { result, mut run } =
            self.drive(context, plan.run.strict_device, work).await?;
        let (image, submitted) = result;
        self.record_preprocessing(&mut run, submitted.processed)?;
        // The permit is released here, because the row has all that the model needs. A remote server can take long.
        let began = self.clock.monotonic();
        let output = self.models.encoder()?.finish(submitted.pending).await?;
        self.record(&mut run, Operation::ImageEmbedding, output.run)?;
        let queued = output
            .queued
            .min(self.clock.monotonic().saturating_sub(began));
        run.timings.queue += millis(queued);
        run.timings.embed = self.since(began + queued);
        run.timings.total = self.since(started);
        let result = ImageEmbedding {
            image,
            embedding: output.embedding,
        };
        Ok(RunOutput { result, run })
    }

    /// Decodes an image and submits its row.
    async fn submit_now(
        &self,
        encoder: &Encoder,
        bytes: Bytes,
        run: &mut ImageRun,
    ) -> Result<(ImageInfo, PendingVector), PipelineError> {
        let began = self.clock.monotonic();
        let decoded = decode_within(&bytes, &self.decoding, &self.memory)?;
        let image = image_info(&decoded, content_hash(&bytes));
        drop(bytes);
        let pixels = PooledImage::new(decoded.pixels, self);
        run.timings.decode = self.since(began);
        let began = self.clock.monotonic();
        let submitted = encoder
            .submit_through(&self.preprocessing.executor, &pixels)
            .await;
        run.timings.queue += millis(submitted.queued);
        run.timings.process = self.since(began + submitted.queued);
        Ok((image, submitted))
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
        assert!(
            resolve(stored)
                .unwrap_err()
                .to_string()
                .contains("not stored")
        );
    }
}
