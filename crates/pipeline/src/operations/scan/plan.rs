//! A scan with its options resolved.

use facescan_config::{DecodeMode, EmbeddingFormat};
use facescan_imaging::quality::acceptance::Preset;
use facescan_inference::device_task::DeviceTask;
use serde_json::{Value, json};

use crate::{
    core::{
        memory,
        options::{DetectOptions, StorageOptions},
        run::RunOptions,
        work::{self, Size},
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
    /// Returns the device tasks that take part.
    pub(super) fn device_tasks(&self) -> Vec<DeviceTask> {
        let mut tasks = Vec::new();
        if !self.aligned {
            tasks.extend([DeviceTask::ImageProcessing, DeviceTask::FaceDetection]);
        }
        tasks.extend(self.kind.model());
        if self.quality {
            tasks.push(DeviceTask::QualityChecks);
        }
        tasks
    }

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

    /// Returns the memory for an image of a size.
    pub(super) fn memory_for(&self, size: Size) -> u64 {
        let search = if self.aligned {
            0
        } else {
            memory::detection(&self.detect)
        };
        memory::decoding(size).max(memory::samples(work::pixels(size)) + search)
    }

    /// Returns the options that decide the content of a scan.
    pub(super) fn content_options(&self) -> Value {
        // Without `..`, so that the compiler requires a decision for each new option.
        let Self {
            // The key has its name.
            kind: _,
            detect,
            quality,
            preset,
            aligned,
            // Decides the content only together with other options.
            decode: _,
            // These decide how the scan is run, stored and written, but not its content.
            landmarks: _,
            crops: _,
            embedding_format: _,
            storage: _,
            run: _,
        } = self;
        json!({
            "detect": (!aligned).then_some(detect),
            "preset": quality.then_some(preset),
            "aligned": aligned,
            "reduced_side": self.reduced_side(),
        })
    }
}
