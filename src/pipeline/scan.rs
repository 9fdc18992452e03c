//! The stages of one image: decode, detect, align, measure, embed.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use image::RgbImage;
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::{
    context::RequestContext,
    pipeline::error::PipelineError,
    pipeline::{
        Pipeline, PooledImage,
        answer::{ImageInfo, PictureQualityAnswer, Timings},
        crops::{Crops, CutFace},
        detect::{DetectedFace, PendingDetection},
        embed::Embedding,
        options::{ScanKind, ScanOptions},
        quality::{FaceQuality, Grader, Measuring, Subject},
    },
};
use facescan_imaging::{
    decode::{Decoded, decode_within},
    geometry::{BBox, Landmarks},
    phash::perceptual_hash,
    quality::{self, ImageQuality},
    warp::ALIGNED_SIDE,
};
use facescan_inference::{engine::Pending, operation::Operation, registry::Family};

/// What a scan found, before it is written as an answer.
#[derive(Clone, Debug)]
pub struct Scan {
    /// The stored image.
    pub image_id: Option<Uuid>,
    /// Whether it came from the database.
    pub cached: bool,
    /// The picture.
    pub image: ImageInfo,
    /// A hint for near-duplicates; `None` for flat pictures.
    pub perceptual_hash: Option<u64>,
    /// The whole picture's quality.
    pub picture_quality: Option<PictureQualityAnswer>,
    /// The faces, largest first.
    pub faces: Vec<Face>,
    /// Milliseconds by stage.
    pub timings: Timings,
}

/// A face with everything that was asked of it.
#[derive(Clone, Debug)]
pub struct Face {
    /// The stored face.
    pub id: Option<Uuid>,
    /// The box in the picture.
    pub bbox: BBox,
    /// The detection score, unless the picture came as an aligned crop.
    pub score: Option<f32>,
    /// The five points.
    pub landmarks: Option<Landmarks>,
    /// How good it is.
    pub quality: Option<FaceQuality>,
    /// Its vector.
    pub embedding: Option<Embedding>,
    /// Its aligned crop, as a PNG.
    pub crop: Option<Vec<u8>>,
}

/// The sha256 of the bytes that a caller sent.
pub type ContentHash = [u8; 32];

/// The sha256 of `bytes`. CPU work for large bodies.
pub fn content_hash(bytes: &[u8]) -> ContentHash {
    Sha256::digest(bytes).into()
}

/// The lower-case hex of a hash.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl ScanOptions {
    /// The operations that a scan with these options runs.
    pub fn operations(&self) -> Vec<Operation> {
        let mut operations = Vec::new();
        if !self.aligned {
            operations.extend([Operation::ImageProcessing, Operation::FaceDetection]);
        }
        if self.kind == ScanKind::Embed {
            operations.push(Operation::FaceEmbedding);
        }
        if self.quality {
            operations.push(Operation::QualityChecks);
        }
        operations
    }
}

/// A decoded picture with what is known of its bytes, and its rows on their way through the detector.
struct DecodedImage {
    picture: Arc<PooledImage>,
    info: ImageInfo,
    perceptual_hash: Option<u64>,
    quality: Option<Measuring>,
    submitted: Option<PendingDetection>,
}

/// A scan on its way. The pool drives it: what lies between its waits is CPU work.
struct Scanning {
    pipeline: Pipeline,
    options: ScanOptions,
}

impl Pipeline {
    /// Scans one image, without the database. `hash` is that of the bytes, where it is known already.
    ///
    /// # Errors
    /// What is wrong with the image, or a fault of ours.
    pub async fn scan(
        &self,
        context: &RequestContext,
        bytes: Bytes,
        hash: Option<ContentHash>,
        options: &ScanOptions,
    ) -> Result<Scan, PipelineError> {
        if !options.aligned {
            self.detector.check(&options.detect)?;
        }
        let options = options.clone();
        let work = move |pipeline, mut timings| async move {
            let scanning = Scanning { pipeline, options };
            let scan = scanning.run(bytes, hash, &mut timings).await?;
            Ok((scan, timings))
        };
        let (mut scan, timings) = self.drive(context, work).await?;
        scan.timings = timings;
        Ok(scan)
    }
}

impl Scanning {
    async fn run(
        &self,
        bytes: Bytes,
        hash: Option<ContentHash>,
        timings: &mut Timings,
    ) -> Result<Scan, PipelineError> {
        let mut decoded = self.open(&bytes, hash, timings).await?;
        drop(bytes);
        let mut faces = self.find(&mut decoded, timings).await?;
        if let Some(crops) = Crops::asked(&decoded.picture, &self.pipeline, &self.options) {
            for faces in faces.chunks_mut(self.pipeline.embedder.chunk_size()) {
                let began = self.now();
                let cut = crops.cut(faces.iter().map(|face| face.landmarks.as_ref()))?;
                timings.align += self.since(began);
                self.describe(faces, cut, timings).await?;
            }
        }
        let quality = match decoded.quality.take() {
            Some(measuring) => Some(picture_quality(self.measured(measuring).await?)),
            None => None,
        };
        Ok(Scan {
            image_id: None,
            cached: false,
            image: decoded.info,
            perceptual_hash: decoded.perceptual_hash,
            picture_quality: quality,
            faces,
            timings: Timings::default(),
        })
    }

    fn now(&self) -> Duration {
        self.pipeline.clock.monotonic()
    }

    fn since(&self, began: Duration) -> f64 {
        self.pipeline.since(began)
    }

    /// Decodes a picture, measures it where that is asked for, and sends it on to the detector.
    async fn open(
        &self,
        bytes: &[u8],
        hash: Option<ContentHash>,
        timings: &mut Timings,
    ) -> Result<DecodedImage, PipelineError> {
        let (pipeline, options) = (&self.pipeline, &self.options);
        let began = self.now();
        let hash = hash.unwrap_or_else(|| content_hash(bytes));
        let picture = decode_within(bytes, &pipeline.decoding, &pipeline.memory)?;
        let measure = options.kind == ScanKind::Quality && !options.aligned;
        let quality = measure.then(|| {
            let canonical = quality::canonical(&picture.pixels);
            Grader::measure(pipeline.grader.as_ref(), &canonical)
        });
        let hint = options.store.then(|| perceptual_hash(&picture.pixels));
        let info = image_info(&picture, hash);
        timings.decode = self.since(began);
        let began = self.now();
        let picture = PooledImage::new(picture.pixels, pipeline);
        let submitted = if options.aligned {
            None
        } else {
            let (detector, executor) = (&pipeline.detector, &pipeline.processing);
            let submitted = detector.submit_through(executor, &picture, &options.detect);
            Some(submitted.await)
        };
        let fallback = submitted.as_ref().and_then(|rows| rows.unprocessed);
        pipeline.check_rows(options.strict_device, Operation::ImageProcessing, fallback)?;
        timings.detect = self.since(began);
        Ok(DecodedImage {
            picture,
            info,
            perceptual_hash: hint.flatten(),
            quality,
            submitted,
        })
    }

    /// Waits for the detector's answers and reads the faces from them.
    async fn find(
        &self,
        decoded: &mut DecodedImage,
        timings: &mut Timings,
    ) -> Result<Vec<Face>, PipelineError> {
        let Some(submitted) = decoded.submitted.take() else {
            return Ok(vec![AlignedCrop::check(&decoded.picture)?.into_face()]);
        };
        let (pipeline, options) = (&self.pipeline, &self.options);
        let began = self.now();
        let detected = pipeline.detector.finish(submitted).await?;
        let operation = Operation::FaceDetection;
        pipeline.check_rows(options.strict_device, operation, detected.fallback)?;
        let queued = detected.queued.min(self.now().saturating_sub(began));
        let size = decoded.picture.dimensions();
        let faces = pipeline.detector.faces(&detected, size, &options.detect)?;
        timings.queue += millis(queued);
        timings.detect += self.since(began + queued);
        Ok(faces.into_iter().map(Face::from).collect())
    }

    /// Waits for the vectors of faces that were cut out, and judges their quality.
    async fn describe(
        &self,
        faces: &mut [Face],
        mut cut: Vec<CutFace>,
        timings: &mut Timings,
    ) -> Result<(), PipelineError> {
        let began = self.now();
        let pending: Vec<Option<Pending>> =
            cut.iter_mut().map(|face| face.embedding.take()).collect();
        let is_embedded: Vec<bool> = pending.iter().map(Option::is_some).collect();
        let embedder = &self.pipeline.embedder;
        let pending = pending.into_iter().flatten().collect();
        let embeddings = embedder.finish(pending).await?;
        let (operation, strict) = (Operation::FaceEmbedding, self.options.strict_device);
        self.pipeline
            .check_rows(strict, operation, embeddings.fallback)?;
        let queued = embeddings.queued.min(self.now().saturating_sub(began));
        timings.queue += millis(queued);
        timings.embed += self.since(began + queued);
        let mut vectors = embeddings.rows.into_iter();
        for ((face, cut), is_embedded) in faces.iter_mut().zip(cut).zip(is_embedded) {
            if is_embedded {
                face.embedding = vectors.next().flatten();
            }
            if let Some(measuring) = cut.measures {
                let subject = Subject {
                    bbox: face.bbox,
                    score: face.score,
                    landmarks: face.landmarks.as_ref(),
                    measures: self.measured(measuring).await?,
                    // The thresholds are SFace's; other embedders' norms have other scales.
                    embedding_norm: face
                        .embedding
                        .as_ref()
                        .filter(|_| embedder.spec.family == Family::Sface)
                        .map(|embedding| embedding.norm),
                };
                face.quality = Some(FaceQuality::judge(subject, self.options.preset));
            }
            face.crop = cut.png;
        }
        Ok(())
    }

    async fn measured(&self, measuring: Measuring) -> Result<ImageQuality, PipelineError> {
        let (measures, fallback) = measuring.finish().await?;
        let (operation, strict) = (Operation::QualityChecks, self.options.strict_device);
        self.pipeline.check_rows(strict, operation, fallback)?;
        Ok(measures)
    }
}

/// A picture that is an aligned crop already.
struct AlignedCrop;

impl AlignedCrop {
    fn check(picture: &RgbImage) -> Result<Self, PipelineError> {
        match picture.dimensions() {
            (ALIGNED_SIDE, ALIGNED_SIDE) => Ok(Self),
            (width, height) => Err(PipelineError::invalid_option(
                "aligned",
                format!(
                    "takes crops of {ALIGNED_SIDE}×{ALIGNED_SIDE}, and this picture is {width}×{height}"
                ),
            )),
        }
    }

    fn into_face(self) -> Face {
        let side = ALIGNED_SIDE as f32;
        Face {
            id: None,
            bbox: [0.0, 0.0, side, side].into(),
            score: None,
            landmarks: None,
            quality: None,
            embedding: None,
            crop: None,
        }
    }
}

impl From<DetectedFace> for Face {
    fn from(face: DetectedFace) -> Self {
        Self {
            id: None,
            bbox: face.bbox,
            score: Some(face.score),
            landmarks: face.landmarks,
            quality: None,
            embedding: None,
            crop: None,
        }
    }
}

pub(super) fn image_info(picture: &Decoded, hash: ContentHash) -> ImageInfo {
    ImageInfo {
        width: picture.pixels.width(),
        height: picture.pixels.height(),
        format: picture.format,
        sha256: hex(&hash),
        orientation: picture.orientation,
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
    // Microseconds are the finest that means anything here.
    (duration.as_secs_f64() * 1e6).round() / 1e3
}
