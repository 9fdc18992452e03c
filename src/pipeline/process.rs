//! Runs a list of operations on an image, with masks if the request has some.

use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::{
    admission::Priority,
    config::{Config, DetSize},
    context::RequestContext,
    ingest::intake::LoadedImage,
    pipeline::error::PipelineError,
    pipeline::{
        Pipeline, PooledImage,
        answer::ImageInfo,
        base64_text,
        budget::Budget,
        fan_out::ImageOperation,
        options::{DetectOptions, DetectRequest, RequestOptions, schema},
        preprocess::RowJob,
        run::{ImageRun, RunOptions, RunOutput},
        scan::{content_hash, image_info},
        stored::StoredScans,
        work,
    },
};
use facescan_imaging::{
    crop::{Region, Unmet},
    encode::OutputFormat,
    preprocess::Profile,
};
use facescan_inference::{
    device::DeviceRun,
    device_task::DeviceTask,
    image_executor::{self, HealthProbe},
    registry::Thresholds,
};

use blur_job::BlurJob;
use canvas::Canvas;
pub use step::{MAX_STEPS, Method, Step};

mod anonymize;
mod blur_job;
mod canvas;
mod fitting;
mod masks;
mod need;
mod price;
mod step;

/// Returns the probe of the device: it blurs a small image, and resizes it as `/process` and the detector do.
pub(crate) fn probe() -> HealthProbe {
    let resized = [Profile::Pil, Profile::Opencv].map(RowJob::probe);
    image_executor::all_probes([
        image_executor::health_probe(BlurJob::probe()),
        image_executor::health_probe(resized),
    ])
}

/// The maximum length of a list of operations as text, in bytes.
const MAX_TEXT_BYTES: usize = 1 << 16;

/// Options of `/process`. The settings have the defaults.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema, IntoParams)]
#[serde(deny_unknown_fields)]
#[schema(as = ProcessOptions)]
#[into_params(parameter_in = Query)]
pub struct ProcessRequest {
    /// The operations, in order: a list, or its JSON as text.
    #[serde(default, deserialize_with = "list_or_text")]
    #[param(value_type = String, example = r#"[{"op":"resize","width":640}]"#)]
    #[schema(min_items = 1, max_items = 16)]
    pub operations: Vec<Step>,
    /// The format of the processed images.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format: Option<ProcessedFormat>,
    /// The quality of a JPEG, 1 to 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 100)]
    pub jpeg_quality: Option<u8>,
    /// For faces: the lowest detection score, 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 1)]
    pub min_score: Option<f32>,
    /// For faces: the NMS drops boxes that overlap a better box by more than this IoU, 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 1)]
    pub nms_iou: Option<f32>,
    /// For faces: the longer side of the detector's input, to which images are scaled, in pixels. A multiple of 32.
    /// `fit` shrinks images to 640 and does not enlarge smaller ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = schema::det_size)]
    pub det_size: Option<DetSize>,
    /// For faces: a second side, for faces that fill the image, or 0 for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 4096, multiple_of = 32)]
    pub second_det_size: Option<u32>,
    /// For faces: the maximum number. The largest faces are kept. 0 means no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 4294967295u64)]
    pub max_faces: Option<usize>,
    /// For faces: the shortest side of the box, in pixels of the image. Smaller faces are dropped.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 65535)]
    pub min_face_size: Option<f32>,
    /// Processed images are never stored. Only `false` is accepted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(ignore)]
    #[param(ignore)]
    pub store: Option<bool>,
    /// The queue of the images. By default, bulk for many images and interactive otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<Priority>,
    /// Whether to fail if an operation would not run on the device that the settings name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strict_device: Option<bool>,
    /// Whether results have `timings_ms`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timings: Option<bool>,
}

impl RequestOptions for ProcessRequest {
    const TAKES_MASKS: bool = true;

    fn priority(&self) -> Option<Priority> {
        self.priority
    }
}

/// Reads the list. In a query string and in the parts of a form, the list is JSON text.
fn list_or_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Step>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "expected a list of operations, or its JSON")]
    enum Sent {
        Text(String),
        List(Vec<serde_json::Value>),
    }
    let list = match Sent::deserialize(deserializer)? {
        Sent::Text(text) if text.len() > MAX_TEXT_BYTES => {
            let detail = format!("is longer than {MAX_TEXT_BYTES} bytes");
            return Err(serde::de::Error::custom(detail));
        }
        Sent::Text(text) => serde_json::from_str(&text).map_err(serde::de::Error::custom)?,
        Sent::List(list) => list,
    };
    // Each operation is parsed alone, so that an error names the operation.
    list.into_iter()
        .map(|step| serde_json::from_value(step).map_err(serde::de::Error::custom))
        .collect()
}

/// The format of a processed image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ProcessedFormat {
    /// JPEG, with the quality `jpeg_quality`.
    Jpeg,
    /// PNG, lossless.
    Png,
    /// WebP, lossless.
    Webp,
    /// AVIF, lossy.
    Avif,
    /// NumPy: bytes `[height, width, 3]`, or the floats of `normalize`.
    Npy,
}

impl ProcessedFormat {
    /// Returns the media type.
    pub fn media_type(self) -> &'static str {
        match self {
            Self::Jpeg => "image/jpeg",
            Self::Png => "image/png",
            Self::Webp => "image/webp",
            Self::Avif => "image/avif",
            Self::Npy => "application/x-npy",
        }
    }

    /// Returns the extension of file names.
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

/// The options of a request, with every default filled in and every range checked.
#[derive(Clone, Debug)]
pub struct ProcessPlan {
    steps: Arc<[Step]>,
    format: ProcessedFormat,
    jpeg_quality: u8,
    detect: DetectOptions,
    /// The union of the masks. `None` if the request has no masks.
    mask: Option<MaskUnion>,
    max_pixels: u64,
    budget: Budget,
    /// The options of the run.
    pub run: RunOptions,
}

/// The union of the masks.
#[derive(Clone, Copy, Debug)]
struct MaskUnion {
    size: (u32, u32),
    /// The box around the masks. `None` if they cover nothing.
    region: Option<Region>,
}

/// The result of `/process` for one image.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ProcessResult {
    /// The properties of the image that was sent.
    pub image: ImageInfo,
    /// The processed images: one, or one for each face that was cut out.
    pub processed: Vec<ProcessedFile>,
    /// A report of each operation, in order.
    pub steps: Vec<StepReport>,
}

/// A processed image.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ProcessedFile {
    /// The format of `data`.
    pub format: ProcessedFormat,
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
    /// The region that the last cut took from the image before it: x1, y1, x2, y2. Absent if nothing was cut.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub region: Option<[u32; 4]>,
    /// The encoded image, in base64.
    #[serde(serialize_with = "base64_text::serialize")]
    #[schema(value_type = String)]
    pub data: Bytes,
}

/// The report of one operation.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct StepReport {
    /// The name of the operation.
    pub op: &'static str,
    /// The profile of the resize. Absent if `antialias` was set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<Profile>,
    /// The constraints that the crop does not meet. Present with `mask_crop`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unmet: Option<Vec<Unmet>>,
    /// Whether the padding was clipped at the edge of the image. Present with `mask_crop`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub padding_clipped: Option<bool>,
    /// Whether the masks covered nothing, so that nothing was cut. Present with `mask_crop`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub empty: Option<bool>,
    /// The number of faces that the operation found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub faces: Option<usize>,
    /// The number of searches for faces. The last one found none. Present with `anonymize`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub searches: Option<u32>,
}

impl ProcessRequest {
    /// Fills in the defaults and checks the ranges. `thresholds` are those of the detector, and `masks` is the number
    /// of masks in the request.
    ///
    /// # Errors
    /// [`PipelineError::InvalidOption`] with the name of the option.
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
                "processed images are never stored; leave it out or send false",
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
                "normalised samples are not an image; use the format npy",
            ));
        }
        Ok(ProcessPlan {
            steps: self.operations.into(),
            format,
            jpeg_quality: quality,
            detect: asked.resolve(&config.detection, thresholds)?,
            mask: None,
            budget: Budget::default(),
            max_pixels: config.limits.max_pixels,
            run: RunOptions::new(self.strict_device, self.timings),
        })
    }
}

impl ProcessPlan {
    /// Returns the options for finding faces.
    pub fn detect(&self) -> &DetectOptions {
        &self.detect
    }

    /// Returns the format of the processed images.
    pub fn format(&self) -> ProcessedFormat {
        self.format
    }

    /// Returns the quality of a JPEG.
    pub fn jpeg_quality(&self) -> u8 {
        self.jpeg_quality
    }

    fn output(&self) -> OutputFormat {
        match self.format {
            ProcessedFormat::Jpeg => OutputFormat::Jpeg {
                quality: self.jpeg_quality,
            },
            ProcessedFormat::Webp => OutputFormat::Webp,
            ProcessedFormat::Avif => OutputFormat::Avif,
            ProcessedFormat::Png | ProcessedFormat::Npy => OutputFormat::Png,
        }
    }

    /// Returns the price of an image of a size. An image that is cut counts in full, because the size of a face is not
    /// known yet.
    fn work(&self, size: (u32, u32)) -> u64 {
        let mut passes = work::DECODE.saturating_mul(work::pixels(size));
        let mut size = size;
        for step in self.steps.iter() {
            passes = passes.saturating_add(step.work(size));
            size = step.size_after(size);
        }
        passes.saturating_add(self.encoding(size))
    }

    /// Returns the price of encoding an image of a size.
    fn encoding(&self, size: (u32, u32)) -> u64 {
        let passes = match self.format {
            ProcessedFormat::Npy => work::PLAIN,
            _ => work::encode(self.output()),
        };
        passes.saturating_mul(work::pixels(size))
    }

    /// Returns a copy with a new byte budget, for another answer.
    pub fn with_new_budget(&self) -> Self {
        Self {
            budget: Budget::default(),
            ..self.clone()
        }
    }
}

impl ImageOperation for ProcessPlan {
    type Output = ProcessResult;

    fn name(&self) -> &'static str {
        "process"
    }

    fn operations(&self) -> Vec<DeviceTask> {
        let mut operations = vec![DeviceTask::ImageProcessing];
        if self.steps.iter().any(Step::finds_faces) {
            operations.push(DeviceTask::FaceDetection);
        }
        operations
    }

    fn run_options(&self) -> RunOptions {
        self.run
    }

    async fn run(
        &self,
        scans: &StoredScans,
        context: &RequestContext,
        image: LoadedImage,
    ) -> Result<RunOutput<ProcessResult>, PipelineError> {
        scans.pipeline.process(context, image.bytes, self).await
    }
}

impl Pipeline {
    /// Processes one image.
    ///
    /// # Errors
    /// An error of the image, of a model or of the server.
    pub async fn process(
        &self,
        context: &RequestContext,
        bytes: Bytes,
        plan: &ProcessPlan,
    ) -> Result<RunOutput<ProcessResult>, PipelineError> {
        if plan.steps.iter().any(Step::finds_faces) {
            self.models.detector.check(&plan.detect)?;
        }
        let (strict, plan) = (plan.run.strict_device, plan.clone());
        let memory = self.memory_of(&bytes, |size| plan.memory(size));
        let work = move |pipeline: Self, mut run| async move {
            let result = pipeline.process_now(&bytes, &plan, &mut run).await?;
            Ok((result, run))
        };
        self.drive(context, strict, memory, work).await
    }

    async fn process_now(
        &self,
        bytes: &Bytes,
        plan: &ProcessPlan,
        run: &mut ImageRun,
    ) -> Result<ProcessResult, PipelineError> {
        run.work.limit().check_file(bytes, |size| {
            let searches = plan.searches(size, &self.models.detector);
            plan.work(size).saturating_add(searches)
        })?;
        let began = self.clock.monotonic();
        let decoded = self.decode(bytes, None).await?;
        run.work.add(work::DECODE * work::pixels(decoded.size))?;
        let info = image_info(&decoded, content_hash(bytes));
        let image = PooledImage::new(decoded.pixels, self);
        run.timings.decode = self.since(began);
        run.count_pixels(&info);
        let began = self.clock.monotonic();
        let mut canvas = Canvas::new(self, plan, &image, info, run);
        for step in plan.steps.iter() {
            canvas.apply(step).await?;
        }
        let result = canvas.finish().await?;
        if !run.devices.contains_key(DeviceTask::ImageProcessing.name()) {
            // The CPU did all operations.
            self.record(run, DeviceTask::ImageProcessing, DeviceRun::CPU)?;
        }
        run.timings.process = self.since(began);
        Ok(result)
    }
}
