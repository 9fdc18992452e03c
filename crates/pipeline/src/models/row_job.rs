//! Makes a tensor row from an image, on a device or on the CPU.

use std::sync::Arc;

use image::RgbImage;

use crate::core::image_file::Pixels;
use facescan_imaging::preprocess::{Layout, Mode, Placement, Preprocess, Profile};
use facescan_inference::{
    backend::BackendError,
    graphs::{
        ImageGraph,
        process::{BilinearPlan, Rounding, TwoTapPlan},
        session::Samples,
    },
    image_executor::{GraphSessions, ImageJob, ShapeKey, only_output},
    proof,
};

/// The maximum side of a scaled image from which a device cuts the row.
const MAX_SCALED_SIDE: u32 = 1 << 16;

/// The maximum number of pixels of a row on a device. The graph without antialiasing needs the most memory. It has four
/// samples per channel, as bytes and as floats before and after weighting. That is 120 bytes per pixel, or 500 MB. Its
/// output is 50 MB.
const MAX_PIXELS: u64 = 1 << 22;

/// The maximum number of pixels in the input lines of the graph without antialiasing. There are two lines for each
/// output row, and each has the width of the image. The limit is 400 MB of bytes.
const MAX_IN_LINES: u64 = 1 << 26;

/// The maximum number of weights of both axes for one image: 128 MB.
const MAX_WEIGHTS: u64 = 32 << 20;

/// The job that makes a tensor row from an image.
pub struct RowJob<P> {
    image: Arc<P>,
    preprocess: Preprocess,
}

impl RowJob<RgbImage> {
    /// Returns the jobs that prove a device, one for each profile. They shrink a small image and place it in the
    /// middle.
    pub fn probes() -> impl Iterator<Item = Self> {
        Profile::ALL.into_iter().map(Self::probe)
    }

    /// Returns the job that proves a device for one profile.
    pub fn probe(profile: Profile) -> Self {
        let preprocess = Preprocess {
            height: 48,
            width: 64,
            profile,
            mode: Mode::Letterbox,
            // Different values, so that a proof detects swapped channels.
            pad: [7, 114, 255],
            ..Preprocess::default()
        };
        Self::new(&Arc::new(proof::image(150, 110)), &preprocess)
    }
}

impl<P: Pixels> RowJob<P> {
    /// Creates the job of an image.
    pub fn new(image: &Arc<P>, preprocess: &Preprocess) -> Self {
        Self {
            image: Arc::clone(image),
            preprocess: preprocess.clone(),
        }
    }

    fn pixels(&self) -> &RgbImage {
        self.image.as_ref().borrow()
    }

    /// Returns the shape of the row: `[3, h, w]` or `[h, w, 3]`.
    pub fn shape(&self) -> [usize; 3] {
        let (width, height) = self.preprocess.output_size(self.pixels().dimensions());
        let (w, h) = (width as usize, height as usize);
        match self.preprocess.layout {
            Layout::Nchw => [3, h, w],
            Layout::Nhwc => [h, w, 3],
        }
    }

    /// Returns whether a device can make the row. It cannot if the graph would need too much memory: for a large
    /// row, or for too many scaled pixels, input lines or weights.
    pub fn has_graph(&self) -> bool {
        let image = self.pixels();
        if image.is_empty() {
            return false;
        }
        let (width, height) = image.dimensions();
        let Placement { scaled, output, .. } = self.preprocess.placement((width, height));
        let area = |width: u32, height: u32| u64::from(width) * u64::from(height);
        let is_light = match self.preprocess.profile {
            Profile::Torchvision | Profile::Jax | Profile::Pil => {
                area(width, output.0) + area(height, output.1) <= MAX_WEIGHTS
            }
            Profile::Opencv => area(width, output.1) <= MAX_IN_LINES,
        };
        scaled.0.max(scaled.1) <= MAX_SCALED_SIDE
            && area(output.0, output.1) <= MAX_PIXELS
            && is_light
    }

    /// Makes the row on this thread. This is CPU work.
    pub fn fill(&self) -> Vec<f32> {
        let mut row = vec![0.0; self.shape().iter().product()];
        self.preprocess.write(self.pixels(), &mut row);
        row
    }

    /// Returns the maximum difference from the CPU's values, in levels. Devices round halves differently.
    fn levels(&self) -> f32 {
        match self.preprocess.profile {
            Profile::Jax | Profile::Opencv => 0.01,
            _ => 1.0,
        }
    }
}

fn graph(profile: Profile) -> ImageGraph {
    match profile {
        Profile::Torchvision => ImageGraph::Bilinear(Rounding::Once),
        Profile::Jax => ImageGraph::Bilinear(Rounding::None),
        Profile::Pil => ImageGraph::Bilinear(Rounding::EachPass),
        Profile::Opencv => ImageGraph::BilinearTwoTap,
    }
}

impl<P: Pixels> ImageJob for RowJob<P> {
    type Output = Vec<f32>;

    fn shape_key(&self) -> ShapeKey {
        let (width, height) = self.pixels().dimensions();
        let (w, h) = self.preprocess.output_size((width, height));
        ShapeKey {
            graph: graph(self.preprocess.profile).name(),
            lengths: vec![width, height, w, h],
        }
    }

    fn run_on_device(&self, graphs: &mut GraphSessions) -> Result<Vec<f32>, BackendError> {
        let image = self.pixels();
        let size = image.dimensions();
        let placed = self.preprocess.placement(size);
        let normalization = self.preprocess.normalization();
        let pad = self.preprocess.pad;
        let session = graphs.session(graph(self.preprocess.profile))?;
        let outputs = match self.preprocess.profile {
            Profile::Torchvision | Profile::Jax | Profile::Pil => {
                let plan = BilinearPlan::new(size, &placed);
                session.run(&plan.inputs(image, pad, &normalization))
            }
            Profile::Opencv => {
                let plan = TwoTapPlan::new(size, &placed);
                session.run(&plan.inputs(image, pad, &normalization))
            }
        }?;
        let len: usize = self.shape().iter().product();
        match only_output(outputs)? {
            (_, Samples::F32(row)) if row.len() == len => Ok(match self.preprocess.layout {
                Layout::Nchw => row,
                Layout::Nhwc => interleave(&row),
            }),
            (shape, _) => Err(BackendError::Run(format!(
                "the graph returned {shape:?} instead of {:?}",
                self.shape()
            ))),
        }
    }

    fn run_on_cpu(&self) -> Vec<f32> {
        self.fill()
    }

    fn compare(&self, given: &Vec<f32>, right: &Vec<f32>) -> Result<f64, String> {
        let scale = self.preprocess.normalization().scale;
        let scale = scale.into_iter().fold(0.0, f32::max);
        // Slightly more than a level, because a level is not exact after normalization.
        let limit = self.levels() * 1.001 * scale;
        if given.len() != right.len() || !proof::are_near(given, right, limit) {
            return Err(format!(
                "its values differ from the CPU's by more than {} of a level",
                self.levels()
            ));
        }
        Ok(proof::cosine(given, right))
    }
}

/// Interleaves three planes into pixels.
fn interleave(planes: &[f32]) -> Vec<f32> {
    let len = planes.len() / 3;
    (0..len)
        .flat_map(|at| [planes[at], planes[len + at], planes[2 * len + at]])
        .collect()
}

#[cfg(test)]
mod tests;
