//! The stages of one image: decode, detect, align, measure, embed.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use image::RgbImage;
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::{
    context::RequestContext,
    ingest::intake::LoadedImage,
    pipeline::error::PipelineError,
    pipeline::{
        Pipeline, PooledImage,
        answer::{ImageInfo, PictureQualityAnswer},
        faces::{Face, FacePixels, FaceWork, needs_full_image},
        fan_out::ImageOperation,
        memory,
        models::{detector::PendingDetection, embedder::Embedding},
        options::{ScanKind, ScanPlan, StorageOptions},
        quality::{Grader, PendingQuality},
        run::{ImageRun, RunOptions, RunOutput},
        stored::{StoredPlan, StoredScans},
        work::{self, Size},
    },
};
use facescan_imaging::{
    checkpoint,
    decode::Decoded,
    phash::perceptual_hash,
    precision::NumericPrecision,
    quality::{self, ImageQuality},
    warp::ALIGNED_SIDE,
};
use facescan_inference::device_task::DeviceTask;

/// The result of a scan, before it is converted to an answer.
#[derive(Clone, Debug)]
pub struct Scan {
    /// The id of the stored image.
    pub image_id: Option<Uuid>,
    /// Whether the result comes from the database.
    pub cached: bool,
    /// The properties of the image.
    pub image: ImageInfo,
    /// A hash for finding near-duplicates. `None` for flat images.
    pub perceptual_hash: Option<u64>,
    /// The quality of the whole image.
    pub picture_quality: Option<PictureQualityAnswer>,
    /// The faces, largest first.
    pub faces: Vec<Face>,
    /// The vector of the whole image. `None` if it was not computed, or if the model's output has no direction.
    pub embedding: Option<Embedding>,
}

/// The bytes that are hashed between two checkpoints.
const HASHED_AT_ONCE: usize = 1 << 18;

/// The sha256 of an image file.
pub type ContentHash = [u8; 32];

/// Returns the sha256 of `bytes`. This is CPU work for large bodies.
pub fn content_hash(bytes: &[u8]) -> ContentHash {
    let mut hash = Sha256::new();
    for part in bytes.chunks(HASHED_AT_ONCE) {
        hash.update(part);
        checkpoint::passed(part.len());
    }
    hash.finalize().into()
}

/// Returns a hash as lower-case hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

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

/// The scan of one image. The pool drives it, because everything between its waits is CPU work.
struct ScanRun {
    pipeline: Pipeline,
    options: ScanPlan,
}

impl ImageOperation for ScanPlan {
    type Output = Scan;

    fn name(&self) -> &'static str {
        self.kind.name()
    }

    fn operations(&self) -> Vec<DeviceTask> {
        self.operations()
    }

    fn run_options(&self) -> RunOptions {
        self.run
    }

    async fn run(
        &self,
        scans: &StoredScans,
        context: &RequestContext,
        image: LoadedImage,
    ) -> Result<RunOutput<Scan>, PipelineError> {
        let plan = self.for_image(image.source, image.source_url, image.url)?;
        scans.run(context, image.bytes, &plan).await
    }
}

impl StoredPlan for ScanPlan {
    fn storage(&self) -> &StorageOptions {
        &self.storage
    }

    fn with_storage(&self, storage: StorageOptions) -> Self {
        Self {
            storage,
            ..self.clone()
        }
    }

    fn operation_name(&self) -> &'static str {
        self.kind.name()
    }

    fn key_options(&self) -> serde_json::Value {
        self.content_options()
    }

    fn taking_part(&self) -> Vec<DeviceTask> {
        self.operations()
    }

    fn embedding_operation(&self) -> Option<DeviceTask> {
        self.vectors()
    }

    fn current_precision(&self, pipeline: &Pipeline) -> Option<NumericPrecision> {
        pipeline.models.embedder.current_precision()
    }

    fn detects(&self) -> bool {
        !self.aligned
    }

    async fn run_unstored(
        &self,
        pipeline: &Pipeline,
        context: &RequestContext,
        bytes: Bytes,
        hash: Option<ContentHash>,
    ) -> Result<RunOutput<Scan>, PipelineError> {
        pipeline.scan(context, bytes, hash, self).await
    }
}

impl ScanPlan {
    /// Returns the memory for an image of a size.
    fn memory(&self, size: Size) -> u64 {
        let search = match self.aligned {
            true => 0,
            false => memory::detection(&self.detect),
        };
        memory::decoding(size).max(memory::samples(work::pixels(size)) + search)
    }
}

impl Pipeline {
    /// Scans one image without the database. `hash` is the hash of the bytes, if it is already computed.
    ///
    /// # Errors
    /// An error of the image, of a model or of the server.
    pub async fn scan(
        &self,
        context: &RequestContext,
        bytes: Bytes,
        hash: Option<ContentHash>,
        options: &ScanPlan,
    ) -> Result<RunOutput<Scan>, PipelineError> {
        if !options.aligned {
            self.models.detector.check(&options.detect)?;
        }
        let (strict, options) = (options.run.strict_device, options.clone());
        let memory = self.memory_of(&bytes, |size| options.memory(size));
        let work = move |pipeline, mut run| async move {
            let scan_run = ScanRun { pipeline, options };
            let scan = scan_run.run(bytes, hash, &mut run).await?;
            Ok((scan, run))
        };
        self.drive(context, strict, memory, work).await
    }
}

impl ScanRun {
    async fn run(
        &self,
        bytes: Bytes,
        hash: Option<ContentHash>,
        run: &mut ImageRun,
    ) -> Result<Scan, PipelineError> {
        let mut decoded = self.open(&bytes, hash, run).await?;
        // Only faces that are cut out of a reduced image may need the file again.
        let is_needed = decoded.divisor > 1 && self.options.kind == ScanKind::Embed;
        let bytes = is_needed.then_some(bytes);
        let mut faces = self.find(&mut decoded, run).await?;
        let pixels = self
            .face_pixels(&decoded, &faces, bytes.as_ref(), run)
            .await?;
        drop(bytes);
        if let Some(work) = FaceWork::new(pixels, &self.pipeline, &self.options) {
            work.run(&mut faces, run).await?;
        }
        let quality = match decoded.quality.take() {
            Some(pending) => {
                let (measures, device_run) = pending.finish().await?;
                self.pipeline
                    .record(run, DeviceTask::QualityChecks, device_run)?;
                Some(picture_quality(measures))
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

    fn now(&self) -> Duration {
        self.pipeline.clock.monotonic()
    }

    fn since(&self, began: Duration) -> f64 {
        self.pipeline.since(began)
    }

    /// Returns the price of an image of a size, without the work on its faces. A reduced image counts in full.
    fn work(&self, size: Size) -> u64 {
        let (detector, options) = (&self.pipeline.models.detector, &self.options);
        let parts = [
            (true, work::pixels(size) * work::DECODE),
            (!options.aligned, detector.work(size, &options.detect)),
            (self.measures_image(), work::measure_image(size)),
            (options.storage.store, work::pixels(size) * work::PLAIN),
        ];
        let parts = parts.into_iter().filter(|(runs, _)| *runs);
        parts.map(|(_, passes)| passes).sum()
    }

    fn measures_image(&self) -> bool {
        self.options.kind == ScanKind::Quality && !self.options.aligned
    }

    /// Decodes an image, measures it if the options request that, and submits the rows of the detector.
    async fn open(
        &self,
        bytes: &Bytes,
        hash: Option<ContentHash>,
        run: &mut ImageRun,
    ) -> Result<DecodedImage, PipelineError> {
        let (pipeline, options) = (&self.pipeline, &self.options);
        let began = self.now();
        run.work.limit().check_file(bytes, |size| self.work(size))?;
        let hash = hash.unwrap_or_else(|| content_hash(bytes));
        let image = pipeline.decode(bytes, options.reduced_side()).await?;
        run.work.add(self.work(image.size))?;
        let divisor = image.divisor;
        let quality = self.measures_image().then(|| {
            let canonical = quality::canonical(&image.pixels);
            Grader::measure(pipeline.grader.as_ref(), &canonical)
        });
        let hint = options
            .storage
            .store
            .then(|| perceptual_hash(&image.pixels));
        let info = image_info(&image, hash);
        run.timings.decode = self.since(began);
        run.count_pixels(&info);
        let began = self.now();
        let image = PooledImage::new(image.pixels, pipeline);
        let submitted = if options.aligned {
            None
        } else {
            let (detector, executor) = (&pipeline.models.detector, &pipeline.processing);
            let submitted = detector.submit_through(executor, &image, &options.detect);
            Some(submitted.await.enlarged(divisor))
        };
        if let Some(rows) = &submitted {
            pipeline.record(run, DeviceTask::ImageProcessing, rows.processed)?;
        }
        run.timings.detect = self.since(began);
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
        decoded: &mut DecodedImage,
        run: &mut ImageRun,
    ) -> Result<Vec<Face>, PipelineError> {
        let Some(submitted) = decoded.submitted.take() else {
            return Ok(vec![AlignedCrop::check(&decoded.image)?.into_face()]);
        };
        let (pipeline, options) = (&self.pipeline, &self.options);
        let began = self.now();
        let detected = pipeline.models.detector.finish(submitted).await?;
        pipeline.record(run, DeviceTask::FaceDetection, detected.run)?;
        let queued = detected.queued.min(self.now().saturating_sub(began));
        let size = (decoded.info.width, decoded.info.height);
        let faces = pipeline
            .models
            .detector
            .faces(&detected, size, &options.detect)?;
        run.timings.queue += millis(queued);
        run.timings.detect += self.since(began + queued);
        Ok(faces.into_iter().map(Face::from).collect())
    }

    /// Returns the pixels that the faces are cut out of. Decodes a reduced image in full if a face needs it. `bytes` is the file
    /// of a reduced image.
    ///
    /// # Errors
    /// [`PipelineError::TooMuchWork`] if the image may not be decoded again.
    async fn face_pixels(
        &self,
        decoded: &DecodedImage,
        faces: &[Face],
        bytes: Option<&Bytes>,
        run: &mut ImageRun,
    ) -> Result<FacePixels, PipelineError> {
        let mut landmarks = faces.iter().filter_map(|face| face.landmarks.as_ref());
        let full = match bytes {
            Some(bytes) if landmarks.any(|at| needs_full_image(at, decoded.divisor)) => {
                let size = (decoded.info.width, decoded.info.height);
                run.work.add(work::pixels(size) * work::DECODE)?;
                let began = self.now();
                let image = self.pipeline.decode(bytes, None).await;
                run.timings.decode += self.since(began);
                // The two decoders can disagree about a damaged file. Then the reduced image has to do.
                let pixels = image.ok().map(|image| image.pixels);
                pixels.map(|pixels| PooledImage::new(pixels, &self.pipeline))
            }
            _ => None,
        };
        Ok(FacePixels {
            searched: Arc::clone(&decoded.image),
            divisor: decoded.divisor,
            full,
        })
    }
}

/// Evidence that an image has the size of an aligned crop.
struct AlignedCrop;

impl AlignedCrop {
    fn check(image: &RgbImage) -> Result<Self, PipelineError> {
        match image.dimensions() {
            (ALIGNED_SIDE, ALIGNED_SIDE) => Ok(Self),
            (width, height) => Err(PipelineError::invalid_option(
                "aligned",
                format!(
                    "accepts crops of {ALIGNED_SIDE}×{ALIGNED_SIDE}, but this image is {width}×{height}"
                ),
            )),
        }
    }

    fn into_face(self) -> Face {
        let side = ALIGNED_SIDE as f32;
        Face::at([0.0, 0.0, side, side].into())
    }
}

pub(super) fn image_info(image: &Decoded, hash: ContentHash) -> ImageInfo {
    ImageInfo {
        width: image.size.0,
        height: image.size.1,
        format: image.format,
        sha256: hex(&hash),
        orientation: image.orientation,
    }
}

fn picture_quality(measures: ImageQuality) -> PictureQualityAnswer {
    PictureQualityAnswer {
        measures,
        overall: quality::overall(&measures, None),
        occlusion_measured: false,
    }
}

pub(super) fn millis(duration: Duration) -> f64 {
    // Rounds to microseconds. Finer times have no meaning here.
    (duration.as_secs_f64() * 1e6).round() / 1e3
}
