//! The last steps of an enhancement, on a device or on the CPU.

use image::RgbImage;

use facescan_imaging::enhance::DeviceSteps;
use facescan_inference::{
    backend::BackendError,
    graphs::{
        ImageGraph,
        enhance::{Plan, Steps},
        session::Samples,
    },
    image_executor::{GraphSessions, ImageJob, ShapeKey, only_output},
    proof,
};

/// The job that finishes a partly enhanced image.
pub struct FinishJob {
    /// The partly enhanced image.
    pub image: RgbImage,
    /// The steps to do.
    pub steps: DeviceSteps,
}

impl FinishJob {
    /// Creates the job that proves a device: it enlarges a small image and applies every step.
    pub fn probe() -> Self {
        Self {
            image: proof::image(96, 72),
            steps: DeviceSteps {
                size: (192, 144),
                contrast: true,
                sharpen: true,
            },
        }
    }

    fn graph(&self) -> ImageGraph {
        let DeviceSteps {
            contrast, sharpen, ..
        } = self.steps;
        ImageGraph::Enhance(Steps { contrast, sharpen })
    }
}

impl ImageJob for FinishJob {
    type Output = RgbImage;

    fn shape_key(&self) -> ShapeKey {
        let ((width, height), (w, h)) = (self.image.dimensions(), self.steps.size);
        ShapeKey {
            graph: self.graph().name(),
            lengths: vec![width, height, w, h],
        }
    }

    fn run_on_device(&self, graphs: &mut GraphSessions) -> Result<RgbImage, BackendError> {
        let size = self.steps.size;
        let plan = Plan::new(self.image.dimensions(), size);
        let session = graphs.session(self.graph())?;
        let (shape, samples) = only_output(session.run(&plan.inputs(&self.image))?)?;
        let image = match samples {
            Samples::U8(bytes) => RgbImage::from_raw(size.0, size.1, bytes),
            Samples::F32(_) => None,
        };
        image.ok_or_else(|| {
            BackendError::Run(format!(
                "the graph returned {shape:?} instead of an image of {size:?}"
            ))
        })
    }

    fn run_on_cpu(&self) -> RgbImage {
        self.steps.apply(&self.image)
    }

    fn compare(&self, given: &RgbImage, right: &RgbImage) -> Result<f64, String> {
        proof::same_image(given, right)
    }
}
