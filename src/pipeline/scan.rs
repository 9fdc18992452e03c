//! The stages of one image: decode, detect, align, measure, embed.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use image::RgbImage;
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::{
    admission::gate::Place,
    error::Error,
    imaging::{
        decode::{Picture, decode},
        geometry::{BBox, Landmarks},
        phash::perceptual_hash,
        quality::{self, PictureQuality},
        warp::ALIGNED_SIDE,
    },
    inference::{engine::Pending, operation::Operation, registry::Family},
    pipeline::{
        Held, Pipeline,
        answer::{ImageInfo, PictureQualityAnswer, Timings},
        crops::{Crops, CutFace},
        detect::{DetectedFace, Submitted},
        embed::Embedding,
        options::{ScanKind, ScanOptions},
        quality::{FaceQuality, Grader, Measuring, Subject},
    },
    pool::Stage,
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
}

/// A decoded picture with what is known of its bytes, and its rows on their way through the detector.
struct Opened {
    picture: Arc<Held>,
    info: ImageInfo,
    perceptual_hash: Option<u64>,
    quality: Option<Measuring>,
    submitted: Option<Submitted>,
    decoding: Duration,
}

/// The faces of a picture, and the first of them cut out.
struct Found {
    faces: Vec<Face>,
    cut: Vec<CutFace>,
    finding: Duration,
}

impl Pipeline {
    /// Scans one image, without the database. `hash` is that of the bytes, where it is known already.
    ///
    /// # Errors
    /// What is wrong with the image, or a fault of ours.
    pub async fn scan(
        &self,
        bytes: Bytes,
        hash: Option<ContentHash>,
        options: &ScanOptions,
    ) -> Result<Scan, Error> {
        if !options.aligned {
            self.detector.check(&options.detect)?;
        }
        let mut timings = Timings::default();
        let started = self.clock.monotonic();
        let place = self.gate.enter(options.lane).await;
        timings.queue = millis(self.clock.monotonic() - started);

        let mut opened = self.open(bytes, hash, place, options, &mut timings).await?;
        let crops = Crops::asked(&opened.picture, self, options);
        let found = self
            .find(&mut opened, crops.clone(), options, &mut timings)
            .await?;
        let (mut faces, mut cut) = (found.faces, found.cut);
        let mut described = 0;
        while !cut.is_empty() {
            let (now, later) = faces[described..].split_at_mut(cut.len());
            described += now.len();
            self.describe(now, cut, options, &mut timings).await?;
            cut = match &crops {
                Some(crops) if !later.is_empty() => {
                    let points: Vec<_> = later.iter().map(|face| face.landmarks).collect();
                    let crops = crops.clone();
                    let job = move || crops.cut(points.iter().map(Option::as_ref));
                    let cut = self.work(Stage::Finish, job).await?;
                    timings.queue += millis(cut.queued);
                    timings.align += millis(cut.took);
                    cut.value
                }
                _ => Vec::new(),
            };
        }
        let quality = match opened.quality.take() {
            Some(measuring) => {
                let (measures, fallback) = measuring.finish().await?;
                let operation = Operation::QualityChecks;
                self.check_rows(options.strict_device, operation, fallback)?;
                Some(picture_quality(measures))
            }
            None => None,
        };
        timings.total = millis(self.clock.monotonic() - started);
        Ok(Scan {
            image_id: None,
            cached: false,
            image: opened.info,
            perceptual_hash: opened.perceptual_hash,
            picture_quality: quality,
            faces,
            timings,
        })
    }

    /// Decodes a picture, measures it where that is asked for, and sends it on to the detector.
    async fn open(
        &self,
        bytes: Bytes,
        hash: Option<ContentHash>,
        place: Place,
        options: &ScanOptions,
        timings: &mut Timings,
    ) -> Result<Opened, Error> {
        let decoding = self.decoding;
        let measure = options.kind == ScanKind::Quality && !options.aligned;
        let (hint, grader) = (options.store, self.grader.clone());
        let detect = (!options.aligned).then(|| (self.detector.clone(), options.detect.clone()));
        let clock = Arc::clone(&self.clock);
        let opened = self
            .work(Stage::Begin, move || {
                let began = clock.monotonic();
                let hash = hash.unwrap_or_else(|| content_hash(&bytes));
                let picture = decode(&bytes, &decoding)?;
                let quality = measure.then(|| {
                    Grader::measure(grader.as_ref(), &quality::canonical(&picture.pixels))
                });
                let info = image_info(&picture, hash);
                let perceptual_hash = hint.then(|| perceptual_hash(&picture.pixels)).flatten();
                let decoding = clock.monotonic().saturating_sub(began);
                Ok(Opened {
                    submitted: detect
                        .map(|(detector, options)| detector.submit(&picture.pixels, &options)),
                    picture: Held::new(picture.pixels, place),
                    info,
                    perceptual_hash,
                    quality,
                    decoding,
                })
            })
            .await?;
        timings.queue += millis(opened.queued);
        timings.decode = millis(opened.value.decoding);
        timings.detect = millis(opened.took.saturating_sub(opened.value.decoding));
        Ok(opened.value)
    }

    /// Waits for the detector, and cuts the first faces out.
    async fn find(
        &self,
        opened: &mut Opened,
        crops: Option<Crops>,
        options: &ScanOptions,
        timings: &mut Timings,
    ) -> Result<Found, Error> {
        let detected = match opened.submitted.take() {
            Some(submitted) => {
                let began = self.clock.monotonic();
                let detected = self.detector.finish(submitted).await?;
                let operation = Operation::FaceDetection;
                self.check_rows(options.strict_device, operation, detected.fallback)?;
                let waited = self.clock.monotonic().saturating_sub(began);
                timings.queue += millis(detected.queued.min(waited));
                timings.detect += millis(waited.saturating_sub(detected.queued));
                Some((self.detector.clone(), detected, options.detect.clone()))
            }
            None => None,
        };
        if let (None, Some((detector, detected, options))) = (&crops, &detected)
            && options.is_read_quickly()
        {
            // A tenth of a millisecond's work, which the way through the pool would double.
            let began = self.clock.monotonic();
            let faces = detector.faces(detected, opened.picture.dimensions(), options)?;
            let finding = self.clock.monotonic().saturating_sub(began);
            timings.detect += millis(finding);
            return Ok(Found {
                faces: faces.into_iter().map(Face::from).collect(),
                cut: Vec::new(),
                finding,
            });
        }
        let picture = Arc::clone(&opened.picture);
        let clock = Arc::clone(&self.clock);
        let found = self
            .work(Stage::Finish, move || {
                let began = clock.monotonic();
                let faces: Vec<Face> = match detected {
                    Some((detector, detected, options)) => {
                        let faces = detector.faces(&detected, picture.dimensions(), &options)?;
                        faces.into_iter().map(Face::from).collect()
                    }
                    None => vec![AlignedCrop::check(&picture)?.into_face()],
                };
                let finding = clock.monotonic().saturating_sub(began);
                let points = faces.iter().map(|face| face.landmarks.as_ref());
                let cut = crops.map_or(Ok(Vec::new()), |crops| crops.cut(points))?;
                Ok(Found {
                    faces,
                    cut,
                    finding,
                })
            })
            .await?;
        timings.queue += millis(found.queued);
        timings.detect += millis(found.value.finding);
        timings.align = millis(found.took.saturating_sub(found.value.finding));
        Ok(found.value)
    }

    /// Waits for the vectors of faces that were cut out, and judges their quality.
    async fn describe(
        &self,
        faces: &mut [Face],
        cut: Vec<CutFace>,
        options: &ScanOptions,
        timings: &mut Timings,
    ) -> Result<(), Error> {
        let began = self.clock.monotonic();
        let mut cut = cut;
        let pending: Vec<Option<Pending>> =
            cut.iter_mut().map(|face| face.embedding.take()).collect();
        let is_embedded: Vec<bool> = pending.iter().map(Option::is_some).collect();
        let embeddings = self
            .embedder
            .finish(pending.into_iter().flatten().collect())
            .await?;
        let operation = Operation::FaceEmbedding;
        self.check_rows(options.strict_device, operation, embeddings.fallback)?;
        let waited = self.clock.monotonic().saturating_sub(began);
        timings.queue += millis(embeddings.queued.min(waited));
        timings.embed += millis(waited.saturating_sub(embeddings.queued));
        let mut vectors = embeddings.rows.into_iter();
        for ((face, cut), is_embedded) in faces.iter_mut().zip(cut).zip(is_embedded) {
            if is_embedded {
                face.embedding = vectors.next().flatten();
            }
            let measures = match cut.measures {
                Some(measuring) => {
                    let (measures, fallback) = measuring.finish().await?;
                    let operation = Operation::QualityChecks;
                    self.check_rows(options.strict_device, operation, fallback)?;
                    Some(measures)
                }
                None => None,
            };
            face.quality = measures.map(|measures| {
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
            face.crop = cut.png;
        }
        Ok(())
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

fn picture_quality(measures: PictureQuality) -> PictureQualityAnswer {
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
