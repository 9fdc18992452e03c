//! The options of `/enhance`: as a request sends them, and resolved.

use facescan_config::{Config, DetectionRequest, EnhancedFormat};
use facescan_fields::request_options;
use facescan_imaging::{
    encode::OutputFormat,
    enhance::{Apply, EnhanceOptions, Gamma, Upscale},
};
use facescan_inference::registry::Thresholds;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    admission::Priority,
    core::{
        error::PipelineError,
        options::{DetectOptions, RequestOptions, RunRequest, UnstoredRequest, schema},
        run::RunOptions,
    },
};

request_options! {
    /// Options of `/enhance`. The settings have the defaults.
    #[schema(as = EnhanceOptions)]
    pub struct EnhanceRequest {
        /// The format of the enhanced image.
        pub format: Option<EnhancedFormat>,
        /// The quality of a JPEG, 1 to 100.
        #[schema(minimum = 1, maximum = 100)]
        pub jpeg_quality: Option<u8>,
        /// The scale factor, 1 to 4. By default, the size of the image decides.
        #[schema(minimum = 1, maximum = 4)]
        pub upscale: Option<u32>,
        /// Whether to raise the contrast. By default, only for low-resolution images.
        pub contrast: Option<bool>,
        /// Whether to raise the sharpness and apply an unsharp mask. By default, only for low-resolution images.
        pub sharpen: Option<bool>,
        /// Whether to equalize the contrast of the luma by tiles (CLAHE).
        pub clahe: Option<bool>,
        /// An exponent that brightens (below 1) or darkens (above 1) the image, 0.1 to 10, or `auto` to brighten only dark
        /// images.
        #[schema(schema_with = schema::gamma)]
        pub gamma: Option<GammaRequest>,
        /// Whether to remove noise before the other steps.
        pub denoise: Option<bool>,
        /// Whether to embed the best face before and after, to check that it is still the same person.
        pub identity: Option<bool>,
    }
    with {
        // For `identity`.
        detection: DetectionRequest without [max_faces],
        unstored: UnstoredRequest,
        run: RunRequest,
    }
    hidden [store]
}

impl RequestOptions for EnhanceRequest {
    fn priority(&self) -> Option<Priority> {
        self.run.priority
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
    /// Fills in the defaults, and checks what no schema says. The options were read, or are
    /// [`checked`](facescan_fields::groups::checked). `thresholds` are those of the detector.
    ///
    /// # Errors
    /// [`PipelineError::InvalidOption`] with the name of the option.
    pub fn resolve(
        &mut self,
        config: &Config,
        thresholds: &Thresholds,
    ) -> Result<EnhancePlan, PipelineError> {
        self.unstored.check("enhanced images")?;
        let detect = DetectOptions {
            max_faces: None,
            ..self.detection.resolve(&config.detection, thresholds)
        };
        // Requests do not have it.
        self.detection.max_faces = None;
        let identity = self.identity.unwrap_or(false).then_some(IdentityCheck {
            detect,
            threshold: config.enhancement.identity_threshold,
        });
        Ok(EnhancePlan {
            format: *self.format.get_or_insert(config.enhancement.format),
            jpeg_quality: *self
                .jpeg_quality
                .get_or_insert(config.enhancement.jpeg_quality),
            options: EnhanceOptions {
                upscale: self
                    .upscale
                    .map_or(Upscale::Auto, |factor| Upscale::Factor(factor as f32)),
                contrast: apply(self.contrast),
                sharpen: apply(self.sharpen),
                clahe: self.clahe.unwrap_or(false),
                gamma: gamma(self.gamma),
                denoise: self.denoise.unwrap_or(false),
            },
            identity,
            run: self.run.resolve(),
        })
    }
}

fn gamma(asked: Option<GammaRequest>) -> Gamma {
    match asked {
        None => Gamma::Off,
        Some(GammaRequest::Auto(Automatic::Auto)) => Gamma::Auto,
        Some(GammaRequest::Value(value)) => Gamma::Value(value),
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

impl EnhancePlan {
    /// Returns how the enhanced image is encoded.
    pub(super) fn output(&self) -> OutputFormat {
        self.format.output(self.jpeg_quality)
    }
}
