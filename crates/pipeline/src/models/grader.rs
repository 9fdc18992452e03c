//! Measures the quality of images, on a device or on the CPU.

use facescan_imaging::{
    quality::{self, ImageQuality},
    tensor::{ChannelOrder, Normalization, fill_row},
};
use facescan_inference::{
    device::DeviceRun,
    engine::{Engine, Pending},
};
use image::RgbImage;

use crate::core::error::PipelineError;

/// Measures the quality of images on an engine.
#[derive(Clone)]
pub struct Grader {
    engine: Engine,
}

/// The quality of an image, or the row that will measure it.
pub(crate) enum PendingQuality {
    /// Measured on the CPU.
    Done(ImageQuality),
    /// An engine will measure it.
    Pending {
        /// The future output of the row.
        row: Pending,
        measured_size: [u32; 2],
    },
}

impl Grader {
    /// Creates a grader that runs the quality graph on `engine`.
    pub fn new(engine: Engine) -> Self {
        Self { engine }
    }

    /// Measures an image on the engine of `grader`. Measures it on this thread if there is no grader or the image is
    /// empty. This is CPU work.
    pub(crate) fn measure(grader: Option<&Self>, image: &RgbImage) -> PendingQuality {
        let Some(grader) = grader.filter(|_| !image.is_empty()) else {
            return PendingQuality::Done(quality::measure(image));
        };
        let (width, height) = image.dimensions();
        let mut row = grader.engine.claim(&[3, height as usize, width as usize]);
        fill_row(
            image,
            &Normalization::identity(ChannelOrder::Rgb),
            row.values(),
        );
        PendingQuality::Pending {
            row: row.commit(),
            measured_size: [width, height],
        }
    }
}

impl PendingQuality {
    /// Waits for the measures. Returns them with the device that took them.
    pub(crate) async fn finish(self) -> Result<(ImageQuality, DeviceRun), PipelineError> {
        let (row, measured_size) = match self {
            Self::Done(measures) => return Ok((measures, DeviceRun::CPU)),
            Self::Pending { row, measured_size } => (row.await?, measured_size),
        };
        let measures = row.outputs.first().map(|measures| measures.row(row.row));
        let Some(&[blur_score, brightness, contrast, sharpness]) = measures else {
            return Err(PipelineError::UnexpectedOutput(
                "the quality graph did not return four measures".to_owned(),
            ));
        };
        let measures = ImageQuality {
            blur_score,
            brightness,
            contrast,
            sharpness,
            measured_size,
        };
        Ok((measures, row.run))
    }
}
