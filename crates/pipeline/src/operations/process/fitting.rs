//! The resizes of `/process`, on a device or on the CPU.

use std::sync::Arc;

use image::RgbImage;

use crate::{
    Pipeline,
    core::{error::PipelineError, image_file::into_owned, run::ImageRun},
    models::row_job::RowJob,
};
use facescan_imaging::{
    blur::fill,
    crop::{Region, crop, put},
    preprocess::{Layout, Placement, Preprocess, Profile},
    resize::{Filter, resize},
};
use facescan_inference::{device::DeviceRun, device_task::DeviceTask};

impl Pipeline {
    /// Resizes an image and places it in the output. Uses OpenCV's filter for its profile, and Pillow's filter
    /// otherwise.
    ///
    /// # Errors
    /// [`PipelineError::DeviceUnavailable`] if the run is strict and the CPU did the work of a device that failed.
    pub(super) async fn fit(
        &self,
        pixels: &mut RgbImage,
        fitting: &Preprocess,
        run: &mut ImageRun,
    ) -> Result<(), PipelineError> {
        let size = pixels.dimensions();
        let placed = fitting.placement(size);
        if placed == Placement::stretch(size) {
            return Ok(());
        }
        let (width, height) = placed.output;
        if self.processing.has_device() {
            let levels = Preprocess {
                layout: Layout::Nhwc,
                mean: [0.0; 3],
                std: [1.0 / 255.0; 3],
                ..fitting.clone()
            };
            let image = Arc::new(std::mem::take(pixels));
            let job = RowJob::new(&image, &levels);
            if job.has_graph() {
                let done = self.processing.run(Arc::new(job)).await;
                let samples = done.output.into_iter();
                let samples = samples.map(|level| level.round_ties_even() as u8).collect();
                *pixels = RgbImage::from_raw(width, height, samples).ok_or_else(|| {
                    PipelineError::UnexpectedOutput(format!(
                        "a resize did not return {width} × {height} pixels"
                    ))
                })?;
                return self.record(run, DeviceTask::ImageProcessing, done.run);
            }
            drop(job);
            *pixels = into_owned(image);
        }
        *pixels = fit_on_cpu(pixels, &placed, fitting);
        self.record(run, DeviceTask::ImageProcessing, DeviceRun::CPU)
    }
}

fn fit_on_cpu(image: &RgbImage, placed: &Placement, fitting: &Preprocess) -> RgbImage {
    let filter = match fitting.profile {
        Profile::Opencv => Filter::BilinearTwoTap,
        Profile::Torchvision | Profile::Jax | Profile::Pil => Filter::Bilinear,
    };
    let ((width, height), (w, h)) = (placed.scaled, placed.output);
    let scaled = resize(image, width, height, filter);
    if placed.scaled == placed.output {
        return scaled;
    }
    // The part of the scaled image that is inside the output, and its place there.
    let [from_x, from_y] = [placed.at.0, placed.at.1].map(|at| (-at).max(0) as u32);
    let [x, y] = [placed.at.0, placed.at.1].map(|at| at.max(0) as u32);
    let inside = crop(
        &scaled,
        Region {
            x1: from_x,
            y1: from_y,
            x2: from_x.saturating_add(w.saturating_sub(x)),
            y2: from_y.saturating_add(h.saturating_sub(y)),
        },
    );
    let mut whole = RgbImage::new(w, h);
    fill(&mut whole, Region::full((w, h)), fitting.pad);
    let place = Region {
        x1: x,
        y1: y,
        x2: x + inside.width(),
        y2: y + inside.height(),
    };
    put(&mut whole, place, &inside);
    whole
}
