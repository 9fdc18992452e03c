//! Makes the detector's input from an image, on a device or on the CPU.

use std::{borrow::Borrow, sync::Arc};

use image::RgbImage;

use super::Detector;
use crate::core::{image_file::Pixels, options::InputSize};
use facescan_imaging::tensor::{Letterbox, Normalization, letterbox_into};
use facescan_inference::{
    backend::BackendError,
    graphs::{ImageGraph, process::TwoTapPlan, session::Samples},
    image_executor::{GraphSessions, ImageJob, ShapeKey, only_output},
    proof,
};

/// The maximum difference between a value and the CPU's, in levels.
const PART_OF_A_LEVEL: f32 = 0.001;

/// The job that letterboxes and normalizes an image into a row.
pub struct LetterboxJob<P> {
    image: Arc<P>,
    pub(super) letterbox: Letterbox,
    normalization: Normalization,
}

impl<P: Pixels> LetterboxJob<P> {
    fn size(&self) -> (u32, u32) {
        Borrow::<RgbImage>::borrow(self.image.as_ref()).dimensions()
    }
}

impl<P: Pixels> ImageJob for LetterboxJob<P> {
    type Output = Vec<f32>;

    fn shape_key(&self) -> ShapeKey {
        let (width, height) = self.size();
        let (input_width, input_height) = self.letterbox.input;
        ShapeKey {
            graph: ImageGraph::BilinearTwoTap.name(),
            lengths: vec![width, height, input_width, input_height],
        }
    }

    fn run_on_device(&self, graphs: &mut GraphSessions) -> Result<Vec<f32>, BackendError> {
        let plan = TwoTapPlan::letterbox(self.size(), &self.letterbox);
        let session = graphs.session(ImageGraph::BilinearTwoTap)?;
        let image = self.image.as_ref().borrow();
        let inputs = plan.inputs(image, [0; 3], &self.normalization);
        match only_output(session.run(&inputs)?)? {
            (_, Samples::F32(row)) if row.len() == self.letterbox.row_len() => Ok(row),
            (shape, _) => Err(BackendError::Run(format!(
                "the graph returned {shape:?} instead of a row for {:?}",
                self.letterbox.input
            ))),
        }
    }

    fn run_on_cpu(&self) -> Vec<f32> {
        let mut row = vec![0.0; self.letterbox.row_len()];
        letterbox_into(
            self.image.as_ref().borrow(),
            &self.letterbox,
            &self.normalization,
            &mut row,
        );
        row
    }

    fn compare(&self, given: &Vec<f32>, right: &Vec<f32>) -> Result<f64, String> {
        // Values are levels that were shifted and scaled. A rounding error is allowed, a different level is not.
        let scale = self.normalization.scale.into_iter().fold(0.0, f32::max);
        let limit = PART_OF_A_LEVEL * scale;
        if given.len() != right.len() || !proof::are_near(given, right, limit) {
            return Err("its values differ from the CPU's by more than rounding errors".to_owned());
        }
        Ok(proof::cosine(given, right))
    }
}

impl Detector {
    /// Creates the job that makes the detector's input from an image.
    pub fn letterbox_job<P: Pixels>(&self, image: &Arc<P>, size: InputSize) -> LetterboxJob<P> {
        let pixels: &RgbImage = image.as_ref().borrow();
        LetterboxJob {
            image: Arc::clone(image),
            letterbox: self.letterbox(pixels.dimensions(), size),
            normalization: self.normalization,
        }
    }

    /// Creates the job that proves a device for the detector's input.
    pub fn letterbox_probe(normalization: &Normalization) -> LetterboxJob<RgbImage> {
        let image = proof::image(150, 110);
        LetterboxJob {
            letterbox: Letterbox::fit(image.dimensions(), (96, 96)),
            image: Arc::new(image),
            normalization: *normalization,
        }
    }
}
