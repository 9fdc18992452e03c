//! One batch of an operation: all its items at the same time, until every result is in the host's memory.
//!
//! | operation | an item | what is timed |
//! |---|---|---|
//! | `face_detection` | a decoded picture | letterbox, detector, heads and NMS |
//! | `face_embedding` | an aligned crop | its row, embedder, normalisation of the vector |
//! | `image_processing` | a decoded picture | resizing and normalising to the detector's input |
//! | `image_enhancement` | a BMP | what `/enhance` does, with contrast and sharpness: copying the BMP, its sha256, the steps, encoding a JPEG |
//! | `quality_checks` | an aligned crop as a BMP | what `/quality` does with `aligned=true`: copying the BMP, the measures, the judgement |
//! | `image_embedding` | a decoded picture | its row, encoder, normalisation of the vector; where `models.encoder` is set |
//!
//! Every item goes the way that it goes in the server: through the pool, the engines, and the fallback to the CPU.

use std::sync::Arc;

use futures::future::join_all;

use super::material::{Item, Material};
use crate::{
    app::App,
    context::RequestContext,
    pipeline::error::PipelineError,
    pipeline::{
        Pipeline,
        encode::Encoder,
        enhance::{EnhancePlan, EnhanceRequest},
        options::{ScanKind, ScanOptions, ScanRequest},
    },
};
use facescan_inference::operation::Operation;
use facescan_inference::pool::Stage;

/// An operation with the options that it is measured with.
pub enum Work {
    /// Finding faces.
    Detect(ScanOptions),
    /// Vectors of crops.
    Embed,
    /// The detector's input.
    Process(ScanOptions),
    /// Enhanced pictures.
    Enhance(Box<EnhancePlan>),
    /// The quality of crops.
    Grade(ScanOptions),
    /// Vectors of pictures.
    Encode(Encoder),
}

impl Work {
    /// The work of an operation in `app`: the settings' options, and steps that every picture gets.
    ///
    /// # Errors
    /// When the settings' options are refused.
    pub fn new(app: &App, operation: Operation) -> Result<Self, PipelineError> {
        let thresholds = &app.pipeline.detector.spec.thresholds;
        let scan = |kind, aligned| {
            let asked = ScanRequest {
                aligned: Some(aligned),
                store: Some(false),
                ..ScanRequest::default()
            };
            asked.resolve(kind, &app.config, thresholds)
        };
        Ok(match operation {
            Operation::FaceDetection => Self::Detect(scan(ScanKind::Detect, false)?),
            Operation::FaceEmbedding => Self::Embed,
            Operation::ImageProcessing => Self::Process(scan(ScanKind::Detect, false)?),
            Operation::ImageEnhancement => {
                let asked = EnhanceRequest {
                    // By themselves they are for small pictures only, so that there would be nothing to measure.
                    contrast: Some(true),
                    sharpen: Some(true),
                    ..EnhanceRequest::default()
                };
                Self::Enhance(Box::new(asked.resolve(&app.config, thresholds)?))
            }
            Operation::QualityChecks => Self::Grade(scan(ScanKind::Quality, true)?),
            Operation::ImageEmbedding => Self::Encode(app.pipeline.encoder()?.clone()),
        })
    }

    /// What the batches are made of.
    pub fn items<'a>(&self, material: &'a Material) -> &'a [Item] {
        match self {
            Self::Detect(_) | Self::Process(_) | Self::Enhance(_) | Self::Encode(_) => {
                &material.pictures
            }
            Self::Embed | Self::Grade(_) => &material.crops,
        }
    }

    /// Runs a batch of `items`, and says of each how it went.
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
            Self::Embed => embed(pipeline, item).await,
            Self::Process(options) => process(pipeline, item, options).await,
            Self::Enhance(plan) => {
                let enhanced = pipeline.enhance(context, item.file.clone(), plan);
                enhanced.await.map(drop)
            }
            Self::Grade(options) => {
                let scan = pipeline.scan(context, item.file.clone(), Some(item.hash), options);
                scan.await.map(drop)
            }
            Self::Encode(encoder) => {
                let (encoder, executor) =
                    (encoder.clone(), pipeline.preprocessing.executor.clone());
                let picture = Arc::clone(&item.pixels);
                let encoding = async move {
                    let submitted = encoder.submit_through(&executor, &picture).await;
                    encoder.finish(submitted.pending).await
                };
                let driven = pipeline.pool.drive(Stage::Begin, encoding);
                driven.await?.map(drop)
            }
        }
    }
}

async fn detect(
    pipeline: &Pipeline,
    item: &Item,
    options: &ScanOptions,
) -> Result<(), PipelineError> {
    let (detector, picture) = (pipeline.detector.clone(), Arc::clone(&item.pixels));
    let asked = options.detect.clone();
    let submit = move || detector.submit(&picture, &asked);
    let submitted = pipeline.pool.run(Stage::Begin, submit).await?;
    let detected = pipeline.detector.finish(submitted).await?;
    let (detector, size) = (pipeline.detector.clone(), item.pixels.dimensions());
    let asked = options.detect.clone();
    let faces = move || detector.faces(&detected, size, &asked);
    pipeline.pool.run(Stage::Finish, faces).await?.map(drop)
}

async fn embed(pipeline: &Pipeline, item: &Item) -> Result<(), PipelineError> {
    let (embedder, crop) = (pipeline.embedder.clone(), Arc::clone(&item.pixels));
    let submit = move || embedder.submit(&crop, true);
    let pending = pipeline.pool.run(Stage::Finish, submit).await?;
    let embeddings = pipeline.embedder.finish(vec![pending]).await?;
    match embeddings.rows.first() {
        Some(Some(_)) => Ok(()),
        _ => Err(PipelineError::UnexpectedOutput(
            "the vector has no direction".to_owned(),
        )),
    }
}

async fn process(
    pipeline: &Pipeline,
    item: &Item,
    options: &ScanOptions,
) -> Result<(), PipelineError> {
    let work = pipeline
        .detector
        .letterboxing(&item.pixels, options.detect.det_size);
    let executor = pipeline.processing.clone();
    let processing = async move { executor.run(Arc::new(work)).await };
    pipeline.pool.drive(Stage::Begin, processing).await?;
    Ok(())
}
