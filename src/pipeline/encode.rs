//! Computes vectors of whole images with the registry's encoder.

use std::{sync::Arc, time::Duration};

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
        detect::Pixels,
        embed::{Embedding, normalise},
        fan_out::ImageOperation,
        options::ScanRequest,
        preprocess::RowJob,
        run::{ImageRun, RunOutput},
        scan::{content_hash, image_info, millis},
        stored::StoredScans,
    },
};
use facescan_imaging::{
    decode::decode_within,
    precision::NumericPrecision,
    preprocess::{Layout, Preprocess},
    tensor::ChannelOrder,
};
use facescan_inference::{
    device::DeviceRun,
    engine::{Engine, Pending, RowOutput},
    image_executor::ImageExecutor,
    operation::Operation,
    placement::Provider,
    registry::{ModelSpec, Pooling},
    tensor::Tensor,
};

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
pub struct EncodePlan {
    /// The format of vectors in the answer.
    pub embedding_format: EmbeddingFormat,
    /// Whether a fallback to another device is an error.
    pub strict_device: bool,
    /// Whether results have timings.
    pub timings: bool,
}

impl EncodePlan {
    /// Fills in the defaults.
    ///
    /// # Errors
    /// [`PipelineError::InvalidOption`] if an option applies to faces or to the database.
    pub fn resolve(asked: ScanRequest, config: &Config) -> Result<Self, PipelineError> {
        let plan = Self {
            embedding_format: asked.embedding_format.unwrap_or(config.embedding.format),
            strict_device: asked.strict_device.unwrap_or(false),
            timings: asked.timings.unwrap_or(false),
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

/// The encoder's engine. Cheap to clone.
#[derive(Clone)]
pub struct Encoder {
    /// The model.
    pub spec: Arc<ModelSpec>,
    /// The contract of its vectors.
    pub contract: String,
    /// The length of its vectors.
    pub dim: usize,
    engine: Engine,
    preprocess: Preprocess,
}

/// The row of an image that waits for the encoder.
pub(crate) struct PendingVector {
    /// The future output of the row.
    pub pending: Pending,
    /// The device that made the row.
    pub processed: DeviceRun,
    /// The time that the job waited for that device.
    pub queued: Duration,
}

/// The vector of a whole image, and its times.
pub(crate) struct EncodedPicture {
    /// The vector, of length 1. `None` if the model's output has no direction.
    pub embedding: Option<Embedding>,
    /// Time spent waiting for a session.
    pub queued: Duration,
    /// The device that ran the row.
    pub run: DeviceRun,
}

impl Encoder {
    /// Creates an encoder that runs `spec` on `engine`.
    pub fn new(spec: Arc<ModelSpec>, engine: Engine) -> Self {
        Self {
            contract: spec.contract(),
            dim: spec.dim.unwrap_or(0),
            preprocess: spec.input.preprocess(),
            spec,
            engine,
        }
    }

    /// Writes the row of an image and commits it. A device makes the row if there is one. The pool must drive this
    /// future.
    pub(crate) async fn submit_through<P: Pixels>(
        &self,
        executor: &ImageExecutor,
        picture: &Arc<P>,
    ) -> PendingVector {
        let job = RowJob::new(picture, &self.preprocess);
        let shape = self.spec.input.row_shape();
        let order = self.spec.input.channel_order;
        if !(executor.has_device() && job.has_graph()) {
            let mut row = self.engine.claim(&shape);
            let pixels = picture.as_ref().borrow();
            self.preprocess.write(pixels, row.values());
            reorder(row.values(), self.preprocess.layout, order);
            return PendingVector {
                pending: row.commit_last(),
                processed: DeviceRun::CPU,
                queued: Duration::ZERO,
            };
        }
        let done = executor.run(Arc::new(job)).await;
        // Claimed only after the device has run, because an unwritten row delays the other rows of its batch buffer.
        let mut row = self.engine.claim(&shape);
        row.values().copy_from_slice(&done.output);
        reorder(row.values(), self.preprocess.layout, order);
        PendingVector {
            pending: row.commit(),
            processed: done.run,
            queued: done.queued,
        }
    }

    /// Waits for the vector.
    ///
    /// # Errors
    /// The error of the engine, or [`PipelineError::UnexpectedOutput`] if the vector does not have the length in the
    /// registry.
    pub(crate) async fn finish(&self, pending: Pending) -> Result<EncodedPicture, PipelineError> {
        let output = pending.await.map_err(|error| match &self.spec.remote {
            // The log has the error of the model server.
            Some(_) => PipelineError::DeviceUnavailable {
                operation: Operation::ImageEmbedding.name(),
                requested: Provider::Kserve.name().to_owned(),
                reason: "the model server did not answer; send the request again later".to_owned(),
            },
            None => error.into(),
        })?;
        let vector = self.vector(&output).ok_or_else(|| {
            let (id, dim) = (&self.spec.id, self.dim);
            PipelineError::UnexpectedOutput(format!(
                "the encoder {id} did not return a vector of {dim} values"
            ))
        })?;
        Ok(EncodedPicture {
            embedding: normalise(&vector, output.ran_on.numeric_precision()),
            queued: output.queued,
            run: output.device_run(),
        })
    }

    /// Returns the vector of the image in the output.
    fn vector(&self, output: &RowOutput) -> Option<Vec<f32>> {
        let outputs = &output.outputs;
        let named = |name: &String| outputs.iter().find(|tensor| tensor.name == *name);
        let tensor: &Tensor = match &self.spec.output {
            Some(name) => named(name)?,
            None => outputs.first()?,
        };
        pool_tokens(tensor.row(output.row), self.spec.pooling, self.dim)
    }
}

/// Pools the tokens of an output row into one vector of `dim` values. Returns `None` if the row has another length.
fn pool_tokens(row: &[f32], pooling: Option<Pooling>, dim: usize) -> Option<Vec<f32>> {
    let tokens = row.chunks_exact(dim.max(1));
    match pooling {
        _ if row.is_empty() || !tokens.remainder().is_empty() => None,
        None => (row.len() == dim).then(|| row.to_vec()),
        Some(Pooling::First) => row.get(..dim).map(<[f32]>::to_vec),
        Some(Pooling::Mean) => {
            let count = tokens.len() as f32;
            let mut sum = vec![0.0; dim];
            for token in tokens {
                for (sum, value) in sum.iter_mut().zip(token) {
                    *sum += value;
                }
            }
            Some(sum.into_iter().map(|sum| sum / count).collect())
        }
    }
}

/// Changes a row of red, green and blue to the channel order of the model.
fn reorder(row: &mut [f32], layout: Layout, order: ChannelOrder) {
    match (order, layout) {
        (ChannelOrder::Rgb, _) => {}
        (ChannelOrder::Bgr, Layout::Nchw) => {
            let (red, rest) = row.split_at_mut(row.len() / 3);
            let (_, blue) = rest.split_at_mut(rest.len() / 2);
            red.swap_with_slice(blue);
        }
        (ChannelOrder::Bgr, Layout::Nhwc) => {
            for pixel in row.chunks_exact_mut(3) {
                pixel.swap(0, 2);
            }
        }
    }
}

/// The vector of a whole image.
pub struct Encoded {
    /// The properties of the image.
    pub image: ImageInfo,
    /// The vector. `None` if the model's output has no direction.
    pub embedding: Option<Embedding>,
}

/// The result of `/embed?kind=image` for one image.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct EncodeResult {
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

impl EncodeResult {
    /// Converts a vector by the options of `plan`.
    pub fn new(encoded: Encoded, plan: &EncodePlan) -> Self {
        let found = encoded.embedding.as_ref();
        let written =
            |found: &Embedding| EmbeddingAnswer::new(&found.vector, plan.embedding_format);
        Self {
            image: encoded.image,
            embedding: found.map(written),
            embedding_norm: found.map(|found| found.norm),
            precision: found.and_then(|found| found.precision),
        }
    }
}

impl ImageOperation for EncodePlan {
    type Output = Encoded;

    fn operations(&self) -> Vec<Operation> {
        vec![Operation::ImageEmbedding]
    }

    fn strict_device(&self) -> bool {
        self.strict_device
    }

    fn reports_timings(&self) -> bool {
        self.timings
    }

    fn check(&self, pipeline: &Pipeline) -> Result<(), PipelineError> {
        pipeline.encoder()?;
        pipeline.check_strict(self.strict_device, &self.operations())?;
        pipeline.check_platform(self.strict_device)
    }

    async fn run(
        &self,
        scans: &StoredScans,
        context: &RequestContext,
        image: LoadedImage,
    ) -> Result<RunOutput<Encoded>, PipelineError> {
        scans.pipeline.encode(context, image.bytes, self).await
    }
}

impl Pipeline {
    /// Returns the encoder of whole images.
    ///
    /// # Errors
    /// [`PipelineError::InvalidOption`] if the settings name no encoder.
    pub fn encoder(&self) -> Result<&Encoder, PipelineError> {
        self.encoder.as_ref().ok_or_else(|| {
            let detail =
                "`image` needs an encoder; set models.encoder to an encoder of the registry";
            PipelineError::invalid_option("kind", detail)
        })
    }

    /// Embeds one whole image.
    ///
    /// # Errors
    /// An error of the image, of the model or of the server.
    pub async fn encode(
        &self,
        context: &RequestContext,
        bytes: Bytes,
        plan: &EncodePlan,
    ) -> Result<RunOutput<Encoded>, PipelineError> {
        let started = self.clock.monotonic();
        let encoder = self.encoder()?.clone();
        let work = move |pipeline: Self, mut run| async move {
            let submitted = pipeline.submit_now(&encoder, bytes, &mut run).await?;
            Ok((submitted, run))
        };
        let output = self.drive(context, plan.strict_device, work).await?;
        let ((image, submitted), mut run) = (output.result, output.run);
        self.record_preprocessing(&mut run, submitted.processed)?;
        // The permit is released here, because the row has all that the model needs. A remote server can take long.
        let began = self.clock.monotonic();
        let encoded = self.encoder()?.finish(submitted.pending).await?;
        self.record(&mut run, Operation::ImageEmbedding, encoded.run)?;
        let queued = encoded
            .queued
            .min(self.clock.monotonic().saturating_sub(began));
        run.timings.queue += millis(queued);
        run.timings.embed = self.since(began + queued);
        run.timings.total = self.since(started);
        let result = Encoded {
            image,
            embedding: encoded.embedding,
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
        let picture = decode_within(&bytes, &self.decoding, &self.memory)?;
        let image = image_info(&picture, content_hash(&bytes));
        drop(bytes);
        let pixels = PooledImage::new(picture.pixels, self);
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
    fn tokens_become_one_vector() {
        let tokens = [1.0, 2.0, 3.0, 6.0, 5.0, 1.0];
        let pool = |pooling, dim| pool_tokens(&tokens, pooling, dim);
        assert_eq!(pool(Some(Pooling::First), 2), Some(vec![1.0, 2.0]));
        assert_eq!(pool(Some(Pooling::Mean), 2), Some(vec![3.0, 3.0]));
        assert_eq!(pool(None, 6), Some(tokens.to_vec()));
        assert_eq!(pool(None, 2), None);
        assert_eq!(pool(Some(Pooling::Mean), 4), None);
        assert_eq!(pool_tokens(&[], Some(Pooling::First), 2), None);
    }

    #[test]
    fn channels_follow_the_order_of_the_model() {
        let mut planes = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        reorder(&mut planes, Layout::Nchw, ChannelOrder::Bgr);
        assert_eq!(planes, [5.0, 6.0, 3.0, 4.0, 1.0, 2.0]);
        reorder(&mut planes, Layout::Nhwc, ChannelOrder::Bgr);
        assert_eq!(planes, [3.0, 6.0, 5.0, 2.0, 1.0, 4.0]);
        reorder(&mut planes, Layout::Nhwc, ChannelOrder::Rgb);
        assert_eq!(planes[0], 3.0);
    }

    #[test]
    fn options_about_faces_are_rejected_by_name() {
        let (config, _) = Config::load(&crate::config::Sources::default()).unwrap();
        let resolve = |asked: ScanRequest| EncodePlan::resolve(asked, &config);
        let usual = ScanRequest {
            kind: Some(EmbedKind::Image),
            store: Some(false),
            timings: Some(true),
            ..ScanRequest::default()
        };
        assert!(resolve(usual.clone()).unwrap().timings);
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
