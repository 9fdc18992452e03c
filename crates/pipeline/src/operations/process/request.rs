//! The options of `/process` as a request sends them.

use facescan_config::{Config, DetSize};
use facescan_inference::registry::Thresholds;
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::{
    format::ProcessedFormat,
    plan::ProcessPlan,
    step::{Step, check_all},
};
use crate::{
    admission::Priority,
    core::{
        budget::Budget,
        error::PipelineError,
        options::{DetectRequest, RequestOptions, schema},
        run::RunOptions,
    },
};

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
    #[schema(schema_with = schema::second_det_size)]
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
        check_all(&self.operations, masks, longest)?;
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
                "normalized samples are not an image; use the format npy",
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
