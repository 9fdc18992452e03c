//! The options of a scan as a request sends them.

use facescan_config::{Config, DecodeMode, DetSize, EmbeddingFormat};
use facescan_imaging::quality::acceptance::Preset;
use facescan_inference::registry::Thresholds;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::plan::ScanPlan;
use crate::{
    admission::Priority,
    core::{
        error::PipelineError,
        options::{
            DetectRequest, RequestOptions, StorageOptions, schema, source_text, source_url_text,
        },
        run::RunOptions,
    },
    operation::ScanKind,
};

/// The subject of the vectors of `/embed`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum EmbedKind {
    /// Each face.
    #[default]
    Face,
    /// The whole image.
    Image,
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
    #[schema(schema_with = schema::second_det_size)]
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

impl RequestOptions for ScanRequest {
    fn priority(&self) -> Option<Priority> {
        self.priority
    }
}

impl ScanRequest {
    /// Returns the name of the first option that is set.
    pub(crate) fn first_set(&self) -> Option<String> {
        // Serialization omits options that are absent.
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
        match self.kind.unwrap_or_default() {
            EmbedKind::Face => {}
            EmbedKind::Image => {
                return Err(PipelineError::invalid_option(
                    "kind",
                    "`image` works only with /embed",
                ));
            }
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
        if aligned && kind.model().is_none() && !kind.measures_quality() {
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
            quality: self.quality.unwrap_or(false) || kind.measures_quality(),
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
