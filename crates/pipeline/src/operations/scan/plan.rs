//! A scan with its options resolved.

use facescan_config::{DecodeMode, EmbeddingFormat};
use facescan_imaging::quality::acceptance::Preset;

use crate::{
    core::{
        options::{DetectOptions, StorageOptions},
        run::RunOptions,
    },
    operation::ScanKind,
};

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

    /// Returns whether the quality of the whole image is measured.
    pub(super) fn measures_image(&self) -> bool {
        self.kind.measures_quality() && !self.aligned
    }
}
