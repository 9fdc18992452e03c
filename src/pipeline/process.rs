//! A list of operations on a picture, or on the frames that masks belong to.

use std::sync::Arc;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use bytes::Bytes;
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::{
    admission::Priority,
    config::Config,
    context::RequestContext,
    pipeline::error::PipelineError,
    pipeline::{
        Pipeline, PooledImage,
        answer::{ImageInfo, Timings},
        budget::Budget,
        options::{DetectOptions, DetectRequest, HasPriority},
        preprocess::Filling,
        scan::{content_hash, image_info},
    },
};
use facescan_imaging::{
    crop::{Region, Unmet, mask_box},
    decode::{decode, decode_within},
    encode::OutputFormat,
    preprocess::Profile,
};
use facescan_inference::pool::Stage;
use facescan_inference::{
    image_executor::{self, HealthProbe},
    operation::Operation,
    registry::Thresholds,
};

use blurring::Blurring;
use canvas::Canvas;
pub use step::{MOST_STEPS, Method, Step};

mod anonymize;
mod blurring;
mod canvas;
mod fitting;
mod step;

/// Asks a device for a small picture blurred, and resized as pictures and detectors are.
pub(crate) fn probe() -> HealthProbe {
    let resized = [Profile::Pil, Profile::Opencv].map(Filling::known);
    image_executor::all_probes([
        image_executor::health_probe(Blurring::known()),
        image_executor::health_probe(resized),
    ])
}

/// Longest text of a list of operations, in bytes.
const LONGEST_TEXT: usize = 1 << 16;

/// Options of `/process`; what is absent has its default from the settings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema, IntoParams)]
#[serde(deny_unknown_fields)]
#[schema(as = ProcessOptions)]
#[into_params(parameter_in = Query)]
pub struct ProcessRequest {
    /// What is done, in order: a list, or its JSON as text.
    #[serde(default, deserialize_with = "list_or_text")]
    #[param(value_type = String, example = r#"[{"op":"resize","width":640}]"#)]
    #[schema(min_items = 1, max_items = 16)]
    pub operations: Vec<Step>,
    /// The format of the pictures that come back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format: Option<ProcessedFormat>,
    /// The quality of a JPEG, 1 to 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 100)]
    pub jpeg_quality: Option<u8>,
    /// For faces: lowest detection score, 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 1)]
    pub min_score: Option<f32>,
    /// For faces: boxes that overlap a better one by more than this IoU are dropped, 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 1)]
    pub nms_iou: Option<f32>,
    /// For faces: side of the square that pictures are fitted into for detection, in pixels: a multiple of 32.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 64, maximum = 4096, multiple_of = 32)]
    pub det_size: Option<u32>,
    /// For faces: a second such side, for faces that fill the frame; 0 for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 4096, multiple_of = 32)]
    pub second_det_size: Option<u32>,
    /// For faces: at most so many, the largest first; 0 for all.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 4294967295u64)]
    pub max_faces: Option<usize>,
    /// For faces: those whose box has a shorter side below this are dropped, in pixels of the picture.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 65535)]
    pub min_face_size: Option<f32>,
    /// Processed pictures are never stored: `false`, or absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(ignore)]
    #[param(ignore)]
    pub store: Option<bool>,
    /// Which queue the images wait in; absent for bulk when there are many, interactive otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<Priority>,
    /// Fail when an operation would not run on the device that the settings ask for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strict_device: Option<bool>,
    /// Whether results carry `timings_ms`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timings: Option<bool>,
}

impl HasPriority for ProcessRequest {
    const TAKES_MASKS: bool = true;

    fn priority(&self) -> Option<Priority> {
        self.priority
    }
}

/// The query string and the parts of a form carry the list as text.
fn list_or_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Step>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "expected a list of operations, or its JSON")]
    enum Sent {
        Text(String),
        List(Vec<serde_json::Value>),
    }
    let list = match Sent::deserialize(deserializer)? {
        Sent::Text(text) if text.len() > LONGEST_TEXT => {
            let detail = format!("is longer than {LONGEST_TEXT} bytes");
            return Err(serde::de::Error::custom(detail));
        }
        Sent::Text(text) => serde_json::from_str(&text).map_err(serde::de::Error::custom)?,
        Sent::List(list) => list,
    };
    // One by one, so that an error is about the operation and not about the list.
    list.into_iter()
        .map(|step| serde_json::from_value(step).map_err(serde::de::Error::custom))
        .collect()
}

/// The format of a processed picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ProcessedFormat {
    /// JPEG, at `jpeg_quality`.
    Jpeg,
    /// PNG, lossless.
    Png,
    /// WebP, lossless.
    Webp,
    /// AVIF, lossy.
    Avif,
    /// NumPy's: `[height, width, 3]` bytes, or the floats of `normalize`.
    Npy,
}

impl ProcessedFormat {
    /// The media type.
    pub fn media_type(self) -> &'static str {
        match self {
            Self::Jpeg => "image/jpeg",
            Self::Png => "image/png",
            Self::Webp => "image/webp",
            Self::Avif => "image/avif",
            Self::Npy => "application/x-npy",
        }
    }

    /// The ending of a file's name.
    pub fn ending(self) -> &'static str {
        match self {
            Self::Jpeg => "jpg",
            Self::Png => "png",
            Self::Webp => "webp",
            Self::Avif => "avif",
            Self::Npy => "npy",
        }
    }
}

/// A request's options with every default filled in and every range checked.
#[derive(Clone, Debug)]
pub struct ProcessPlan {
    steps: Arc<[Step]>,
    format: ProcessedFormat,
    output: OutputFormat,
    detect: DetectOptions,
    /// What the masks cover, and their size.
    mask: Option<Masked>,
    max_pixels: u64,
    budget: Budget,
    /// Whether falling back to another device is an error.
    pub strict_device: bool,
    timings: bool,
}

/// The union of the masks.
#[derive(Clone, Copy, Debug)]
struct Masked {
    size: (u32, u32),
    /// `None` when they cover nothing.
    region: Option<Region>,
}

/// The result of `/process` for one image.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ProcessResult {
    /// The picture that was sent.
    pub image: ImageInfo,
    /// The pictures that come back: one, or one for each face that was cut out.
    pub processed: Vec<ProcessedPicture>,
    /// What was done, in order.
    pub steps: Vec<StepReport>,
    /// Milliseconds by stage; with `timings=true`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timings_ms: Option<Timings>,
}

/// A processed picture.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ProcessedPicture {
    /// Its encoding.
    pub format: ProcessedFormat,
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
    /// What was cut out of the picture before it, when something was: x1, y1, x2, y2.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub region: Option<[u32; 4]>,
    /// The encoded picture, base64.
    #[serde(serialize_with = "as_base64")]
    #[schema(value_type = String)]
    pub data: Bytes,
}

/// What an operation did.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct StepReport {
    /// Its name.
    pub op: &'static str,
    /// The whole resize's profile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<Profile>,
    /// What the masks' crop could not keep to; with `mask_crop`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unmet: Option<Vec<Unmet>>,
    /// Whether the padding met the frame's edge; with `mask_crop`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub padding_clipped: Option<bool>,
    /// Whether the masks covered nothing, so that nothing was cut; with `mask_crop`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub empty: Option<bool>,
    /// How many faces it concerned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub faces: Option<usize>,
    /// How often faces were looked for, the last time in vain; with `anonymize`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub searches: Option<u32>,
}

fn as_base64<S: serde::Serializer>(data: &Bytes, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&BASE64_STANDARD.encode(data))
}

impl ProcessRequest {
    /// Fills in the defaults and checks the ranges. `thresholds` are the detector's own, `masks` how many came along.
    ///
    /// # Errors
    /// [`PipelineError::InvalidOption`] naming the option.
    pub fn resolve(
        self,
        config: &Config,
        thresholds: &Thresholds,
        masks: usize,
    ) -> Result<ProcessPlan, PipelineError> {
        let longest = config.limits.max_width.min(config.limits.max_height);
        step::check_all(&self.operations, masks, longest)?;
        let quality = self.jpeg_quality.unwrap_or(config.enhancement.jpeg_quality);
        if !(1..=100).contains(&quality) {
            return Err(PipelineError::invalid_option(
                "jpeg_quality",
                "must be from 1 to 100",
            ));
        }
        if self.store == Some(true) {
            return Err(PipelineError::invalid_option(
                "store",
                "processed pictures are never stored; leave it out or send false",
            ));
        }
        let asked = DetectRequest {
            min_score: self.min_score,
            nms_iou: self.nms_iou,
            det_size: self.det_size,
            second_det_size: self.second_det_size,
            max_faces: self.max_faces,
            min_face_size: self.min_face_size,
        };
        let has_floats = matches!(self.operations.last(), Some(Step::Normalize { .. }));
        let usual = if has_floats {
            ProcessedFormat::Npy
        } else {
            ProcessedFormat::Png
        };
        let format = self.format.unwrap_or(usual);
        if has_floats && format != ProcessedFormat::Npy {
            return Err(PipelineError::invalid_option(
                "format",
                "normalised samples are no picture: ask for npy",
            ));
        }
        Ok(ProcessPlan {
            steps: self.operations.into(),
            format,
            output: match format {
                ProcessedFormat::Jpeg => OutputFormat::Jpeg { quality },
                ProcessedFormat::Webp => OutputFormat::Webp,
                ProcessedFormat::Avif => OutputFormat::Avif,
                ProcessedFormat::Png | ProcessedFormat::Npy => OutputFormat::Png,
            },
            detect: asked.resolve(&config.detection, thresholds)?,
            mask: None,
            budget: Budget::default(),
            max_pixels: config.limits.max_pixels,
            strict_device: self.strict_device.unwrap_or(false),
            timings: self.timings.unwrap_or(false),
        })
    }
}

impl ProcessPlan {
    /// The same with all of its bytes, for an answer of its own.
    pub fn anew(&self) -> Self {
        Self {
            budget: Budget::default(),
            ..self.clone()
        }
    }

    /// The operations that take part.
    pub fn operations(&self) -> Vec<Operation> {
        let mut operations = vec![Operation::ImageProcessing];
        if self.steps.iter().any(Step::finds_faces) {
            operations.push(Operation::FaceDetection);
        }
        operations
    }
}

/// What processing an image gave, and how long it took.
pub struct Processed {
    /// The result as it is answered.
    pub result: ProcessResult,
    /// Milliseconds by stage, whether or not the answer carries them.
    pub timings: Timings,
}

impl Pipeline {
    /// Reads masks of one size, and puts what they cover together.
    ///
    /// # Errors
    /// What is wrong with a mask.
    pub async fn masked(
        &self,
        context: &RequestContext,
        plan: ProcessPlan,
        masks: Vec<Bytes>,
    ) -> Result<ProcessPlan, PipelineError> {
        if masks.is_empty() {
            return Ok(plan);
        }
        let decoding = self.decoding;
        let place = self.decode_permits.acquire(context.priority).await;
        let read = async move {
            let _place = place;
            let mut size = None;
            let mut region: Option<Region> = None;
            for bytes in &masks {
                let mask = decode(bytes, &decoding)?.pixels;
                if *size.get_or_insert(mask.dimensions()) != mask.dimensions() {
                    return Err(PipelineError::invalid_option(
                        "mask",
                        "the masks differ in size",
                    ));
                }
                let grey = image::imageops::grayscale(&mask);
                let found = mask_box([&grey]);
                region = match (region, found) {
                    (Some(a), Some(b)) => Some(a.union(b)),
                    (a, b) => a.or(b),
                };
                // Between two masks, so that a caller that has left is noticed.
                tokio::task::yield_now().await;
            }
            Ok(size.map(|size| Masked { size, region }))
        };
        let mask = self.pool.drive(Stage::Begin, read).await??;
        Ok(ProcessPlan { mask, ..plan })
    }

    /// Processes one image.
    ///
    /// # Errors
    /// What is wrong with the image, or a fault of ours.
    pub async fn process(
        &self,
        context: &RequestContext,
        bytes: Bytes,
        plan: &ProcessPlan,
    ) -> Result<Processed, PipelineError> {
        if plan.steps.iter().any(Step::finds_faces) {
            self.detector.check(&plan.detect)?;
        }
        let (told, plan) = (plan.timings, plan.clone());
        let work = move |pipeline: Self, mut timings| async move {
            let result = pipeline.process_now(&bytes, &plan, &mut timings).await?;
            Ok((result, timings))
        };
        let (mut result, timings) = self.drive(context, work).await?;
        result.timings_ms = told.then_some(timings);
        Ok(Processed { result, timings })
    }

    async fn process_now(
        &self,
        bytes: &[u8],
        plan: &ProcessPlan,
        timings: &mut Timings,
    ) -> Result<ProcessResult, PipelineError> {
        let began = self.clock.monotonic();
        let picture = decode_within(bytes, &self.decoding, &self.memory)?;
        let info = image_info(&picture, content_hash(bytes));
        let held = PooledImage::new(picture.pixels, self);
        timings.decode = self.since(began);
        let began = self.clock.monotonic();
        let mut canvas = Canvas::new(self, plan, &held, info);
        for step in plan.steps.iter() {
            canvas.take(step).await?;
        }
        let result = canvas.finish()?;
        timings.process = self.since(began);
        Ok(result)
    }
}
