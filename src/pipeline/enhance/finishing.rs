//! The end of an enhancement, which a device may do.

use image::RgbImage;

use facescan_imaging::enhance::DeviceSteps;
use facescan_inference::{
    backend::BackendError,
    graphs::{
        enhance::{Plan, Steps, graph},
        session::Samples,
    },
    image_executor::{GraphSessions, ImageJob, ShapeKey, only_output},
    proof,
};

/// A picture whose enhancement has begun, to be finished.
pub(crate) struct Finishing {
    /// The pixels so far.
    pub picture: RgbImage,
    /// What is left to do.
    pub steps: DeviceSteps,
}

impl Finishing {
    /// A small picture that is enlarged and goes through every step: what a device is proved with.
    pub fn probe() -> Self {
        Self {
            picture: proof::picture(96, 72),
            steps: DeviceSteps {
                size: (192, 144),
                contrast: true,
                sharpen: true,
            },
        }
    }

    fn graph_steps(&self) -> Steps {
        let DeviceSteps {
            contrast, sharpen, ..
        } = self.steps;
        Steps { contrast, sharpen }
    }
}

impl ImageJob for Finishing {
    type Output = RgbImage;

    fn shape_key(&self) -> ShapeKey {
        let ((width, height), (w, h)) = (self.picture.dimensions(), self.steps.size);
        ShapeKey {
            graph: self.graph_steps().graph_name(),
            lengths: vec![width, height, w, h],
        }
    }

    fn run_on_device(&self, graphs: &mut GraphSessions) -> Result<RgbImage, BackendError> {
        let (size, steps) = (self.steps.size, self.graph_steps());
        let plan = Plan::new(self.picture.dimensions(), size);
        let session = graphs.session(steps.graph_name(), || graph(steps))?;
        let (shape, samples) = only_output(session.run(&plan.inputs(&self.picture))?)?;
        let picture = match samples {
            Samples::U8(bytes) => RgbImage::from_raw(size.0, size.1, bytes),
            Samples::F32(_) => None,
        };
        picture.ok_or_else(|| BackendError::Run {
            detail: format!("the graph gave {shape:?} and not a picture of {size:?}"),
        })
    }

    fn run_on_cpu(&self) -> RgbImage {
        self.steps.apply(&self.picture)
    }

    fn compare(&self, given: &RgbImage, right: &RgbImage) -> Result<f64, String> {
        proof::same_picture(given, right)
    }
}
