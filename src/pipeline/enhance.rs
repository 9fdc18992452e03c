//! Making a poor picture better for detection.

mod finishing;
mod identity;

use std::sync::Arc;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::{
    admission::Priority,
    config::{Config, EnhancedFormat},
    context::RequestContext,
    pipeline::error::PipelineError,
    pipeline::{
        Pipeline, PooledImage,
        answer::{ImageInfo, Timings},
        options::{DetectOptions, DetectRequest, HasPriority, schema},
        scan::{content_hash, image_info, millis},
    },
};
use facescan_imaging::{
    decode::decode_within,
    encode::{OutputFormat, encode},
    enhance::{Apply, EnhanceOptions, GAMMA_RANGE, Gamma, PartlyEnhanced, Step, Upscale},
};
use facescan_inference::{operation::Operation, registry::Thresholds};

pub(crate) use finishing::Finishing;

/// Options of `/enhance`; what is absent has its default from the settings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema, IntoParams)]
#[serde(deny_unknown_fields)]
#[schema(as = EnhanceOptions)]
#[into_params(parameter_in = Query)]
pub struct EnhanceRequest {
    /// The format of the picture that comes back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format: Option<EnhancedFormat>,
    /// The quality of a JPEG, 1 to 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 100)]
    pub jpeg_quality: Option<u8>,
    /// How many times larger, 1 to 4; absent for the rule by the picture's size.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 4)]
    pub upscale: Option<u32>,
    /// Whether contrast is raised; absent for low-resolution pictures only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contrast: Option<bool>,
    /// Whether sharpness is raised and unsharp mask applied; absent for low-resolution pictures only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sharpen: Option<bool>,
    /// Whether the luma's contrast is equalised tile by tile (CLAHE).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clahe: Option<bool>,
    /// An exponent that brightens (below 1) or darkens (above 1) the picture, 0.1 to 10, or `auto` to brighten dark
    /// pictures only.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = schema::gamma)]
    pub gamma: Option<GammaRequest>,
    /// Whether noise is removed first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub denoise: Option<bool>,
    /// Whether the best face is embedded before and after, to see that it is still the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub identity: Option<bool>,
    /// For `identity`: lowest detection score of a face, 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 1)]
    pub min_score: Option<f32>,
    /// For `identity`: boxes that overlap a better one by more than this IoU are dropped, 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 1)]
    pub nms_iou: Option<f32>,
    /// For `identity`: side of the square that pictures are fitted into for detection, in pixels: a multiple of 32.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 64, maximum = 4096, multiple_of = 32)]
    pub det_size: Option<u32>,
    /// For `identity`: a second such side, for faces that fill the frame; 0 for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 4096, multiple_of = 32)]
    pub second_det_size: Option<u32>,
    /// For `identity`: faces whose box has a shorter side below this are dropped, in pixels of the picture.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 65535)]
    pub min_face_size: Option<f32>,
    /// Enhanced pictures are never stored: `false`, or absent.
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

impl HasPriority for EnhanceRequest {
    fn priority(&self) -> Option<Priority> {
        self.priority
    }
}

/// The `gamma` option.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(untagged, expecting = "expected a number from 0.1 to 10, or auto")]
pub enum GammaRequest {
    /// Brighten dark pictures only.
    Auto(Automatic),
    /// The exponent.
    Value(f32),
}

/// The word `auto`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Automatic {
    /// As the picture needs it.
    Auto,
}

fn apply(asked: Option<bool>) -> Apply {
    match asked {
        None => Apply::Auto,
        Some(true) => Apply::Always,
        Some(false) => Apply::Never,
    }
}

/// A request's options with every default filled in and every range checked.
#[derive(Clone, Debug)]
pub struct EnhancePlan {
    /// The format of the picture that comes back.
    pub format: EnhancedFormat,
    /// The quality of a JPEG.
    pub jpeg_quality: u8,
    /// The steps asked for.
    pub options: EnhanceOptions,
    /// Whether the best face's identity is compared, and how its face is found.
    pub identity: Option<IdentityCheck>,
    /// Whether falling back to another device is an error.
    pub strict_device: bool,
    /// Whether results carry timings.
    pub timings: bool,
}

/// How identity is compared before and after.
#[derive(Clone, Debug)]
pub struct IdentityCheck {
    /// How the best face is found.
    pub detect: DetectOptions,
    /// Below this cosine the result is flagged.
    pub threshold: f32,
    /// Whether falling back to another device is an error.
    pub strict_device: bool,
}

/// The result of `/enhance` for one image.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct EnhanceResult {
    /// The picture that was sent.
    pub image: ImageInfo,
    /// The picture that comes back.
    pub enhanced: EnhancedPicture,
    /// What became of the best face; with `identity=true`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub identity: Option<Identity>,
    /// Milliseconds by stage; with `timings=true`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timings_ms: Option<Timings>,
}

/// An enhanced picture.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct EnhancedPicture {
    /// Its encoding.
    pub format: EnhancedFormat,
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
    /// Coordinates found in it are divided by this to get the original's.
    pub scale: f32,
    /// What was done, in order.
    pub steps: Vec<Step>,
    /// The encoded picture, base64.
    #[serde(serialize_with = "as_base64")]
    #[schema(value_type = String)]
    pub data: Bytes,
}

/// The best face before and after.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Identity {
    /// The cosine of the two vectors; absent when a face was missing on one side.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cosine: Option<f32>,
    /// Below this cosine the result is flagged.
    pub threshold: f32,
    /// Whether the face is no longer safely the same.
    pub identity_drift: bool,
}

fn as_base64<S: serde::Serializer>(data: &Bytes, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&BASE64_STANDARD.encode(data))
}

impl EnhanceRequest {
    /// Fills in the defaults and checks the ranges. `thresholds` are the detector's own.
    ///
    /// # Errors
    /// [`PipelineError::InvalidOption`] naming the option.
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
        let gamma = match self.gamma {
            None => Gamma::Off,
            Some(GammaRequest::Auto(Automatic::Auto)) => Gamma::Auto,
            Some(GammaRequest::Value(value)) if GAMMA_RANGE.contains(&value) => Gamma::Value(value),
            Some(GammaRequest::Value(_)) => {
                return Err(PipelineError::invalid_option(
                    "gamma",
                    "must be from 0.1 to 10, or auto",
                ));
            }
        };
        if self.store == Some(true) {
            return Err(PipelineError::invalid_option(
                "store",
                "enhanced pictures are never stored; leave it out or send false",
            ));
        }
        let asked = DetectRequest {
            min_score: self.min_score,
            nms_iou: self.nms_iou,
            det_size: self.det_size,
            second_det_size: self.second_det_size,
            max_faces: Some(0),
            min_face_size: self.min_face_size,
        };
        let detect = asked.resolve(&config.detection, thresholds)?;
        let identity = self.identity.unwrap_or(false).then_some(IdentityCheck {
            detect,
            threshold: config.enhancement.identity_threshold,
            strict_device: self.strict_device.unwrap_or(false),
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
            strict_device: self.strict_device.unwrap_or(false),
            timings: self.timings.unwrap_or(false),
        })
    }
}

impl EnhancePlan {
    /// The operations that take part.
    pub fn operations(&self) -> Vec<Operation> {
        let mut operations = vec![Operation::ImageEnhancement];
        if self.identity.is_some() {
            operations.extend([
                Operation::ImageProcessing,
                Operation::FaceDetection,
                Operation::FaceEmbedding,
            ]);
        }
        operations
    }

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

/// What enhancing an image gave, and how long it took.
pub struct Enhanced {
    /// The result as it is answered.
    pub result: EnhanceResult,
    /// Milliseconds by stage, whether or not the answer carries them.
    pub timings: Timings,
}

impl Pipeline {
    /// Enhances one image. It is encoded once, at the end.
    ///
    /// # Errors
    /// What is wrong with the image, or a fault of ours.
    pub async fn enhance(
        &self,
        context: &RequestContext,
        bytes: Bytes,
        plan: &EnhancePlan,
    ) -> Result<Enhanced, PipelineError> {
        if let Some(check) = &plan.identity {
            self.detector.check(&check.detect)?;
        }
        let (told, plan) = (plan.timings, plan.clone());
        let work = move |pipeline: Self, mut timings| async move {
            let result = pipeline.enhance_now(&bytes, &plan, &mut timings).await?;
            Ok((result, timings))
        };
        let (mut result, timings) = self.drive(context, work).await?;
        result.timings_ms = told.then_some(timings);
        Ok(Enhanced { result, timings })
    }

    async fn enhance_now(
        &self,
        bytes: &[u8],
        plan: &EnhancePlan,
        timings: &mut Timings,
    ) -> Result<EnhanceResult, PipelineError> {
        let began = self.clock.monotonic();
        let picture = decode_within(bytes, &self.decoding, &self.memory)?;
        let info = image_info(&picture, content_hash(bytes));
        let before = PooledImage::new(picture.pixels, self);
        timings.decode = self.since(began);
        let began = self.clock.monotonic();
        let partial = PartlyEnhanced::new(&before, &plan.options);
        let after = match partial.device_steps {
            Some(steps) => {
                let picture = partial.image;
                let done = self.enhancing.run(Arc::new(Finishing { picture, steps }));
                let done = done.await;
                let operation = Operation::ImageEnhancement;
                self.check_rows(plan.strict_device, operation, done.fallback)?;
                timings.queue += millis(done.queued);
                timings.enhance -= millis(done.queued);
                done.output
            }
            None => partial.image,
        };
        let data = encode(&after, plan.output())?;
        let after = Arc::new(after);
        timings.enhance += self.since(began);
        let identity = match &plan.identity {
            Some(check) => Some(self.compare(&before, &after, check, timings).await?),
            None => None,
        };
        Ok(EnhanceResult {
            image: info,
            enhanced: EnhancedPicture {
                format: plan.format,
                width: after.width(),
                height: after.height(),
                scale: partial.scale,
                steps: partial.steps,
                data: data.into(),
            },
            identity,
            timings_ms: None,
        })
    }
}
