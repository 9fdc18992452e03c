//! The stages of a scan of one image: decode, detect, align, measure, embed.

pub(crate) mod faces;
pub mod request;

use std::sync::Arc;

use facescan_imaging::{phash::perceptual_hash, quality, warp::ALIGNED_SIDE};
use facescan_inference::device_task::DeviceTask;
use image::RgbImage;
use serde_json::{Value, json};

use self::{
    faces::{FacePixels, FaceWork, needs_full_image},
    request::ScanPlan,
};
use crate::{
    Pipeline,
    core::{
        error::PipelineError,
        image_file::{ImageInfo, PooledImage},
        memory,
        options::DetectOptions,
        run::{ImageRun, RunOptions, millis},
        scan::{Face, Scan},
        work::{self, Size},
    },
    ingest::intake::LoadedImage,
    models::{
        detector::PendingDetection,
        grader::{Grader, PendingQuality},
    },
    operation::Operation,
    plan::{Plan, StoredAs},
};

/// A decoded image with its properties, and the rows that wait for the detector.
struct DecodedImage {
    image: Arc<PooledImage>,
    /// The pixels of the file for each pixel along a side of the image.
    divisor: u32,
    info: ImageInfo,
    perceptual_hash: Option<u64>,
    quality: Option<PendingQuality>,
    submitted: Option<PendingDetection>,
}

impl Plan for ScanPlan {
    type Output = Scan;

    fn operation(&self) -> Operation {
        self.kind.operation()
    }

    fn tasks(&self) -> Vec<DeviceTask> {
        let mut tasks = Vec::new();
        if !self.aligned {
            tasks.extend([DeviceTask::ImageProcessing, DeviceTask::FaceDetection]);
        }
        tasks.extend(self.kind.model());
        if self.quality {
            tasks.push(DeviceTask::QualityChecks);
        }
        tasks
    }

    fn run_options(&self) -> RunOptions {
        self.run
    }

    fn stored(&self) -> Option<StoredAs<'_, Scan>> {
        Some(StoredAs::of_scan(self.operation().name(), &self.storage))
    }

    fn key_options(&self) -> Value {
        // Without `..`, so that the compiler requires a decision for each new option.
        let Self {
            // The key has its name.
            kind: _,
            detect,
            quality,
            preset,
            aligned,
            // Decides the content only together with other options.
            decode: _,
            // These decide how the scan is run, stored and written, but not its content.
            landmarks: _,
            crops: _,
            embedding_format: _,
            storage: _,
            run: _,
        } = self;
        json!({
            "detect": (!aligned).then_some(detect),
            "preset": quality.then_some(preset),
            "aligned": aligned,
            "reduced_side": self.reduced_side(),
        })
    }

    fn detection(&self) -> Option<&DetectOptions> {
        (!self.aligned).then_some(&self.detect)
    }

    fn memory(&self, size: Size) -> u64 {
        let search = self.detection().map_or(0, memory::detection);
        memory::decoding(size).max(memory::samples(work::pixels(size)) + search)
    }

    async fn run(
        &self,
        pipeline: &Pipeline,
        file: LoadedImage,
        run: &mut ImageRun,
    ) -> Result<Scan, PipelineError> {
        let mut decoded = self.open(pipeline, &file, run).await?;
        // Only faces that are cut out of a reduced image for a model may need the file again.
        let is_needed = decoded.divisor > 1 && !pipeline.models.of_faces(&self.tasks()).is_empty();
        let file = is_needed.then_some(file);
        let mut faces = self.find(pipeline, &mut decoded, run).await?;
        if self.works_on_faces() {
            let pixels = face_pixels(pipeline, &decoded, &faces, file.as_ref(), run).await?;
            drop(file);
            let work = FaceWork::new(pixels, pipeline, self);
            work.run(&mut faces, run).await?;
        }
        let quality = match decoded.quality.take() {
            Some(pending) => {
                let (measures, device_run) = pending.finish().await?;
                pipeline.record(run, DeviceTask::QualityChecks, device_run)?;
                Some(measures.into())
            }
            None => None,
        };
        Ok(Scan {
            image_id: None,
            cached: false,
            image: decoded.info,
            perceptual_hash: decoded.perceptual_hash,
            picture_quality: quality,
            faces,
            embedding: None,
        })
    }
}

impl ScanPlan {
    /// Returns the price of an image of a size, without the work on its faces. A reduced image counts in full.
    fn work(&self, pipeline: &Pipeline, size: Size) -> u64 {
        let detector = &pipeline.models.detector;
        work::sum([
            (true, work::pixels(size) * work::DECODE),
            (!self.aligned, detector.work(size, &self.detect)),
            (self.measures_image(), work::measure_image(size)),
            (self.storage.store, work::pixels(size) * work::PLAIN),
        ])
    }

    /// Decodes an image, measures it if the options request that, and submits the rows of the detector.
    async fn open(
        &self,
        pipeline: &Pipeline,
        file: &LoadedImage,
        run: &mut ImageRun,
    ) -> Result<DecodedImage, PipelineError> {
        let began = pipeline.clock.monotonic();
        let (bytes, price) = (&file.bytes, |size| self.work(pipeline, size));
        run.work.limit().check_file(bytes, price)?;
        let hash = file.content_hash();
        let image = pipeline.decode(bytes, self.reduced_side()).await?;
        run.work.add(price(image.size))?;
        let divisor = image.divisor;
        let quality = self.measures_image().then(|| {
            let canonical = quality::canonical(&image.pixels);
            Grader::measure(pipeline.grader.as_ref(), &canonical)
        });
        let hint = self.storage.store.then(|| perceptual_hash(&image.pixels));
        let info = ImageInfo::new(&image, hash);
        run.timings.decode = pipeline.since(began);
        run.count_pixels(&info);
        let began = pipeline.clock.monotonic();
        let image = PooledImage::new(image.pixels, &pipeline.memory);
        let submitted = if self.aligned {
            None
        } else {
            let (detector, executor) = (&pipeline.models.detector, &pipeline.processing);
            let submitted = detector.submit_through(executor, &image, &self.detect);
            Some(submitted.await.enlarged(divisor))
        };
        if let Some(rows) = &submitted {
            pipeline.record(run, DeviceTask::ImageProcessing, rows.processed)?;
        }
        run.timings.detect = pipeline.since(began);
        Ok(DecodedImage {
            image,
            divisor,
            info,
            perceptual_hash: hint.flatten(),
            quality,
            submitted,
        })
    }

    /// Waits for the detector's outputs and decodes the faces.
    async fn find(
        &self,
        pipeline: &Pipeline,
        decoded: &mut DecodedImage,
        run: &mut ImageRun,
    ) -> Result<Vec<Face>, PipelineError> {
        let Some(submitted) = decoded.submitted.take() else {
            return Ok(vec![aligned_face(&decoded.image)?]);
        };
        let began = pipeline.clock.monotonic();
        let size = (decoded.info.width, decoded.info.height);
        let detector = &pipeline.models.detector;
        let detected = detector.finish(submitted, size, &self.detect).await?;
        pipeline.record(run, DeviceTask::FaceDetection, detected.run)?;
        let queued = detected
            .queued
            .min(pipeline.clock.monotonic().saturating_sub(began));
        run.timings.queue += millis(queued);
        run.timings.detect += pipeline.since(began + queued);
        Ok(detected.faces)
    }
}

/// Returns the pixels that the faces are cut out of. Decodes a reduced image in full if a face needs it. `file` is that of a
/// reduced image.
///
/// # Errors
/// [`PipelineError::TooMuchWork`] if the image may not be decoded again.
async fn face_pixels(
    pipeline: &Pipeline,
    decoded: &DecodedImage,
    faces: &[Face],
    file: Option<&LoadedImage>,
    run: &mut ImageRun,
) -> Result<FacePixels, PipelineError> {
    let mut landmarks = faces.iter().filter_map(|face| face.landmarks.as_ref());
    let full = match file {
        Some(file) if landmarks.any(|at| needs_full_image(at, decoded.divisor)) => {
            let size = (decoded.info.width, decoded.info.height);
            run.work.add(work::pixels(size) * work::DECODE)?;
            let began = pipeline.clock.monotonic();
            let image = pipeline.decode(&file.bytes, None).await;
            run.timings.decode += pipeline.since(began);
            // The two decoders can disagree about a damaged file. Then the reduced image has to do.
            let pixels = image.ok().map(|image| image.pixels);
            pixels.map(|pixels| PooledImage::new(pixels, &pipeline.memory))
        }
        _ => None,
    };
    Ok(FacePixels {
        searched: Arc::clone(&decoded.image),
        divisor: decoded.divisor,
        full,
    })
}

/// Returns the face of an image that is an aligned crop.
fn aligned_face(image: &RgbImage) -> Result<Face, PipelineError> {
    let (width, height) = image.dimensions();
    if (width, height) != (ALIGNED_SIDE, ALIGNED_SIDE) {
        return Err(PipelineError::invalid_option(
            "aligned",
            format!(
                "accepts crops of {ALIGNED_SIDE}×{ALIGNED_SIDE}, but this image is {width}×{height}"
            ),
        ));
    }
    let side = ALIGNED_SIDE as f32;
    Ok(Face::at([0.0, 0.0, side, side].into()))
}
