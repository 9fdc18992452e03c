//! Computes vectors of whole images.

use std::{sync::Arc, time::Duration};

use facescan_imaging::{
    precision::NumericPrecision,
    preprocess::{Layout, Preprocess},
    tensor::ChannelOrder,
};
use facescan_inference::{
    device::DeviceRun,
    device_task::DeviceTask,
    engine::{Engine, Pending, RowOutput},
    image_executor::ImageExecutor,
    placement::Provider,
    registry::{ModelSpec, Pooling},
};

use super::{loaded::LoadedModel, row_job::RowJob};
use crate::core::{
    error::PipelineError,
    image_file::Pixels,
    scan::Embedding,
    work::{self, Size},
};

/// The encoder's engine. Cheap to clone.
#[derive(Clone)]
pub struct Encoder {
    /// The model.
    pub spec: Arc<ModelSpec>,
    /// The vector space of its vectors.
    pub vector_space: String,
    /// The length of its vectors.
    pub dim: usize,
    engine: Engine,
    preprocess: Preprocess,
}

/// The row of an image that waits for the encoder.
pub struct PendingVector {
    /// The future output of the row.
    pub pending: Pending,
    /// The device that made the row.
    pub processed: DeviceRun,
    /// The time that the job waited for that device.
    pub queued: Duration,
}

/// The vector of a whole image, and its times.
pub struct EncoderOutput {
    /// The vector, of length 1. `None` if the model's output has no direction.
    pub embedding: Option<Embedding>,
    /// Time spent waiting for a session.
    pub queued: Duration,
    /// The device that ran the row.
    pub run: DeviceRun,
}

impl Encoder {
    /// Creates an encoder of a loaded model.
    pub fn new(LoadedModel { spec, engine, .. }: LoadedModel) -> Self {
        Self {
            vector_space: spec.vector_space(),
            dim: spec.dim.unwrap_or(0),
            preprocess: spec.input.preprocess(),
            spec,
            engine,
        }
    }

    /// Returns the precision of a row that is submitted now. `None` if a remote server runs the model.
    pub(crate) fn current_precision(&self) -> Option<NumericPrecision> {
        self.engine.current_placement().numeric_precision()
    }

    /// Returns the price of the vector of an image of a size.
    pub(crate) fn work(&self, image: Size) -> u64 {
        work::encode_image(image, (self.spec.input.width, self.spec.input.height))
    }

    /// Writes the row of an image and commits it. A device makes the row if there is one. The pool must drive this
    /// future.
    pub async fn submit_through<P: Pixels>(
        &self,
        executor: &ImageExecutor,
        image: &Arc<P>,
    ) -> PendingVector {
        let job = RowJob::new(image, &self.preprocess);
        let shape = self.spec.input.row_shape();
        let order = self.spec.input.channel_order;
        if !(executor.has_device() && job.has_graph()) {
            let mut row = self.engine.claim(&shape);
            let pixels = image.as_ref().borrow();
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
    pub async fn finish(&self, pending: Pending) -> Result<EncoderOutput, PipelineError> {
        let output = pending.await.map_err(|error| match &self.spec.remote {
            // The log has the error of the model server.
            Some(_) => PipelineError::DeviceUnavailable {
                operation: DeviceTask::ImageEmbedding.name(),
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
        Ok(EncoderOutput {
            embedding: Embedding::from_raw(&vector, output.run.placement.numeric_precision()),
            queued: output.queued,
            run: output.run,
        })
    }

    /// Returns the vector of the image in the output.
    fn vector(&self, output: &RowOutput) -> Option<Vec<f32>> {
        let mut outputs = output.outputs.iter();
        let tensor = match &self.spec.output {
            Some(name) => outputs.find(|tensor| tensor.name == *name)?,
            None => outputs.next()?,
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
}
