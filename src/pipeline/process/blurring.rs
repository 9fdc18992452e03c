//! The blur of a region, which a device may do.

use std::sync::Arc;

use image::RgbImage;

use crate::{
    error::Error,
    imaging::{
        blur::{Gaussian, blur_region, put},
        crop::{Region, crop},
    },
    inference::{
        backend::BackendError,
        graphs::{
            process::{BlurPlan, blur},
            session::Samples,
        },
        operation::Operation,
        pictures::{Graphs, PictureWork, Sizes, only_output},
        proof,
    },
    pipeline::Pipeline,
};

/// A region of a picture on its way to being blurred.
pub(super) struct Blurring {
    picture: Arc<RgbImage>,
    /// Not empty, and inside the picture.
    region: Region,
    gaussian: Gaussian,
}

impl Blurring {
    /// A region of a small picture, at one of its corners: what a device is proved with.
    pub(super) fn known() -> Option<Self> {
        Some(Self {
            picture: Arc::new(proof::picture(150, 110)),
            region: Region {
                x1: 40,
                y1: 0,
                x2: 150,
                y2: 70,
            },
            gaussian: Gaussian::new(7, 1.5)?,
        })
    }
}

impl PictureWork for Blurring {
    type Answer = RgbImage;

    fn sizes(&self) -> Sizes {
        let (width, height) = self.picture.dimensions();
        let (region, kernel) = (self.region, self.gaussian.kernel());
        Sizes {
            graph: "gaussian_blur",
            lengths: vec![width, height, region.width(), region.height(), kernel],
        }
    }

    fn run_on_device(&self, graphs: &mut Graphs) -> Result<RgbImage, BackendError> {
        let plan = BlurPlan::new(self.picture.dimensions(), self.region, &self.gaussian);
        let session = graphs.session("gaussian_blur", blur)?;
        let (shape, samples) = only_output(session.run(&plan.inputs(&self.picture))?)?;
        let pixels = match samples {
            Samples::U8(tiles) => plan.pixels(&tiles),
            Samples::F32(_) => None,
        };
        pixels.ok_or_else(|| BackendError::Run {
            detail: format!("the graph gave {shape:?} for {:?}", self.region),
        })
    }

    fn run_on_cpu(&self) -> RgbImage {
        let mut picture = RgbImage::clone(&self.picture);
        blur_region(&mut picture, self.region, &self.gaussian);
        crop(&picture, self.region)
    }

    fn compare(&self, given: &RgbImage, right: &RgbImage) -> Result<f64, String> {
        proof::same_picture(given, right)
    }
}

impl Pipeline {
    /// Blurs a region of a picture, on the device for pictures where there is one.
    ///
    /// # Errors
    /// When the CPU had to do it and `strict` says that it must not.
    pub(super) async fn blur(
        &self,
        pixels: &mut RgbImage,
        region: Region,
        gaussian: &Gaussian,
        strict: bool,
    ) -> Result<(), Error> {
        let region = region.clipped(pixels.dimensions());
        if region.is_empty() {
            return Ok(());
        }
        if !self.processing.has_device() {
            blur_region(pixels, region, gaussian);
            return Ok(());
        }
        let picture = Arc::new(std::mem::take(pixels));
        let work = Blurring {
            picture: Arc::clone(&picture),
            region,
            gaussian: *gaussian,
        };
        let done = self.processing.run(Arc::new(work)).await;
        *pixels = owned(picture);
        put(pixels, region, &done.answer);
        self.check_rows(strict, Operation::ImageProcessing, done.fallback)
    }
}

/// A picture that work was done on. The thread of a device may hold on to it when it hangs.
pub(super) fn owned(picture: Arc<RgbImage>) -> RgbImage {
    Arc::try_unwrap(picture).unwrap_or_else(|picture| RgbImage::clone(&picture))
}

#[cfg(test)]
mod tests;
