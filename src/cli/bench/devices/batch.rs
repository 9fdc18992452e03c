//! One batch of an operation. All its items run at the same time until every result is in the host's memory.
//!
//! | operation | item | timed work |
//! |---|---|---|
//! | `face_detection` | a decoded image | letterbox, detector, heads and NMS |
//! | `face_embedding` and other models of crops | an aligned crop | row, model |
//! | `image_processing` | a decoded image | resizing and normalizing to the detector's input |
//! | `image_enhancement` | a BMP | the work of `/enhance` with contrast and sharpness: copying the BMP, its sha256, the steps, encoding a JPEG |
//! | `quality_checks` | an aligned crop as a BMP | the work of `/quality` with `aligned=true`: copying the BMP, the measures, the verdict |
//! | `image_embedding` | a decoded image | row, encoder, normalization of the vector; needs `models.encoder` |
//!
//! Every item takes the same path as in the server: the pool, the engines, and the fallback to the CPU.

use std::sync::Arc;

use facescan_pipeline::{
    Pipeline,
    context::RequestContext,
    core::{error::PipelineError, options::StorageRequest},
    models::{crop_model::CropModel, encoder::Encoder},
    operation::ScanKind,
    operations::{
        enhance::request::{EnhancePlan, EnhanceRequest},
        scan::request::{ScanPlan, ScanRequest},
    },
};
use futures::future::join_all;

use super::material::{Item, Material};
use crate::app::App;
use facescan_inference::{
    device_task::{DeviceTask, ImageWork, Workload},
    pool::Stage,
    registry::RoleInput,
};

/// An operation with its options.
pub enum Work {
    Detect(ScanPlan),
    Crop(CropModel),
    /// Prepares the input of the detector.
    Process(ScanPlan),
    Enhance(Box<EnhancePlan>),
    /// Measures the quality of crops.
    Grade(ScanPlan),
    /// Embeds whole images.
    Encode(Encoder),
}

impl Work {
    /// Creates the work of an operation in `app`, with the options of the settings and with steps that apply to every
    /// image.
    pub fn new(app: &App, operation: DeviceTask) -> Result<Self, PipelineError> {
        let thresholds = &app.pipeline.models.detector.spec.thresholds;
        let scan = |kind, aligned| {
            let mut asked = ScanRequest {
                aligned: Some(aligned),
                storage: StorageRequest::new(false),
                ..ScanRequest::default()
            };
            asked.resolve(kind, &app.config, thresholds)
        };
        let models = &app.pipeline.models;
        Ok(match operation.workload() {
            Workload::Model(role) => match role.input() {
                RoleInput::Letterbox => Self::Detect(scan(ScanKind::Detect, false)?),
                RoleInput::AlignedCrop => {
                    let model = models.of_face(operation);
                    let model = model.ok_or(PipelineError::NoModel(role))?;
                    Self::Crop(model.model().clone())
                }
                RoleInput::Image => Self::Encode(models.encoder()?.clone()),
            },
            Workload::Graphs(ImageWork::Processing) => {
                Self::Process(scan(ScanKind::Detect, false)?)
            }
            Workload::Graphs(ImageWork::Enhancement) => {
                let mut asked = EnhanceRequest {
                    // By default these steps apply only to small images, so most images would have no work to measure.
                    contrast: Some(true),
                    sharpen: Some(true),
                    ..EnhanceRequest::default()
                };
                Self::Enhance(Box::new(asked.resolve(&app.config, thresholds)?))
            }
            Workload::Graphs(ImageWork::Quality) => Self::Grade(scan(ScanKind::Quality, true)?),
        })
    }

    /// Returns the items that the batches consist of.
    pub fn items<'a>(&self, material: &'a Material) -> &'a [Item] {
        match self {
            Self::Detect(_) | Self::Process(_) | Self::Enhance(_) | Self::Encode(_) => {
                &material.images
            }
            Self::Crop(_) | Self::Grade(_) => &material.crops,
        }
    }

    /// Runs a batch of `items` and returns the outcome of each item.
    pub async fn run(
        &self,
        app: &App,
        items: impl IntoIterator<Item = &Item>,
    ) -> Vec<Result<(), PipelineError>> {
        let context = &app.run_context();
        let results = items
            .into_iter()
            .map(|item| self.one(&app.pipeline, context, item));
        join_all(results).await
    }

    async fn one(
        &self,
        pipeline: &Pipeline,
        context: &RequestContext,
        item: &Item,
    ) -> Result<(), PipelineError> {
        match self {
            Self::Detect(options) => detect(pipeline, item, options).await,
            Self::Crop(model) => run_crop(pipeline, model, item).await,
            Self::Process(options) => process(pipeline, item, options).await,
            Self::Enhance(plan) => {
                let enhanced = pipeline.drive(context, item.file.clone().into(), plan.as_ref());
                enhanced.await.map(drop)
            }
            Self::Grade(options) => {
                let scan = pipeline.drive(context, item.loaded(), options);
                scan.await.map(drop)
            }
            Self::Encode(encoder) => {
                let (encoder, executor) =
                    (encoder.clone(), pipeline.preprocessing.executor.clone());
                let image = Arc::clone(&item.pixels);
                let encoding = async move {
                    let submitted = encoder.submit_through(&executor, &image).await;
                    encoder.finish(submitted.pending).await
                };
                let driven = pipeline.pool.drive(None, Stage::Begin, encoding);
                driven.await?.map(drop)
            }
        }
    }
}

async fn detect(pipeline: &Pipeline, item: &Item, options: &ScanPlan) -> Result<(), PipelineError> {
    let (detector, image) = (pipeline.models.detector.clone(), Arc::clone(&item.pixels));
    let asked = options.detect.clone();
    let detecting = async move {
        let submitted = detector.submit(&image, &asked);
        let found = detector.finish(submitted, image.dimensions(), &asked);
        found.await
    };
    let driven = pipeline.pool.drive(None, Stage::Begin, detecting);
    driven.await?.map(drop)
}

async fn run_crop(
    pipeline: &Pipeline,
    model: &CropModel,
    item: &Item,
) -> Result<(), PipelineError> {
    let (submitting, crop) = (model.clone(), Arc::clone(&item.pixels));
    let submit = move || submitting.submit(&crop, true);
    let pending = pipeline.pool.run(Stage::Finish, submit).await?;
    model.finish(vec![pending]).await.map(drop)
}

async fn process(
    pipeline: &Pipeline,
    item: &Item,
    options: &ScanPlan,
) -> Result<(), PipelineError> {
    let detector = &pipeline.models.detector;
    let work = detector.letterbox_job(&item.pixels, options.detect.main_input());
    let executor = pipeline.processing.clone();
    let processing = async move { executor.run(Arc::new(work)).await };
    pipeline.pool.drive(None, Stage::Begin, processing).await?;
    Ok(())
}
