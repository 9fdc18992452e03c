//! The options of a scan: as a request sends them, and resolved.

use facescan_config::{Config, DecodeMode, DetectionRequest, EmbeddingFormat};
use facescan_fields::request_options;
use facescan_imaging::quality::acceptance::Preset;
use facescan_inference::registry::Thresholds;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    admission::Priority,
    core::{
        error::PipelineError,
        options::{DetectOptions, RequestOptions, RunRequest, StorageOptions, StorageRequest},
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

request_options! {
    /// Options of a scan. The settings have the defaults.
    #[schema(as = ScanOptions)]
    pub struct ScanRequest {
        /// The subject of the vectors of `/embed`: `face` (default), or `image` for whole images. With `image`, options
        /// about faces are not accepted.
        pub kind: Option<EmbedKind>,
        /// How much of a JPEG is decoded: `full`, or `fast` to reduce large JPEGs while they are decoded. Images with `quality`
        /// or `crops` are always decoded in full.
        pub decode: Option<DecodeMode>,
        /// Whether faces have their five landmarks.
        pub landmarks: Option<bool>,
        /// Whether faces have their quality.
        pub quality: Option<bool>,
        /// The preset whose thresholds decide `acceptable`.
        pub preset: Option<Preset>,
        /// Whether faces have their aligned 112×112 crop (PNG, base64).
        pub crops: Option<bool>,
        /// Whether the images are aligned 112×112 crops. They are not searched for faces.
        pub aligned: Option<bool>,
        /// The format of vectors.
        pub embedding_format: Option<EmbeddingFormat>,
    }
    with {
        detection: DetectionRequest,
        storage: StorageRequest,
        run: RunRequest,
    }
}

impl RequestOptions for ScanRequest {
    fn priority(&self) -> Option<Priority> {
        self.run.priority
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

    /// Fills in the defaults, and checks what no schema says. The options were read, or are
    /// [`checked`](facescan_fields::groups::checked). `thresholds` are those of the detector. Another configuration resolves the
    /// options, with their defaults, to the same plan.
    ///
    /// # Errors
    /// [`PipelineError::InvalidOption`] with the name of the option.
    pub fn resolve(
        &mut self,
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
        let aligned = self.aligned.unwrap_or(false);
        if aligned && !kind.reads_crops() {
            return Err(PipelineError::invalid_option(
                "aligned",
                "an aligned crop has nothing to detect; use an operation on faces, such as /embed",
            ));
        }
        let crops = self.crops.unwrap_or(false);
        let mut storage = self.storage.resolve(&config.store)?;
        // A scan with crops cannot come from the database, because pixels are never stored.
        storage.cache &= !crops;
        Ok(ScanPlan {
            kind,
            detect: self.detection.resolve(&config.detection, thresholds),
            decode: match config.runtime.turbojpeg {
                Some(_) => *self.decode.get_or_insert(config.detection.decode),
                // So that its results have the keys of those that are decoded in full.
                None => *self.decode.insert(DecodeMode::Full),
            },
            landmarks: *self.landmarks.get_or_insert(config.detection.landmarks),
            quality: self.quality.unwrap_or(false) || kind.measures_quality(),
            preset: *self.preset.get_or_insert(config.quality.preset),
            crops,
            aligned,
            embedding_format: *self.embedding_format.get_or_insert(config.embedding.format),
            storage,
            run: self.run.resolve(),
        })
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
    /// Returns to what length the longer side of an image may be reduced while it is decoded, in pixels. Returns `None`
    /// if all pixels are needed.
    pub(crate) fn reduced_side(&self) -> Option<u32> {
        let needs_all = self.aligned || self.quality || self.crops;
        if self.decode == DecodeMode::Full || needs_all {
            return None;
        }
        let side = self.detect.det_size.side();
        Some(match self.kind.model() {
            None => side,
            // Faces are cut from the reduced image. At twice the side, few faces need the image in full after all.
            Some(_) => 2 * side,
        })
    }

    /// Returns whether the faces are cut out, because a model, a measure or the response needs their crops.
    pub(super) fn works_on_faces(&self) -> bool {
        self.kind.model().is_some() || self.quality || self.crops
    }

    /// Returns whether the quality of the whole image is measured.
    pub(super) fn measures_image(&self) -> bool {
        self.kind.measures_quality() && !self.aligned
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::json::to_value;
    use facescan_config::Sources;
    use facescan_fields::groups::read_options;

    const OTHERS: [(&str, &str); 11] = [
        ("DETECTION__DET_SIZE", "320"),
        ("DETECTION__SECOND_DET_SIZE", "160"),
        ("DETECTION__MIN_SCORE", "0.9"),
        ("DETECTION__NMS_IOU", "0.9"),
        ("DETECTION__MAX_FACES", "3"),
        ("DETECTION__MIN_FACE_SIZE", "9"),
        ("DETECTION__LANDMARKS", "false"),
        ("QUALITY__PRESET", "enroll"),
        ("EMBEDDING__FORMAT", "base64-f16"),
        ("STORE__ENABLED", "false"),
        ("STORE__CACHE", "false"),
    ];

    #[test]
    fn another_configuration_resolves_the_options_to_the_same_plan() {
        let thresholds = Thresholds::default();
        let usual = Config::load(&Sources::default()).unwrap().0;
        let others = OTHERS.map(|(name, value)| (format!("FACESCAN__{name}"), value.to_owned()));
        let other = Sources {
            environment: others.into(),
            ..Sources::default()
        };
        let other = Config::load(&other).unwrap().0;
        for (first, second) in [(&usual, &other), (&other, &usual)] {
            let mut request = ScanRequest::default();
            let plan = request
                .resolve(ScanKind::Embed, first, &thresholds)
                .unwrap();
            let stored = to_value(&request).unwrap();
            let mut request: ScanRequest = read_options(&stored).unwrap();
            let again = request.resolve(ScanKind::Embed, second, &thresholds);
            assert_eq!(again.unwrap(), plan);
        }
    }
}
