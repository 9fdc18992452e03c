//! The options of `/process`: as a request sends them, and resolved.

use std::sync::Arc;

use facescan_config::{Config, DetectionRequest, EnhancedFormat};
use facescan_fields::request_options;
use facescan_imaging::{crop::Region, encode::OutputFormat};
use facescan_inference::registry::Thresholds;

use super::{
    result::ProcessedFormat,
    step::{Step, check_all},
};
use crate::{
    admission::Priority,
    core::{
        error::PipelineError,
        memory::Budget,
        options::{DetectOptions, RequestOptions, RunRequest, UnstoredRequest},
        run::RunOptions,
    },
};

request_options! {
    /// Options of `/process`. The settings have the defaults.
    #[schema(as = ProcessOptions)]
    pub struct ProcessRequest {
        /// The operations, in order: a list, or its JSON as text.
        #[serde(default)]
        #[param(value_type = String, example = r#"[{"op":"resize","width":640}]"#)]
        #[schema(min_items = 1, max_items = 16)]
        pub operations: Vec<Step>,
        /// The format of the processed images.
        pub format: Option<ProcessedFormat>,
        /// The quality of a JPEG, 1 to 100.
        #[schema(minimum = 1, maximum = 100)]
        pub jpeg_quality: Option<u8>,
    }
    with {
        detection: DetectionRequest,
        unstored: UnstoredRequest,
        run: RunRequest,
    }
    hidden [store]
}

impl RequestOptions for ProcessRequest {
    const TAKES_MASKS: bool = true;

    fn priority(&self) -> Option<Priority> {
        self.run.priority
    }
}

impl ProcessRequest {
    /// Fills in the defaults, and checks what no schema says. The options were read, or are
    /// [`checked`](facescan_fields::groups::checked). `thresholds` are those of the detector, and `masks` is the number of masks
    /// in the request.
    ///
    /// # Errors
    /// [`PipelineError::InvalidOption`] with the name of the option.
    pub fn resolve(
        &mut self,
        config: &Config,
        thresholds: &Thresholds,
        masks: usize,
    ) -> Result<ProcessPlan, PipelineError> {
        let longest = config.limits.max_width.min(config.limits.max_height);
        check_all(&self.operations, masks, longest)?;
        self.unstored.check("processed images")?;
        let has_floats = matches!(self.operations.last(), Some(Step::Normalize { .. }));
        let usual = if has_floats {
            ProcessedFormat::Npy
        } else {
            ProcessedFormat::Png
        };
        let format = *self.format.get_or_insert(usual);
        if has_floats && format != ProcessedFormat::Npy {
            return Err(PipelineError::invalid_option(
                "format",
                "normalized samples are not an image; use the format npy",
            ));
        }
        Ok(ProcessPlan {
            steps: self.operations.clone().into(),
            format,
            jpeg_quality: *self
                .jpeg_quality
                .get_or_insert(config.enhancement.jpeg_quality),
            detect: self.detection.resolve(&config.detection, thresholds),
            mask: None,
            budget: Budget::default(),
            max_pixels: config.limits.max_pixels,
            run: self.run.resolve(),
        })
    }
}

/// The options of a request, with every default filled in and every range checked.
#[derive(Clone, Debug)]
pub struct ProcessPlan {
    pub(super) steps: Arc<[Step]>,
    pub(super) format: ProcessedFormat,
    pub(super) jpeg_quality: u8,
    pub(super) detect: DetectOptions,
    /// The union of the masks. `None` if the request has no masks.
    pub(super) mask: Option<MaskUnion>,
    pub(super) max_pixels: u64,
    pub(super) budget: Budget,
    /// The options of the run.
    pub run: RunOptions,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct MaskUnion {
    pub size: (u32, u32),
    /// The box around the masks. `None` if they cover nothing.
    pub region: Option<Region>,
}

impl ProcessPlan {
    /// Returns how the images are encoded. Unused by the format npy.
    pub(super) fn output(&self) -> OutputFormat {
        let format = self.format.encoded().unwrap_or(EnhancedFormat::Png);
        format.output(self.jpeg_quality)
    }

    /// Returns a copy with a new byte budget, for another response.
    pub fn with_new_budget(&self) -> Self {
        Self {
            budget: Budget::default(),
            ..self.clone()
        }
    }
}
