//! Runs plans on images. Every entry point calls it: HTTP handlers, workers of batches and the command line.
//!
//! [`Runner::find_or_run`] is the only place where the stored result of an image is looked up, and where the times of its stages
//! and of its fetch are recorded. `storage.rs` has the database, and `rows.rs` the rows.

mod rows;
mod storage;

use std::sync::Arc;

use facescan_store::Store;
use futures::{Stream, StreamExt, stream};
use uuid::Uuid;

use self::storage::Storage;
use super::{
    Pipeline,
    core::{error::PipelineError, image_file::ContentHash, run::RunOutput},
    models::Models,
    plan::{Plan, scan_key},
};
use crate::{
    admission::Admission,
    context::RequestContext,
    ingest::{
        intake::{Intake, LoadedImage},
        source::ImageInput,
    },
};

pub use self::{rows::model_file, storage::Saving};

/// The maximum number of images of one request that are loaded or processed at a time. The priority semaphore limits how
/// many are decoded.
const IN_FLIGHT: usize = 16;

/// The outcome of one image of a request.
#[derive(Debug)]
pub struct ImageOutcome<T> {
    /// The index of the image in the request, from 0.
    pub index: usize,
    /// The id that the caller gave it.
    pub id: Option<String>,
    /// The hash of its bytes, if the runner hashes images and if it could be loaded.
    pub hash: Option<ContentHash>,
    /// The result or the error.
    pub output: Result<RunOutput<T>, PipelineError>,
}

/// Loads images and runs plans on them, with the database for plans whose results are stored. Cheap to clone.
#[derive(Clone)]
pub struct Runner {
    /// Processes images.
    pub pipeline: Pipeline,
    /// Stores results.
    pub store: Store,
    /// Gets the bytes of images.
    pub intake: Arc<Intake>,
    /// Whether the outcome of each image has the hash of its bytes.
    pub hashes_images: bool,
    /// Admits images.
    pub admission: Admission,
}

impl Runner {
    /// Checks a plan and runs it on the images of an admitted request. The outcomes are in the order of the images.
    ///
    /// # Errors
    /// The errors of [`Plan::check`]. The error of an image is in its outcome.
    pub async fn run_all<P: Plan>(
        &self,
        context: &RequestContext,
        images: Vec<ImageInput>,
        plan: &P,
    ) -> Result<Vec<ImageOutcome<P::Output>>, PipelineError> {
        plan.check(&self.pipeline)?;
        let mut outcomes: Vec<_> = stream::iter(images.into_iter().enumerate())
            .map(async |(index, image)| {
                let id = image.id.clone();
                let mut hash = None;
                let ran = async {
                    let mut image = self.load(context, image).await?;
                    if self.hashes_images {
                        let tenant = &context.principal.tenant;
                        hash = Some(self.pipeline.hash(tenant, &mut image).await?);
                    }
                    self.run(context, image, plan).await
                };
                let output = ran.await;
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
        Ok(outcomes)
    }

    /// Runs a plan on one image. Saves the result if the plan stores it.
    ///
    /// # Errors
    /// The errors of [`find_or_run`](Self::find_or_run).
    pub async fn run<P: Plan>(
        &self,
        context: &RequestContext,
        image: LoadedImage,
        plan: &P,
    ) -> Result<RunOutput<P::Output>, PipelineError> {
        self.find_or_run(context, image, plan, Saving::Now).await
    }

    /// Loads the bytes of an image, and fetches them if it is named by a URL.
    ///
    /// # Errors
    /// [`PipelineError::Ingest`] with the reason.
    pub async fn load(
        &self,
        context: &RequestContext,
        image: ImageInput,
    ) -> Result<LoadedImage, PipelineError> {
        Ok(self.intake.load(image, context.into()).await?)
    }

    /// Returns the stored result of one image, or runs the plan. Adds the time that it took to fetch the image.
    ///
    /// # Errors
    /// An error of the image, of a model or of the server. Returns [`PipelineError::Store`] before any inference if the
    /// results are stored and the database cannot be used.
    pub async fn find_or_run<P: Plan>(
        &self,
        context: &RequestContext,
        mut image: LoadedImage,
        plan: &P,
        saving: Saving,
    ) -> Result<RunOutput<P::Output>, PipelineError> {
        let mut storage = Storage::new(&self.pipeline, &self.store, context, plan, &image)?;
        let fetch_ms = image.fetch_ms;
        let found = match &mut storage {
            Some(storage) => storage.find(&mut image, saving).await?,
            None => None,
        };
        let mut output = if let Some(found) = found {
            found
        } else {
            let output = self.pipeline.drive(context, image, plan).await?;
            match storage {
                Some(storage) => storage.keep(output, saving).await?,
                None => output,
            }
        };
        let timings = &mut output.run.timings;
        *timings = timings.after_fetch(fetch_ms);
        self.pipeline.metrics.staged(timings.stages());
        Ok(output)
    }

    /// Returns the ids of stored results of a plan for images with these hashes. Returns none if the plan does not look
    /// stored results up.
    ///
    /// # Errors
    /// Returns [`PipelineError::Store`] if the database cannot be used.
    pub async fn find_cached<P: Plan>(
        &self,
        context: &RequestContext,
        plan: &P,
        hashes: &[ContentHash],
    ) -> Result<Vec<(ContentHash, Uuid)>, PipelineError> {
        let Some(stored) = plan.stored().filter(|stored| stored.storage.cache) else {
            return Ok(Vec::new());
        };
        let pipeline = &self.pipeline;
        let task = Models::vector_task(&plan.tasks());
        let precision = task.and_then(|task| pipeline.models.current_precision(task));
        let key = scan_key(pipeline, plan, stored.name, precision);
        let tenant = &context.principal.tenant;
        Ok(self.store.cached_scan_ids(tenant, &key, hashes).await?)
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
}
