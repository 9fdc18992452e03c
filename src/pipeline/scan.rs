//! The stages of one image: decode, detect, align, measure, embed.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use image::RgbImage;
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::{
    error::Error,
    imaging::{
        decode::{DecodeError, Picture, decode},
        encode::{OutputFormat, encode},
        geometry::{BBox, Landmarks},
        phash::perceptual_hash,
        quality::{self, PictureQuality},
        warp::{ALIGNED_SIDE, align_face},
    },
    inference::{backend::Batch, operation::Operation, registry::Family},
    pipeline::{
        Pipeline,
        answer::{ImageInfo, PictureQualityAnswer, Timings},
        detect::DetectedFace,
        embed::{Embedder, Embedding},
        options::{ScanKind, ScanOptions},
        quality::{FaceQuality, Subject},
    },
};

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
            operations.push(Operation::FaceDetection);
        }
        if self.kind == ScanKind::Embed {
            operations.push(Operation::FaceEmbedding);
        }
        if self.quality {
            operations.push(Operation::QualityChecks);
        }
        operations
    }

    /// Whether anything is done with the faces' pixels.
    fn needs_crops(&self) -> bool {
        self.kind == ScanKind::Embed || self.quality || self.crops
    }
}

/// A decoded picture with what is known of its bytes.
pub(super) struct Opened {
    pub picture: Arc<RgbImage>,
    pub info: ImageInfo,
    pub perceptual_hash: Option<u64>,
    pub quality: Option<PictureQualityAnswer>,
}

/// The crops of a picture's faces, made ready for the models in one piece of CPU work.
struct Prepared {
    faces: Vec<PreparedFace>,
    batches: Vec<Batch>,
}

struct PreparedFace {
    /// `None` when the points are degenerate, so that no crop can be cut.
    measures: Option<PictureQuality>,
    has_crop: bool,
    png: Option<Vec<u8>>,
}

impl Pipeline {
    /// Scans one image, without the database.
    ///
    /// # Errors
    /// What is wrong with the image, or a fault of ours.
    pub async fn scan(
        &self,
        bytes: Bytes,
        hash: ContentHash,
        options: &ScanOptions,
    ) -> Result<Scan, Error> {
        let mut timings = Timings::default();
        let started = self.clock.monotonic();
        let _room = self.room().await?;
        let opened = self.open(bytes, hash, options).await?;
        timings.decode = millis(self.clock.monotonic() - started);

        let detecting = self.clock.monotonic();
        let found = if options.aligned {
            vec![AlignedCrop::check(&opened.picture)?.into_face()]
        } else {
            let detections = self
                .detector
                .detect(&opened.picture, &options.detect)
                .await?;
            timings.queue += millis(detections.queued);
            timings.detect =
                millis((self.clock.monotonic() - detecting).saturating_sub(detections.queued));
            detections.faces.into_iter().map(Face::from).collect()
        };
        let faces = if options.needs_crops() && !found.is_empty() {
            self.describe(&opened.picture, found, options, &mut timings)
                .await?
        } else {
            found
        };
        timings.total = millis(self.clock.monotonic() - started);
        Ok(Scan {
            image_id: None,
            cached: false,
            image: opened.info,
            perceptual_hash: opened.perceptual_hash,
            picture_quality: opened.quality,
            faces,
            timings,
        })
    }

    /// Decodes a picture, and measures it where that is asked for.
    async fn open(
        &self,
        bytes: Bytes,
        hash: ContentHash,
        options: &ScanOptions,
    ) -> Result<Opened, Error> {
        let decoding = self.decoding;
        let measure = options.kind == ScanKind::Quality && !options.aligned;
        let hint = options.store;
        let opened = self
            .pool
            .run(move || {
                let picture = decode(&bytes, &decoding)?;
                let quality = measure.then(|| picture_quality(&picture.pixels));
                Ok::<_, DecodeError>(Opened {
                    info: image_info(&picture, hash),
                    perceptual_hash: hint.then(|| perceptual_hash(&picture.pixels)).flatten(),
                    quality,
                    picture: Arc::new(picture.pixels),
                })
            })
            .await??;
        Ok(opened)
    }

    /// Aligns the faces, measures and embeds them.
    async fn describe(
        &self,
        picture: &Arc<RgbImage>,
        mut faces: Vec<Face>,
        options: &ScanOptions,
        timings: &mut Timings,
    ) -> Result<Vec<Face>, Error> {
        let embed = options.kind == ScanKind::Embed;
        if embed && !options.aligned && faces.iter().any(|face| face.landmarks.is_none()) {
            return Err(Error::invalid_option(
                "aligned",
                format!(
                    "the detector {} gives no landmarks, so faces cannot be aligned: send aligned crops with \
                     aligned=true, or configure a detector with landmarks",
                    self.detector.spec.id
                ),
            ));
        }
        let aligning = self.clock.monotonic();
        let work = CropWork {
            picture: Arc::clone(picture),
            landmarks: faces.iter().map(|face| face.landmarks).collect(),
            embedder: embed.then(|| self.embedder.clone()),
            measure: options.quality,
            keep: options.crops,
            aligned: options.aligned,
        };
        let prepared = self.pool.run(move || work.run()).await??;
        timings.align = millis(self.clock.monotonic() - aligning);

        let embeddings = self.embedder.embed(prepared.batches).await?;
        timings.queue += millis(embeddings.queued);
        timings.embed = millis(embeddings.ran);
        let mut vectors = embeddings.rows.into_iter();
        for (face, ready) in faces.iter_mut().zip(prepared.faces) {
            if embed && ready.has_crop {
                face.embedding = vectors.next().flatten();
            }
            face.quality = ready.measures.map(|measures| {
                let subject = Subject {
                    bbox: face.bbox,
                    score: face.score,
                    landmarks: face.landmarks.as_ref(),
                    measures,
                    // The thresholds are SFace's; other embedders' norms have other scales.
                    embedding_norm: face
                        .embedding
                        .as_ref()
                        .filter(|_| self.embedder.spec.family == Family::Sface)
                        .map(|embedding| embedding.norm),
                };
                FaceQuality::judge(subject, options.preset)
            });
            face.crop = ready.png;
        }
        Ok(faces)
    }
}

/// The CPU work between detection and embedding: every crop of one picture.
struct CropWork {
    picture: Arc<RgbImage>,
    landmarks: Vec<Option<Landmarks>>,
    embedder: Option<Embedder>,
    measure: bool,
    keep: bool,
    aligned: bool,
}

impl CropWork {
    fn run(self) -> Result<Prepared, Error> {
        let crops: Vec<Option<RgbImage>> = self
            .landmarks
            .iter()
            .map(|points| self.crop(points.as_ref()))
            .collect();
        let batches = match &self.embedder {
            Some(embedder) => embedder.batches(crops.iter().flatten()),
            None => Vec::new(),
        };
        let faces = crops
            .into_iter()
            .map(|crop| {
                let png = match &crop {
                    Some(crop) if self.keep => Some(encode(crop, OutputFormat::Png)?),
                    _ => None,
                };
                Ok(PreparedFace {
                    measures: crop.as_ref().filter(|_| self.measure).map(quality::measure),
                    has_crop: crop.is_some(),
                    png,
                })
            })
            .collect::<Result<_, Error>>()?;
        Ok(Prepared { faces, batches })
    }

    fn crop(&self, landmarks: Option<&Landmarks>) -> Option<RgbImage> {
        if self.aligned {
            return Some(self.picture.as_ref().clone());
        }
        align_face(&self.picture, landmarks?)
    }
}

/// A picture that is an aligned crop already.
struct AlignedCrop;

impl AlignedCrop {
    fn check(picture: &RgbImage) -> Result<Self, Error> {
        match picture.dimensions() {
            (ALIGNED_SIDE, ALIGNED_SIDE) => Ok(Self),
            (width, height) => Err(Error::invalid_option(
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

pub(super) fn image_info(picture: &Picture, hash: ContentHash) -> ImageInfo {
    ImageInfo {
        width: picture.pixels.width(),
        height: picture.pixels.height(),
        format: picture.format,
        sha256: hex(&hash),
        orientation: picture.orientation,
    }
}

fn picture_quality(picture: &RgbImage) -> PictureQualityAnswer {
    let measures = quality::measure(&quality::canonical(picture));
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
