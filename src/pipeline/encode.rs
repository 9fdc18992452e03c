//! Whole pictures into vectors, by the registry's encoder.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    config::{Config, EmbeddingFormat},
    context::RequestContext,
    pipeline::error::PipelineError,
    pipeline::{
        Pipeline, PooledImage,
        answer::{EmbeddingAnswer, ImageInfo, Timings},
        detect::Pixels,
        embed::{Embedding, normalise},
        options::ScanRequest,
        preprocess::Filling,
        scan::{content_hash, image_info, millis},
    },
};
use facescan_imaging::{
    decode::decode_within,
    precision::NumericPrecision,
    preprocess::{Layout, Preprocess},
    tensor::ChannelOrder,
};
use facescan_inference::{
    engine::{Engine, Pending, RowOutput},
    health::Fault,
    image_executor::ImageExecutor,
    operation::Operation,
    placement::Provider,
    registry::{ModelSpec, Pooling},
    tensor::Tensor,
};

/// What `/embed` makes vectors of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum EmbedKind {
    /// Each face.
    #[default]
    Face,
    /// The whole picture.
    Image,
}

/// How whole pictures are embedded, with every default filled in.
#[derive(Clone, Debug)]
pub struct EncodePlan {
    /// How vectors are written.
    pub embedding_format: EmbeddingFormat,
    /// Whether falling back to another device is an error.
    pub strict_device: bool,
    /// Whether results carry timings.
    pub timings: bool,
}

/// The operation that takes part, besides preprocessing.
pub const OPERATIONS: [Operation; 1] = [Operation::ImageEmbedding];

impl EncodePlan {
    /// Fills in the defaults.
    ///
    /// # Errors
    /// [`PipelineError::InvalidOption`] naming an option that is about faces or the database, neither of which takes part.
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
            // What a caller may say of what is done anyway.
            store: asked.store.filter(|store| *store),
            ..asked
        };
        match rest.first_set() {
            None => Ok(plan),
            Some(option) if option == "store" => Err(PipelineError::invalid_option(
                "store",
                "vectors of whole pictures are not stored; leave it out or send false",
            )),
            Some(option) => Err(PipelineError::invalid_option(
                &option,
                "is for faces; leave it out with kind=image",
            )),
        }
    }
}

/// The encoder's engine. Cheap to clone.
#[derive(Clone)]
pub struct Encoder {
    /// The model.
    pub spec: Arc<ModelSpec>,
    /// The contract its vectors carry.
    pub contract: String,
    /// Length of its vectors.
    pub dim: usize,
    engine: Engine,
    preprocess: Preprocess,
}

/// A picture on its way through the encoder.
pub(crate) struct PendingVector {
    /// Its answer to come.
    pub pending: Pending,
    /// Why the CPU wrote a row that a device was meant to.
    pub unprocessed: Option<Fault>,
    /// Time spent waiting for that device.
    pub queued: Duration,
}

/// A whole picture's vector, and the time it took.
pub(crate) struct EncodedPicture {
    /// The vector, of length 1; `None` where the model gave no direction.
    pub embedding: Option<Embedding>,
    /// Time spent waiting for a session.
    pub queued: Duration,
    /// Why it ran on the CPU though it was meant for a device.
    pub fallback: Option<Fault>,
}

impl Encoder {
    /// An encoder that runs `spec` on `engine`.
    pub fn new(spec: Arc<ModelSpec>, engine: Engine) -> Self {
        Self {
            contract: spec.contract(),
            dim: spec.dim.unwrap_or(0),
            preprocess: spec.input.preprocess(),
            spec,
            engine,
        }
    }

    /// Makes the picture's row, with a device for the pixels where there is one, and lets it run. To be driven by the
    /// pool.
    pub(crate) async fn submit_through<P: Pixels>(
        &self,
        executor: &ImageExecutor,
        picture: &Arc<P>,
    ) -> PendingVector {
        let filling = Filling::new(picture, &self.preprocess);
        let shape = self.spec.input.row_shape();
        let order = self.spec.input.channel_order;
        if !(executor.has_device() && filling.has_graph()) {
            let mut row = self.engine.claim(&shape);
            let pixels = picture.as_ref().borrow();
            self.preprocess.write(pixels, row.values());
            reorder(row.values(), self.preprocess.layout, order);
            return PendingVector {
                pending: row.commit_last(),
                unprocessed: None,
                queued: Duration::ZERO,
            };
        }
        let done = executor.run(Arc::new(filling)).await;
        // Claimed only now, as no other row of its slab runs before it is written.
        let mut row = self.engine.claim(&shape);
        row.values().copy_from_slice(&done.output);
        reorder(row.values(), self.preprocess.layout, order);
        PendingVector {
            pending: row.commit(),
            unprocessed: done.fallback,
            queued: done.queued,
        }
    }

    /// Waits for the vector.
    ///
    /// # Errors
    /// A fault of the engine, or an answer of another length than the registry's.
    pub(crate) async fn finish(&self, pending: Pending) -> Result<EncodedPicture, PipelineError> {
        let output = pending.await.map_err(|error| match &self.spec.remote {
            // What the server said is in the log.
            Some(_) => PipelineError::DeviceUnavailable {
                operation: Operation::ImageEmbedding.name(),
                requested: Provider::Kserve.name().to_owned(),
                reason: "the model server gave no answer; send it again later".to_owned(),
            },
            None => error.into(),
        })?;
        let vector = self.vector(&output).ok_or_else(|| {
            let (id, dim) = (&self.spec.id, self.dim);
            PipelineError::UnexpectedOutput(format!(
                "the encoder {id} gave no vector of {dim} values"
            ))
        })?;
        Ok(EncodedPicture {
            embedding: normalise(&vector, output.ran_on.numeric_precision()),
            queued: output.queued,
            fallback: output.fallback,
        })
    }

    /// The picture's vector in the answer.
    fn vector(&self, output: &RowOutput) -> Option<Vec<f32>> {
        let outputs = &output.outputs;
        let named = |name: &String| outputs.iter().find(|tensor| tensor.name == *name);
        let tensor: &Tensor = match &self.spec.output {
            Some(name) => named(name)?,
            None => outputs.first()?,
        };
        pooled(tensor.row(output.row), self.spec.pooling, self.dim)
    }
}

/// One vector of `dim` values of a row of the output; `None` where it has none.
fn pooled(row: &[f32], pooling: Option<Pooling>, dim: usize) -> Option<Vec<f32>> {
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

/// Brings a row of red, green and blue into the order that the model takes.
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

/// A whole picture's vector.
pub struct Encoded {
    /// The picture.
    pub image: ImageInfo,
    /// The vector; `None` where the model gave no direction.
    pub embedding: Option<Embedding>,
    /// Milliseconds by stage.
    pub timings: Timings,
}

/// The result of `/embed?kind=image` for one image.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct EncodeResult {
    /// The picture.
    pub image: ImageInfo,
    /// The L2-normalised vector; absent where the model gave none that has a direction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub embedding: Option<EmbeddingAnswer>,
    /// The vector's length before normalisation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub embedding_norm: Option<f32>,
    /// The precision in which the model computed the vector; absent where a remote server did, which does not tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub precision: Option<NumericPrecision>,
    /// Milliseconds by stage; with `timings=true`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timings_ms: Option<Timings>,
}

impl EncodeResult {
    /// Writes a vector the way the plan asks for.
    pub fn new(encoded: Encoded, plan: &EncodePlan) -> Self {
        let found = encoded.embedding.as_ref();
        let written =
            |found: &Embedding| EmbeddingAnswer::new(&found.vector, plan.embedding_format);
        Self {
            image: encoded.image,
            embedding: found.map(written),
            embedding_norm: found.map(|found| found.norm),
            precision: found.and_then(|found| found.precision),
            timings_ms: plan.timings.then_some(encoded.timings),
        }
    }
}

impl Pipeline {
    /// The encoder of whole pictures.
    ///
    /// # Errors
    /// [`PipelineError::InvalidOption`] when the settings name none.
    pub fn encoder(&self) -> Result<&Encoder, PipelineError> {
        self.encoder.as_ref().ok_or_else(|| {
            let detail = "image needs an encoder of whole pictures; set models.encoder to one of the registry";
            PipelineError::invalid_option("kind", detail)
        })
    }

    /// Embeds one whole image.
    ///
    /// # Errors
    /// What is wrong with the image, or a fault of ours.
    pub async fn encode(
        &self,
        context: &RequestContext,
        bytes: Bytes,
        plan: &EncodePlan,
    ) -> Result<Encoded, PipelineError> {
        let started = self.clock.monotonic();
        let encoder = self.encoder()?.clone();
        let work = move |pipeline: Self, mut timings| async move {
            let submitted = pipeline.submit_now(&encoder, bytes, &mut timings).await?;
            Ok((submitted, timings))
        };
        let ((image, submitted), mut timings) = self.drive(context, work).await?;
        self.check_rows(
            plan.strict_device,
            Operation::ImageProcessing,
            submitted.unprocessed,
        )?;
        // The row has all that the model sees, so the picture's place is another's while a server far away runs it.
        let began = self.clock.monotonic();
        let encoded = self.encoder()?.finish(submitted.pending).await?;
        self.check_rows(
            plan.strict_device,
            Operation::ImageEmbedding,
            encoded.fallback,
        )?;
        let queued = encoded
            .queued
            .min(self.clock.monotonic().saturating_sub(began));
        timings.queue += millis(queued);
        timings.embed = self.since(began + queued);
        timings.total = self.since(started);
        Ok(Encoded {
            image,
            embedding: encoded.embedding,
            timings,
        })
    }

    /// Decodes a picture and lets its row run.
    async fn submit_now(
        &self,
        encoder: &Encoder,
        bytes: Bytes,
        timings: &mut Timings,
    ) -> Result<(ImageInfo, PendingVector), PipelineError> {
        let began = self.clock.monotonic();
        let picture = decode_within(&bytes, &self.decoding, &self.memory)?;
        let image = image_info(&picture, content_hash(&bytes));
        drop(bytes);
        let held = PooledImage::new(picture.pixels, self);
        timings.decode = self.since(began);
        let began = self.clock.monotonic();
        let submitted = encoder
            .submit_through(&self.preprocessing.executor, &held)
            .await;
        timings.queue += millis(submitted.queued);
        timings.process = self.since(began + submitted.queued);
        Ok((image, submitted))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_become_one_vector() {
        let tokens = [1.0, 2.0, 3.0, 6.0, 5.0, 1.0];
        let pool = |pooling, dim| pooled(&tokens, pooling, dim);
        assert_eq!(pool(Some(Pooling::First), 2), Some(vec![1.0, 2.0]));
        assert_eq!(pool(Some(Pooling::Mean), 2), Some(vec![3.0, 3.0]));
        assert_eq!(pool(None, 6), Some(tokens.to_vec()));
        assert_eq!(pool(None, 2), None);
        assert_eq!(pool(Some(Pooling::Mean), 4), None);
        assert_eq!(pooled(&[], Some(Pooling::First), 2), None);
    }

    #[test]
    fn blue_comes_first_where_the_model_wants_it() {
        let mut planes = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        reorder(&mut planes, Layout::Nchw, ChannelOrder::Bgr);
        assert_eq!(planes, [5.0, 6.0, 3.0, 4.0, 1.0, 2.0]);
        reorder(&mut planes, Layout::Nhwc, ChannelOrder::Bgr);
        assert_eq!(planes, [3.0, 6.0, 5.0, 2.0, 1.0, 4.0]);
        reorder(&mut planes, Layout::Nhwc, ChannelOrder::Rgb);
        assert_eq!(planes[0], 3.0);
    }

    #[test]
    fn options_about_faces_are_refused_by_name() {
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
            said.contains("max_faces") && said.contains("is for faces"),
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
