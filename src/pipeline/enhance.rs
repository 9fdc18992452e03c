//! Enhances images of low quality for detection.

mod finish_job;
mod identity;

use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::{
    admission::Priority,
    config::{Config, DetSize, EnhancedFormat},
    context::RequestContext,
    ingest::intake::LoadedImage,
    pipeline::error::PipelineError,
    pipeline::{
        Pipeline, PooledImage,
        answer::ImageInfo,
        base64_text,
        fan_out::ImageOperation,
        memory,
        options::{DetectOptions, DetectRequest, RequestOptions, schema},
        run::{ImageRun, RunOptions, RunOutput},
        scan::{content_hash, image_info, millis},
        stored::StoredScans,
        work::{self, Size},
    },
};
use facescan_imaging::{
    encode::OutputFormat,
    enhance::{Apply, EnhanceOptions, GAMMA_RANGE, Gamma, PartlyEnhanced, Step, Upscale},
};
use facescan_inference::{device::DeviceRun, device_task::DeviceTask, registry::Thresholds};

pub(crate) use finish_job::FinishJob;

/// The memory for each pixel of the enhanced image, in bytes: the steps before and after, and the encoded result.
const ENHANCED_BYTES: u64 = 17;

/// Options of `/enhance`. The settings have the defaults.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema, IntoParams)]
#[serde(deny_unknown_fields)]
#[schema(as = EnhanceOptions)]
#[into_params(parameter_in = Query)]
pub struct EnhanceRequest {
    /// The format of the enhanced image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format: Option<EnhancedFormat>,
    /// The quality of a JPEG, 1 to 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 100)]
    pub jpeg_quality: Option<u8>,
    /// The scale factor, 1 to 4. By default, the size of the image decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 4)]
    pub upscale: Option<u32>,
    /// Whether to raise the contrast. By default, only for low-resolution images.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contrast: Option<bool>,
    /// Whether to raise the sharpness and apply an unsharp mask. By default, only for low-resolution images.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sharpen: Option<bool>,
    /// Whether to equalise the contrast of the luma by tiles (CLAHE).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clahe: Option<bool>,
    /// An exponent that brightens (below 1) or darkens (above 1) the image, 0.1 to 10, or `auto` to brighten only dark
    /// images.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = schema::gamma)]
    pub gamma: Option<GammaRequest>,
    /// Whether to remove noise before the other steps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub denoise: Option<bool>,
    /// Whether to embed the best face before and after, to check that it is still the same person.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub identity: Option<bool>,
    /// For `identity`: the lowest detection score of a face, 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 1)]
    pub min_score: Option<f32>,
    /// For `identity`: the NMS drops boxes that overlap a better box by more than this IoU, 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 1)]
    pub nms_iou: Option<f32>,
    /// For `identity`: the longer side of the detector's input, to which images are scaled, in pixels. A multiple of 32.
    /// `fit` shrinks images to 640 and does not enlarge smaller ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = schema::det_size)]
    pub det_size: Option<DetSize>,
    /// For `identity`: a second side, for faces that fill the image, or 0 for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 4096, multiple_of = 32)]
    pub second_det_size: Option<u32>,
    /// For `identity`: the shortest side of a face's box, in pixels of the image. Smaller faces are dropped.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 65535)]
    pub min_face_size: Option<f32>,
    /// Enhanced images are never stored. Only `false` is accepted.
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

impl RequestOptions for EnhanceRequest {
    fn priority(&self) -> Option<Priority> {
        self.priority
    }
}

/// The `gamma` option.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(untagged, expecting = "expected a number from 0.1 to 10, or auto")]
pub enum GammaRequest {
    /// Brighten only dark images.
    Auto(Automatic),
    /// The exponent.
    Value(f32),
}

/// The word `auto`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Automatic {
    /// Decide by the image.
    Auto,
}

fn apply(asked: Option<bool>) -> Apply {
    match asked {
        None => Apply::Auto,
        Some(true) => Apply::Always,
        Some(false) => Apply::Never,
    }
}

/// The options of a request, with every default filled in and every range checked.
#[derive(Clone, Debug)]
pub struct EnhancePlan {
    /// The format of the enhanced image.
    pub format: EnhancedFormat,
    /// The quality of a JPEG.
    pub jpeg_quality: u8,
    /// The requested steps.
    pub options: EnhanceOptions,
    /// How to compare the identity of the best face. `None` if it is not compared.
    pub identity: Option<IdentityCheck>,
    /// The options of the run.
    pub run: RunOptions,
}

/// The options of the identity check.
#[derive(Clone, Debug)]
pub struct IdentityCheck {
    /// How to find the best face.
    pub detect: DetectOptions,
    /// The result is flagged if the cosine is below this threshold.
    pub threshold: f32,
}

/// The result of `/enhance` for one image.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct EnhanceResult {
    /// The properties of the image that was sent.
    pub image: ImageInfo,
    /// The enhanced image.
    pub enhanced: EnhancedFile,
    /// The comparison of the best face before and after. Present with `identity=true`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub identity: Option<Identity>,
}

/// An enhanced image.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct EnhancedFile {
    /// The format of `data`.
    pub format: EnhancedFormat,
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
    /// The scale of the enhanced image. Divide coordinates in it by this number to get coordinates in the original
    /// image.
    pub scale: f32,
    /// The applied steps, in order.
    pub steps: Vec<Step>,
    /// The encoded image, in base64.
    #[serde(serialize_with = "base64_text::serialize")]
    #[schema(value_type = String)]
    pub data: Bytes,
}

/// The comparison of the best face before and after.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Identity {
    /// The cosine of the two vectors. Absent if one of the images has no such face.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cosine: Option<f32>,
    /// The result is flagged if the cosine is below this threshold.
    pub threshold: f32,
    /// Whether the face may no longer be the same person.
    pub identity_drift: bool,
}

impl EnhanceRequest {
    /// Fills in the defaults for finding faces.
    ///
    /// # Errors
    /// [`PipelineError::InvalidOption`] with the name of the option.
    pub fn detection(
        &self,
        config: &Config,
        thresholds: &Thresholds,
    ) -> Result<DetectOptions, PipelineError> {
        let asked = DetectRequest {
            min_score: self.min_score,
            nms_iou: self.nms_iou,
            det_size: self.det_size,
            second_det_size: self.second_det_size,
            max_faces: Some(0),
            min_face_size: self.min_face_size,
        };
        asked.resolve(&config.detection, thresholds)
    }

    /// Fills in the defaults and checks the ranges. `thresholds` are those of the detector.
    ///
    /// # Errors
    /// [`PipelineError::InvalidOption`] with the name of the option.
    pub fn resolve(
        self,
        config: &Config,
        thresholds: &Thresholds,
    ) -> Result<EnhancePlan, PipelineError> {
        let jpeg_quality = self.jpeg_quality.unwrap_or(config.enhancement.jpeg_quality);
        if !(1..=100).contains(&jpeg_quality) {
            return Err(PipelineError::invalid_option(
                "jpeg_quality",
                "must be from 1 to 100",
            ));
        }
        if let Some(factor) = self.upscale
            && !(1..=4).contains(&factor)
        {
            return Err(PipelineError::invalid_option(
                "upscale",
                "must be from 1 to 4",
            ));
        }
        let gamma = resolve_gamma(self.gamma)?;
        if self.store == Some(true) {
            return Err(PipelineError::invalid_option(
                "store",
                "enhanced images are never stored; leave it out or send false",
            ));
        }
        let detect = self.detection(config, thresholds)?;
        let identity = self.identity.unwrap_or(false).then_some(IdentityCheck {
            detect,
            threshold: config.enhancement.identity_threshold,
        });
        Ok(EnhancePlan {
            format: self.format.unwrap_or(config.enhancement.format),
            jpeg_quality,
            options: EnhanceOptions {
                upscale: self
                    .upscale
                    .map_or(Upscale::Auto, |factor| Upscale::Factor(factor as f32)),
                contrast: apply(self.contrast),
                sharpen: apply(self.sharpen),
                clahe: self.clahe.unwrap_or(false),
                gamma,
                denoise: self.denoise.unwrap_or(false),
            },
            identity,
            run: RunOptions::new(self.strict_device, self.timings),
        })
    }
}

fn resolve_gamma(gamma: Option<GammaRequest>) -> Result<Gamma, PipelineError> {
    match gamma {
        None => Ok(Gamma::Off),
        Some(GammaRequest::Auto(Automatic::Auto)) => Ok(Gamma::Auto),
        Some(GammaRequest::Value(value)) if GAMMA_RANGE.contains(&value) => Ok(Gamma::Value(value)),
        Some(GammaRequest::Value(_)) => Err(PipelineError::invalid_option(
            "gamma",
            "must be from 0.1 to 10, or auto",
        )),
    }
}

impl EnhancePlan {
    fn output(&self) -> OutputFormat {
        match self.format {
            EnhancedFormat::Jpeg => OutputFormat::Jpeg {
                quality: self.jpeg_quality,
            },
            EnhancedFormat::Png => OutputFormat::Png,
            EnhancedFormat::Webp => OutputFormat::Webp,
            EnhancedFormat::Avif => OutputFormat::Avif,
        }
    }
}

impl EnhancePlan {
    /// Returns the memory for an image of a size.
    fn memory(&self, size: Size) -> u64 {
        let enhanced = work::pixels(work::upscaled(size, self.options.upscale));
        let each = ENHANCED_BYTES + self.output().surcharge();
        let search = match &self.identity {
            Some(check) => memory::detection(&check.detect),
            None => 0,
        };
        let enhancing = memory::samples(work::pixels(size)) + enhanced * each;
        memory::decoding(size).max(enhancing + search)
    }
}

impl ImageOperation for EnhancePlan {
    type Output = EnhanceResult;

    fn name(&self) -> &'static str {
        "enhance"
    }

    fn operations(&self) -> Vec<DeviceTask> {
        let mut operations = vec![DeviceTask::ImageEnhancement];
        if self.identity.is_some() {
            operations.extend([
                DeviceTask::ImageProcessing,
                DeviceTask::FaceDetection,
                DeviceTask::FaceEmbedding,
            ]);
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
    ) -> Result<RunOutput<EnhanceResult>, PipelineError> {
        scans.pipeline.enhance(context, image.bytes, self).await
    }
}

impl Pipeline {
    /// Enhances one image and encodes the result.
    ///
    /// # Errors
    /// An error of the image, of a model or of the server.
    pub async fn enhance(
        &self,
        context: &RequestContext,
        bytes: Bytes,
        plan: &EnhancePlan,
    ) -> Result<RunOutput<EnhanceResult>, PipelineError> {
        if let Some(check) = &plan.identity {
            self.models.detector.check(&check.detect)?;
        }
        let (strict, plan) = (plan.run.strict_device, plan.clone());
        let memory = self.memory_of(&bytes, |size| plan.memory(size));
        let work = move |pipeline: Self, mut run| async move {
            let result = pipeline.enhance_now(&bytes, &plan, &mut run).await?;
            Ok((result, run))
        };
        self.drive(context, strict, memory, work).await
    }

    async fn enhance_now(
        &self,
        bytes: &Bytes,
        plan: &EnhancePlan,
        run: &mut ImageRun,
    ) -> Result<EnhanceResult, PipelineError> {
        let price = |size| work::enhance(size, &plan.options, plan.output());
        run.work.limit().check_file(bytes, |size| {
            price(size).saturating_add(self.identity_work(size, plan))
        })?;
        let began = self.clock.monotonic();
        let decoded = self.decode(bytes, None).await?;
        run.work.add(price(decoded.size))?;
        let info = image_info(&decoded, content_hash(bytes));
        let before = PooledImage::new(decoded.pixels, self);
        run.timings.decode = self.since(began);
        run.count_pixels(&info);
        let began = self.clock.monotonic();
        let partial = PartlyEnhanced::new(&before, &plan.options);
        let after = match partial.device_steps {
            Some(steps) => {
                let image = partial.image;
                let done = self.enhancing.run(Arc::new(FinishJob { image, steps }));
                let done = done.await;
                self.record(run, DeviceTask::ImageEnhancement, done.run)?;
                run.timings.queue += millis(done.queued);
                run.timings.enhance -= millis(done.queued);
                done.output
            }
            None => {
                self.record(run, DeviceTask::ImageEnhancement, DeviceRun::CPU)?;
                partial.image
            }
        };
        let after = Arc::new(after);
        let data = self.encode(&after, plan.output()).await?;
        run.keep(data.len())?;
        run.timings.enhance += self.since(began);
        let identity = match &plan.identity {
            Some(check) => Some(self.compare(&before, &after, check, run).await?),
            None => None,
        };
        Ok(EnhanceResult {
            image: info,
            enhanced: EnhancedFile {
                format: plan.format,
                width: after.width(),
                height: after.height(),
                scale: partial.scale,
                steps: partial.steps,
                data: data.into(),
            },
            identity,
        })
    }
}
