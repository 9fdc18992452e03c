//! Blurs a region, on a device or on the CPU.

use std::sync::Arc;

use image::RgbImage;

use crate::{
    Pipeline,
    core::{error::PipelineError, run::ImageRun},
};
use facescan_imaging::{
    blur::{Gaussian, blur_region},
    crop::{Region, copy, crop, put},
};
use facescan_inference::{
    backend::BackendError,
    device::DeviceRun,
    device_task::DeviceTask,
    graphs::{
        ImageGraph,
        process::{BlurPlan, Tiles},
        session::Samples,
    },
    image_executor::{GraphSessions, ImageJob, ShapeKey, only_output},
    proof,
};

/// The maximum number of pixels that a blur reads on a device. A pixel counts once for each tile that reads it. A
/// sample becomes up to five bytes and five floats in the graph, which is 75 bytes per pixel. That is 630 MB if the
/// runtime frees nothing before the end, and half of it otherwise.
const MAX_READ: u64 = 1 << 23;

pub(super) struct BlurJob {
    /// The region, and the pixels around it that the kernel reads. The kernel reflects at the edges of the image only,
    /// so the result is the same as if the whole image were blurred.
    image: RgbImage,
    /// The region inside `image`, not empty.
    region: Region,
    gaussian: Gaussian,
}

impl BlurJob {
    /// Cuts out the pixels that a blur of `region` reads. The region must not be empty and must be inside the image.
    fn new(image: &RgbImage, region: Region, gaussian: &Gaussian) -> Self {
        let reach = gaussian.kernel() / 2;
        let around = Region {
            x1: region.x1.saturating_sub(reach),
            y1: region.y1.saturating_sub(reach),
            x2: region.x2.saturating_add(reach),
            y2: region.y2.saturating_add(reach),
        };
        let around = around.clipped(image.dimensions());
        Self {
            image: crop(image, around),
            region: Region {
                x1: region.x1 - around.x1,
                y1: region.y1 - around.y1,
                x2: region.x2 - around.x1,
                y2: region.y2 - around.y1,
            },
            gaussian: *gaussian,
        }
    }

    /// Returns the job that proves a device: it blurs a region at the edge of a small image.
    pub(super) fn probe() -> Option<Self> {
        let region = Region {
            x1: 40,
            y1: 0,
            x2: 150,
            y2: 70,
        };
        let gaussian = Gaussian::new(7, 1.5)?;
        Some(Self::new(&proof::image(150, 110), region, &gaussian))
    }
}

impl ImageJob for BlurJob {
    type Output = RgbImage;

    fn shape_key(&self) -> ShapeKey {
        let (width, height) = self.image.dimensions();
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
        let plan = BlurPlan::new(self.image.dimensions(), self.region, &self.gaussian);
        let session = graphs.session(ImageGraph::Blur)?;
        let (shape, samples) = only_output(session.run(&plan.inputs(&self.image))?)?;
        let pixels = match samples {
            Samples::U8(tiles) => plan.pixels(&tiles),
            Samples::F32(_) => None,
        };
        pixels.ok_or_else(|| {
            BackendError::Run(format!(
                "the graph returned {shape:?} for the region {:?}",
                self.region
            ))
        })
    }

    fn run_on_cpu(&self) -> RgbImage {
        let mut image = copy(&self.image);
        blur_region(&mut image, self.region, &self.gaussian);
        crop(&image, self.region)
    }

    fn compare(&self, given: &RgbImage, right: &RgbImage) -> Result<f64, String> {
        proof::same_image(given, right)
    }
}

impl Pipeline {
    /// Blurs a region of an image. A device does it if there is one and the region is not too large.
    ///
    /// # Errors
    /// [`PipelineError::DeviceUnavailable`] if the run is strict and the CPU did the work of a device that failed.
    pub(super) async fn blur(
        &self,
        pixels: &mut RgbImage,
        region: Region,
        gaussian: &Gaussian,
        run: &mut ImageRun,
    ) -> Result<(), PipelineError> {
        let region = region.clipped(pixels.dimensions());
        if region.is_empty() {
            return Ok(());
        }
        let read = Tiles::new(region, gaussian).pixels_read();
        if !self.processing.has_device() || read > MAX_READ {
            blur_region(pixels, region, gaussian);
            return self.record(run, DeviceTask::ImageProcessing, DeviceRun::CPU);
        }
        let work = BlurJob::new(pixels, region, gaussian);
        let done = self.processing.run(Arc::new(work)).await;
        put(pixels, region, &done.output);
        self.record(run, DeviceTask::ImageProcessing, done.run)
    }
}

#[cfg(test)]
mod tests;
