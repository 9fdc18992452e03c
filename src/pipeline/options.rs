//! The options of a request: as sent, and with the defaults filled in.

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use utoipa::{IntoParams, ToSchema};

use crate::{
    admission::Priority,
    config::{Config, DecodeMode, DetSize, EmbeddingFormat},
    pipeline::embed_image::EmbedKind,
    pipeline::error::{InvalidOption, PipelineError, beginning},
    pipeline::run::RunOptions,
};
use facescan_imaging::quality::acceptance::Preset;
use facescan_inference::{device_task::DeviceTask, registry::Thresholds};

mod detect;
pub mod schema;

pub(in crate::pipeline) use detect::DetectRequest;
pub use detect::{DetectOptions, InputSize};

/// The maximum length of `source`, in bytes. The schemas have the same number.
pub const MAX_SOURCE_BYTES: usize = 512;

/// The maximum length of `source_url`, in bytes. The schemas have the same number.
pub const MAX_SOURCE_URL_BYTES: usize = 4096;

/// The most bytes that are read of the error of an option. It begins with a name of at most 256 bytes.
const MAX_ERROR_BYTES: usize = 1000;

/// The operation of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ScanKind {
    /// Find faces.
    Detect,
    /// Find faces and compute the vector of each.
    Embed,
    /// Find faces and measure the quality of the faces and of the image.
    Quality,
}

impl ScanKind {
    /// Returns the name that answers and the database use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Detect => "detect",
            Self::Embed => "embed",
            Self::Quality => "quality",
        }
    }

    /// Returns the operation on each face that decides this kind, if there is one.
    fn face_operation(self) -> Option<DeviceTask> {
        match self {
            Self::Detect => None,
            Self::Embed => Some(DeviceTask::FaceEmbedding),
            Self::Quality => Some(DeviceTask::QualityChecks),
        }
    }
}

/// Options of a scan. The settings have the defaults.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema, IntoParams)]
#[serde(deny_unknown_fields)]
#[schema(as = ScanOptions)]
#[into_params(parameter_in = Query)]
pub struct ScanRequest {
    /// The subject of the vectors of `/embed`: `face` (default), or `image` for whole images. With `image`, options
    /// about faces are not accepted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<EmbedKind>,
    /// The lowest detection score of a face, 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 1)]
    pub min_score: Option<f32>,
    /// The NMS drops boxes that overlap a better box by more than this IoU, 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 1)]
    pub nms_iou: Option<f32>,
    /// The longer side of the detector's input, to which images are scaled, in pixels. A multiple of 32. `fit` shrinks
    /// images to 640 and does not enlarge smaller ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = schema::det_size)]
    pub det_size: Option<DetSize>,
    /// A second side, for faces that fill the image, or 0 for none. One NMS covers both sizes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 4096, multiple_of = 32)]
    pub second_det_size: Option<u32>,
    /// How much of a JPEG is decoded: `full`, or `fast` to reduce large JPEGs while they are decoded. Images with `quality`
    /// or `crops` are always decoded in full.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decode: Option<DecodeMode>,
    /// The maximum number of faces. The largest faces are kept. 0 means no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 4294967295u64)]
    pub max_faces: Option<usize>,
    /// The shortest side of a face's box, in pixels of the image. Smaller faces are dropped.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 65535)]
    pub min_face_size: Option<f32>,
    /// Whether faces have their five landmarks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub landmarks: Option<bool>,
    /// Whether faces have their quality.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quality: Option<bool>,
    /// The preset whose thresholds decide `acceptable`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preset: Option<Preset>,
    /// Whether faces have their aligned 112×112 crop (PNG, base64).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub crops: Option<bool>,
    /// Whether the images are aligned 112×112 crops. They are not searched for faces.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aligned: Option<bool>,
    /// The format of vectors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub embedding_format: Option<EmbeddingFormat>,
    /// Whether results are stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub store: Option<bool>,
    /// Whether a stored result of the same bytes, models and options may be returned. Needs `store`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache: Option<bool>,
    /// The caller's name for the source of the images, at most 512 bytes. Stored with the result.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 512, pattern = "^[^\\x00]*$")]
    pub source: Option<String>,
    /// The address where the image was found, at most 4096 bytes. Stored with the result and never fetched.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 4096, pattern = "^[^\\x00]*$")]
    pub source_url: Option<String>,
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

/// Reads the options of a request.
///
/// # Errors
/// [`InvalidOption`] with the name of the first invalid option.
pub fn from_tree<O: DeserializeOwned>(tree: &serde_json::Value) -> Result<O, InvalidOption> {
    serde_path_to_error::deserialize(tree).map_err(|error| {
        let path = beginning(error.path(), MAX_ERROR_BYTES);
        let detail = beginning(error.inner(), MAX_ERROR_BYTES);
        match detail
            .strip_prefix("unknown field `")
            .and_then(|rest| rest.split_once('`'))
        {
            Some((name, rest)) => InvalidOption::new(name, format!("is unknown{rest}")),
            None => InvalidOption::new(path, detail),
        }
    })
}

/// The options of a request that decide how it is admitted.
pub trait RequestOptions {
    /// Whether a request can have masks for its images.
    const TAKES_MASKS: bool = false;

    /// Returns the named priority.
    fn priority(&self) -> Option<Priority>;
}

impl RequestOptions for ScanRequest {
    fn priority(&self) -> Option<Priority> {
        self.priority
    }
}

/// How the results of a request are stored.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StorageOptions {
    /// Whether results are stored.
    pub store: bool,
    /// Whether stored results may be returned.
    pub cache: bool,
    /// The caller's name for the source of the images.
    pub source: Option<String>,
    /// The address where the image was found.
    pub source_url: Option<String>,
}

impl StorageOptions {
    /// Returns the options of one image, which can have its own source. If the request has no `source_url`, this is the
    /// URL that the image was fetched from.
    ///
    /// # Errors
    /// [`PipelineError::InvalidOption`] if a source is too long.
    pub fn for_image(
        &self,
        source: Option<String>,
        source_url: Option<String>,
        fetched_from: Option<String>,
    ) -> Result<Self, PipelineError> {
        let mut options = self.clone();
        if source.is_some() {
            options.source = source_text(source)?;
        }
        if source_url.is_some() {
            options.source_url = source_url_text(source_url)?;
        }
        options.source_url = options.source_url.or(fetched_from);
        Ok(options)
    }
}

/// The options of a request, with every default filled in and every range checked.
#[derive(Clone, Debug, PartialEq)]
pub struct ScanPlan {
    /// The operation.
    pub kind: ScanKind,
    /// The options for finding faces.
    pub detect: DetectOptions,
    /// How much of a JPEG is decoded.
    pub decode: DecodeMode,
    /// Whether faces have their landmarks.
    pub landmarks: bool,
    /// Whether faces have their quality.
    pub quality: bool,
    /// The preset that faces are judged by.
    pub preset: Preset,
    /// Whether faces have their crop.
    pub crops: bool,
    /// Whether the images are aligned crops.
    pub aligned: bool,
    /// The format of vectors.
    pub embedding_format: EmbeddingFormat,
    /// How results are stored.
    pub storage: StorageOptions,
    /// The options of the run.
    pub run: RunOptions,
}

impl ScanPlan {
    /// Returns the operations that take part.
    pub fn operations(&self) -> Vec<DeviceTask> {
        let mut operations = Vec::new();
        if !self.aligned {
            operations.extend([DeviceTask::ImageProcessing, DeviceTask::FaceDetection]);
        }
        operations.extend(self.kind.face_operation());
        if self.quality && self.kind != ScanKind::Quality {
            operations.push(DeviceTask::QualityChecks);
        }
        operations
    }

    /// Returns to what length the longer side of an image may be reduced while it is decoded, in pixels. Returns `None`
    /// if all pixels are needed.
    pub fn reduced_side(&self) -> Option<u32> {
        let needs_all = self.aligned || self.quality || self.crops;
        if self.decode == DecodeMode::Full || needs_all {
            return None;
        }
        let side = self.detect.det_size.side();
        Some(match self.kind.face_operation() {
            None => side,
            // Faces are cut from the reduced image. At twice the side, few faces need the image in full after all.
            Some(_) => 2 * side,
        })
    }

    /// Returns whether `operation` takes part.
    pub fn runs(&self, operation: DeviceTask) -> bool {
        self.operations().contains(&operation)
    }
}

impl ScanRequest {
    /// Returns the name of the first option that is set.
    pub(super) fn first_set(&self) -> Option<String> {
        // Serialisation omits options that are absent.
        match serde_json::to_value(self) {
            Ok(serde_json::Value::Object(set)) => set.into_iter().next().map(|(name, _)| name),
            _ => None,
        }
    }

    /// Fills in the defaults and checks the ranges. `thresholds` are those of the detector.
    ///
    /// # Errors
    /// [`PipelineError::InvalidOption`] with the name of the option.
    pub fn resolve(
        self,
        kind: ScanKind,
        config: &Config,
        thresholds: &Thresholds,
    ) -> Result<ScanPlan, PipelineError> {
        if self.kind == Some(EmbedKind::Image) {
            return Err(PipelineError::invalid_option(
                "kind",
                "`image` works only with /embed",
            ));
        }
        let requested = DetectRequest {
            min_score: self.min_score,
            nms_iou: self.nms_iou,
            det_size: self.det_size,
            second_det_size: self.second_det_size,
            max_faces: self.max_faces,
            min_face_size: self.min_face_size,
        };
        let detect = requested.resolve(&config.detection, thresholds)?;
        let aligned = self.aligned.unwrap_or(false);
        if aligned && kind == ScanKind::Detect {
            return Err(PipelineError::invalid_option(
                "aligned",
                "an aligned crop has nothing to detect; use an operation on faces, such as /embed",
            ));
        }
        let crops = self.crops.unwrap_or(false);
        let store = self.store.unwrap_or(config.store.enabled);
        Ok(ScanPlan {
            kind,
            detect,
            decode: match config.runtime.turbojpeg {
                Some(_) => self.decode.unwrap_or(config.detection.decode),
                // So that its results have the keys of those that are decoded in full.
                None => DecodeMode::Full,
            },
            landmarks: self.landmarks.unwrap_or(config.detection.landmarks),
            quality: self.quality.unwrap_or(false) || kind == ScanKind::Quality,
            preset: self.preset.unwrap_or(config.quality.preset),
            crops,
            aligned,
            embedding_format: self.embedding_format.unwrap_or(config.embedding.format),
            storage: StorageOptions {
                store,
                // A scan with crops cannot come from the database, because pixels are never stored.
                cache: self.cache.unwrap_or(config.store.cache) && store && !crops,
                source: source_text(self.source)?,
                source_url: source_url_text(self.source_url)?,
            },
            run: RunOptions::new(self.strict_device, self.timings),
        })
    }
}

/// Checks the caller's name for a source. Returns `None` if it is empty.
///
/// # Errors
/// [`PipelineError::InvalidOption`] if it is longer than [`MAX_SOURCE_BYTES`] or has a NUL character.
pub fn source_text(text: Option<String>) -> Result<Option<String>, PipelineError> {
    stored_text("source", text, MAX_SOURCE_BYTES)
}

/// Checks the address of an image. Returns `None` if it is empty.
///
/// # Errors
/// [`PipelineError::InvalidOption`] if it is longer than [`MAX_SOURCE_URL_BYTES`] or has a NUL character.
pub fn source_url_text(text: Option<String>) -> Result<Option<String>, PipelineError> {
    stored_text("source_url", text, MAX_SOURCE_URL_BYTES)
}

/// Checks a text that will be stored. Postgres cannot store a NUL character.
fn stored_text(
    option: &str,
    text: Option<String>,
    limit: usize,
) -> Result<Option<String>, PipelineError> {
    match text {
        Some(text) if text.len() > limit => Err(PipelineError::invalid_option(
            option,
            format!("is longer than {limit} bytes"),
        )),
        Some(text) if text.contains('\0') => {
            Err(PipelineError::invalid_option(option, "has a NUL character"))
        }
        text => Ok(text.filter(|text| !text.is_empty())),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::config::{DET_SIZE_STEP, MAX_DET_SIZE, MIN_DET_SIZE};

    /// The attributes of the schemas have numbers, and the checks have constants.
    #[test]
    fn the_schemas_have_the_limits_that_are_checked() {
        let document = serde_json::to_value(crate::http::openapi_document()).unwrap();
        let schemas = &document["components"]["schemas"];
        let scan = &schemas["ScanOptions"]["properties"];
        assert_eq!(scan["source"]["maxLength"], json!(MAX_SOURCE_BYTES));
        assert_eq!(scan["source_url"]["maxLength"], json!(MAX_SOURCE_URL_BYTES));
        for options in ["ScanOptions", "EnhanceOptions", "ProcessOptions"] {
            let properties = &schemas[options]["properties"];
            let sides = &properties["det_size"]["oneOf"][0];
            for (name, size, min) in [
                ("det_size", sides, MIN_DET_SIZE),
                ("second_det_size", &properties["second_det_size"], 0),
            ] {
                assert_eq!(size["minimum"], json!(min), "{options} {name}");
                assert_eq!(size["maximum"], json!(MAX_DET_SIZE), "{options} {name}");
                assert_eq!(size["multipleOf"], json!(DET_SIZE_STEP), "{options} {name}");
            }
        }
    }

    #[test]
    fn the_longest_source_is_accepted() {
        let text = |length| Some("x".repeat(length));
        assert!(source_text(text(MAX_SOURCE_BYTES)).is_ok());
        assert!(source_text(text(MAX_SOURCE_BYTES + 1)).is_err());
        assert!(source_url_text(text(MAX_SOURCE_URL_BYTES)).is_ok());
        assert!(source_url_text(text(MAX_SOURCE_URL_BYTES + 1)).is_err());
        assert!(source_text(Some("a\0b".to_owned())).is_err());
    }
}
