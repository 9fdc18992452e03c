//! Runs an operation on many images. Each image has its own result. A failed image does not affect the others.

use std::sync::Arc;

use futures::{Stream, StreamExt, stream};

use super::{
    Pipeline,
    error::PipelineError,
    run::{RunOptions, RunOutput},
    scan::{ContentHash, content_hash},
    stored::StoredScans,
};
use crate::{
    admission::Admission,
    context::RequestContext,
    ingest::{
        intake::{Intake, LoadedImage},
        source::ImageInput,
    },
};
use facescan_inference::{device_task::DeviceTask, pool::Stage};

/// The maximum number of images of one request that are loaded or processed at a time. The priority semaphore limits how
/// many are decoded.
const IN_FLIGHT: usize = 16;

/// A plan: an operation with its options resolved. It works on one image at a time.
pub trait ImageOperation: Sync {
    /// The result for one image.
    type Output: Send;

    /// Returns the name of the operation in answers.
    fn name(&self) -> &'static str;

    /// Returns the operations that take part.
    fn operations(&self) -> Vec<DeviceTask>;

    /// Returns the options of the run.
    fn run_options(&self) -> RunOptions;

    /// Checks that the operation can run with these options. [`FanOut`] does not call this. The caller must.
    ///
    /// # Errors
    /// [`PipelineError::NoModel`] if the settings name no model for an operation, or [`PipelineError::DeviceUnavailable`]
    /// if the options are strict about devices, and an operation would run elsewhere.
    fn check(&self, pipeline: &Pipeline) -> Result<(), PipelineError> {
        let operations = self.operations();
        pipeline.models.check(&operations)?;
        pipeline.check_strict(self.run_options().strict_device, &operations)
    }

    /// Runs on one image.
    ///
    /// # Errors
    /// Returns an error of the image or a fault of the server.
    fn run(
        &self,
        scans: &StoredScans,
        context: &RequestContext,
        image: LoadedImage,
    ) -> impl Future<Output = Result<RunOutput<Self::Output>, PipelineError>> + Send;
}

/// The outcome of one image of a request.
#[derive(Debug)]
pub struct ImageOutcome<T> {
    /// The index of the image in the request, from 0.
    pub index: usize,
    /// The id that the caller gave it.
    pub id: Option<String>,
    /// The hash of its bytes, if [`FanOut::hashes_images`] and if it could be loaded.
    pub hash: Option<ContentHash>,
    /// The result or the error.
    pub output: Result<RunOutput<T>, PipelineError>,
}

/// Loads images and runs operations on them. Cheap to clone.
#[derive(Clone)]
pub struct FanOut {
    /// Gets the bytes of images.
    pub intake: Arc<Intake>,
    /// Whether the outcome of each image has the hash of its bytes.
    pub hashes_images: bool,
    /// Runs operations, with the database for scans.
    pub scans: StoredScans,
    /// Admits images.
    pub admission: Admission,
}

impl FanOut {
    /// Runs a plan on the images of an admitted request. The outcomes are in the order of the images.
    pub async fn run_all<P: ImageOperation>(
        &self,
        context: &RequestContext,
        images: Vec<ImageInput>,
        plan: &P,
    ) -> Vec<ImageOutcome<P::Output>> {
        let mut outcomes: Vec<_> = stream::iter(images.into_iter().enumerate())
            .map(async |(index, image)| {
                let id = image.id.clone();
                let mut hash = None;
                let output = async {
                    let image = self.intake.load(image, context.into()).await?;
                    hash = self.hash(context, &image).await?;
                    self.run_one(context, image, plan).await
                };
                let output = output.await;
                ImageOutcome {
                    index,
                    id,
                    hash,
                    output,
                }
            })
            // Unordered, so that a slow download does not delay the other images.
            .buffer_unordered(IN_FLIGHT)
            .collect()
            .await;
        outcomes.sort_by_key(|outcome| outcome.index);
        outcomes
    }

    async fn hash(
        &self,
        context: &RequestContext,
        image: &LoadedImage,
    ) -> Result<Option<ContentHash>, PipelineError> {
        if !self.hashes_images {
            return Ok(None);
        }
        let bytes = image.bytes.clone();
        let pool = &self.scans.pipeline.pool;
        let tenant = Some(Arc::clone(&context.principal.tenant));
        let hash = pool.run_for(tenant, Stage::Begin, move || content_hash(&bytes));
        Ok(Some(hash.await?))
    }

    /// Calls `each` for every image and returns the outputs in order. At most `in_flight` calls run at a time.
    ///
    /// Each image waits for admission. The stream takes an image from the iterator only when it needs one, so it never
    /// holds all of them.
    pub fn admit_each<'a, I, O>(
        &'a self,
        context: &'a RequestContext,
        images: impl IntoIterator<Item = I> + 'a,
        in_flight: usize,
        each: impl AsyncFn(I) -> O + 'a,
    ) -> impl Stream<Item = O> + 'a
    where
        I: 'a,
        O: 'a,
    {
        let each = Arc::new(each);
        stream::iter(images)
            .map(move |image| {
                let each = Arc::clone(&each);
                async move {
                    let tenant = &context.principal.tenant;
                    let _reservation = self.admission.admit(tenant, context.priority, 1).await;
                    each(image).await
                }
            })
            .buffered(in_flight.max(1))
    }

    /// Runs a plan on one image, and adds the time that it took to fetch the image.
    ///
    /// # Errors
    /// Returns an error of the image or a fault of the server.
    pub async fn run_one<P: ImageOperation>(
        &self,
        context: &RequestContext,
        mut image: LoadedImage,
        plan: &P,
    ) -> Result<RunOutput<P::Output>, PipelineError> {
        // Fetched bytes keep their share of the byte budget until there is a result.
        let _reservation = image.reservation.take();
        let fetch_ms = image.fetch_ms;
        let mut output = plan.run(&self.scans, context, image).await?;
        output.run.timings = output.run.timings.after_fetch(fetch_ms);
        self.scans
            .pipeline
            .metrics
            .staged(output.run.timings.stages());
        Ok(output)
    }
}
