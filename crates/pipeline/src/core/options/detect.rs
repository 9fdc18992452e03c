//! The options for finding faces: as sent, and with the defaults filled in.

use facescan_config::{DET_SIZE_STEP, DetSize, Detection, MAX_DET_SIZE, MIN_DET_SIZE, is_det_side};
use facescan_inference::registry::Thresholds;
use serde::Serialize;

use crate::core::error::PipelineError;

/// The options of a request that decide how faces are found.
#[derive(Clone, Debug, Default)]
pub(crate) struct DetectRequest {
    pub min_score: Option<f32>,
    pub nms_iou: Option<f32>,
    pub det_size: Option<DetSize>,
    pub second_det_size: Option<u32>,
    pub max_faces: Option<usize>,
    pub min_face_size: Option<f32>,
}

/// The options for finding faces.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DetectOptions {
    /// The lowest detection score, 0..=1.
    pub min_score: f32,
    /// The NMS threshold, 0..=1.
    pub nms_iou: f32,
    /// The side of the detector's input, a multiple of 32.
    pub det_size: DetSize,
    /// A second side, for faces that fill the image.
    pub second_det_size: Option<u32>,
    /// The maximum number of faces. The largest faces are kept.
    pub max_faces: Option<usize>,
    /// The shortest side of a face's box, in pixels of the image.
    pub min_face_size: f32,
}

/// The size of one input of the detector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InputSize {
    /// The longer side in pixels.
    pub side: u32,
    /// Whether smaller images are enlarged to it.
    pub enlarges: bool,
}

impl DetectOptions {
    /// Returns the size of the input that `det_size` asks for.
    pub fn main_input(&self) -> InputSize {
        self.input(self.det_size.side())
    }

    /// Returns the size of each input that is made of an image, the smaller one first.
    pub fn inputs(&self) -> impl Iterator<Item = InputSize> + use<> {
        let second = self.second_det_size.map(|side| self.input(side));
        second.into_iter().chain([self.main_input()])
    }

    fn input(&self, side: u32) -> InputSize {
        InputSize {
            side,
            enlarges: self.det_size.enlarges(),
        }
    }
}

impl DetectRequest {
    /// Fills in the defaults. If the settings have no threshold, this uses the threshold of the model.
    pub(crate) fn resolve(
        self,
        config: &Detection,
        thresholds: &Thresholds,
    ) -> Result<DetectOptions, PipelineError> {
        if self
            .max_faces
            .is_some_and(|most| u32::try_from(most).is_err())
        {
            return Err(PipelineError::invalid_option(
                "max_faces",
                format!("must be from 0 to {}", u32::MAX),
            ));
        }
        let min_score = self.min_score.or(config.min_score);
        let nms_iou = self.nms_iou.or(config.nms_iou);
        let det_size = self.det_size.unwrap_or(config.det_size);
        check_det_size("det_size", det_size.side())?;
        let mut options = DetectOptions {
            min_score: unit_range("min_score", min_score.unwrap_or(thresholds.score))?,
            nms_iou: unit_range("nms_iou", nms_iou.unwrap_or(thresholds.nms_iou))?,
            det_size,
            second_det_size: match self.second_det_size {
                Some(0) => None,
                Some(size) => Some(check_det_size("second_det_size", size)?),
                None => config.second_det_size,
            },
            max_faces: limit(self.max_faces.unwrap_or(config.max_faces)),
            min_face_size: self.min_face_size.unwrap_or(config.min_face_size as f32),
        };
        // A second size that is not smaller has nothing to add. That of the settings is for their first size.
        options.second_det_size = options
            .second_det_size
            .filter(|second| *second < det_size.side());
        if !(0.0..=65_535.0).contains(&options.min_face_size) {
            return Err(PipelineError::invalid_option(
                "min_face_size",
                "must be from 0 to 65535 pixels",
            ));
        }
        Ok(options)
    }
}

/// Returns the limit for a number of faces. 0 means no limit.
fn limit(max_faces: usize) -> Option<usize> {
    (max_faces != 0).then_some(max_faces)
}

fn check_det_size(option: &str, size: u32) -> Result<u32, PipelineError> {
    if is_det_side(size) {
        Ok(size)
    } else {
        Err(PipelineError::invalid_option(
            option,
            format!(
                "{size} is not a multiple of {DET_SIZE_STEP} from {MIN_DET_SIZE} to {MAX_DET_SIZE}"
            ),
        ))
    }
}

fn unit_range(option: &str, value: f32) -> Result<f32, PipelineError> {
    if (0.0..=1.0).contains(&value) {
        Ok(value)
    } else {
        Err(PipelineError::invalid_option(
            option,
            format!("{value} is not from 0 to 1"),
        ))
    }
}
