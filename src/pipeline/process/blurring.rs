//! The blur of a region, which a device may do.

use std::sync::Arc;

use image::RgbImage;

use crate::{pipeline::Pipeline, pipeline::error::PipelineError};
use facescan_imaging::{
    blur::{Gaussian, blur_region},
    crop::{Region, crop, put},
};
use facescan_inference::{
    backend::BackendError,
    graphs::{
        ImageGraph,
        process::{BlurPlan, Tiles, blur},
        session::Samples,
    },
    image_executor::{GraphSessions, ImageJob, ShapeKey, only_output},
    operation::Operation,
    proof,
};

/// Pixels that are read for a blur on a device at the most, each as often as tiles read it. A sample is up to five bytes and
/// five floats on its way through the graph, which is 75 bytes a pixel and 630 MB in all where nothing is freed before the
/// end, and half as much where it is.
const MOST_READ: u64 = 1 << 23;

/// A region of a picture on its way to being blurred.
pub(super) struct Blurring {
    /// The region and as much around it as the kernel reaches, where the picture goes on so far. An edge is reflected at
    /// only where it is one of the whole picture's, so that nothing comes out otherwise than it would of the whole.
    picture: RgbImage,
    /// Not empty, and inside what was cut out.
    region: Region,
    gaussian: Gaussian,
}

impl Blurring {
    /// Cuts out what a blur of `region` reads; the region has pixels and is inside the picture.
    fn new(picture: &RgbImage, region: Region, gaussian: &Gaussian) -> Self {
        let reach = gaussian.kernel() / 2;
        let around = Region {
            x1: region.x1.saturating_sub(reach),
            y1: region.y1.saturating_sub(reach),
            x2: region.x2.saturating_add(reach),
            y2: region.y2.saturating_add(reach),
        };
        let around = around.clipped(picture.dimensions());
        Self {
            picture: crop(picture, around),
            region: Region {
                x1: region.x1 - around.x1,
                y1: region.y1 - around.y1,
                x2: region.x2 - around.x1,
                y2: region.y2 - around.y1,
            },
            gaussian: *gaussian,
        }
    }

    /// A region of a small picture, at one of its corners: what a device is proved with.
    pub(super) fn known() -> Option<Self> {
        let region = Region {
            x1: 40,
            y1: 0,
            x2: 150,
            y2: 70,
        };
        let gaussian = Gaussian::new(7, 1.5)?;
        Some(Self::new(&proof::picture(150, 110), region, &gaussian))
    }
}

impl ImageJob for Blurring {
    type Output = RgbImage;

    fn shape_key(&self) -> ShapeKey {
        let (width, height) = self.picture.dimensions();
        let tiles = Tiles::new(self.region, &self.gaussian);
        ShapeKey {
            graph: ImageGraph::Blur.name(),
            lengths: vec![
                width,
                height,
                tiles.down,
                tiles.across,
                tiles.side,
                tiles.read,
            ],
        }
    }

    fn run_on_device(&self, graphs: &mut GraphSessions) -> Result<RgbImage, BackendError> {
        let plan = BlurPlan::new(self.picture.dimensions(), self.region, &self.gaussian);
        let session = graphs.session(ImageGraph::Blur.name(), blur)?;
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
        let mut picture = self.picture.clone();
        blur_region(&mut picture, self.region, &self.gaussian);
        crop(&picture, self.region)
    }

    fn compare(&self, given: &RgbImage, right: &RgbImage) -> Result<f64, String> {
        proof::same_picture(given, right)
    }
}

impl Pipeline {
    /// Blurs a region of a picture, on the device for pictures where there is one and the region is not too large for it.
    ///
    /// # Errors
    /// When the CPU had to do it for a device that is down or failed, and `strict` says that it must not.
    pub(super) async fn blur(
        &self,
        pixels: &mut RgbImage,
        region: Region,
        gaussian: &Gaussian,
        strict: bool,
    ) -> Result<(), PipelineError> {
        let region = region.clipped(pixels.dimensions());
        if region.is_empty() {
            return Ok(());
        }
        let read = Tiles::new(region, gaussian).pixels_read();
        if !self.processing.has_device() || read > MOST_READ {
            blur_region(pixels, region, gaussian);
            return Ok(());
        }
        let work = Blurring::new(pixels, region, gaussian);
        let done = self.processing.run(Arc::new(work)).await;
        put(pixels, region, &done.output);
        self.check_rows(strict, Operation::ImageProcessing, done.fallback)
    }
}

#[cfg(test)]
mod tests;
