//! The options of `/enhance` as a request sends them.

use facescan_config::{Config, DetSize, EnhancedFormat};
use facescan_imaging::enhance::{Apply, EnhanceOptions, GAMMA_RANGE, Gamma, Upscale};
use facescan_inference::registry::Thresholds;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::plan::{EnhancePlan, IdentityCheck};
use crate::{
    admission::Priority,
    core::{
        error::PipelineError,
        options::{DetectOptions, DetectRequest, RequestOptions, schema},
        run::RunOptions,
    },
};

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
    /// Whether to equalize the contrast of the luma by tiles (CLAHE).
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
    #[schema(schema_with = schema::second_det_size)]
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
