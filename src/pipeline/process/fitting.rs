//! Resizing as `/process` has it, which a device may do.

use std::sync::Arc;

use image::RgbImage;

use super::canvas::owned;
use crate::{
    pipeline::error::PipelineError,
    pipeline::{Pipeline, preprocess::Filling},
};
use facescan_imaging::{
    preprocess::{Layout, Placement, Preprocess, Profile},
    resize::{Filter, resize},
};
use facescan_inference::operation::Operation;

impl Pipeline {
    /// Scales a picture and puts it where it belongs: by Pillow's filter, or by OpenCV's where the profile is that.
    ///
    /// # Errors
    /// When the CPU had to do it for a device that is down or failed, and `strict` says that it must not.
    pub(super) async fn fit(
        &self,
        pixels: &mut RgbImage,
        fitting: &Preprocess,
        strict: bool,
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
            let picture = Arc::new(std::mem::take(pixels));
            let filling = Filling::new(&picture, &levels);
            if filling.has_graph() {
                let done = self.processing.run(Arc::new(filling)).await;
                let samples = done.output.into_iter();
                let samples = samples.map(|level| level.round_ties_even() as u8).collect();
                *pixels = RgbImage::from_raw(width, height, samples).ok_or_else(|| {
                    PipelineError::UnexpectedOutput(format!(
                        "a resize gave no {width} × {height} pixels"
                    ))
                })?;
                return self.check_rows(strict, Operation::ImageProcessing, done.fallback);
            }
            drop(filling);
            *pixels = owned(picture);
        }
        *pixels = fitted(pixels, &placed, fitting);
        Ok(())
    }
}

fn fitted(picture: &RgbImage, placed: &Placement, fitting: &Preprocess) -> RgbImage {
    let filter = match fitting.profile {
        Profile::Opencv => Filter::BilinearTwoTap,
        Profile::Torchvision | Profile::Jax | Profile::Pil => Filter::Bilinear,
    };
    let ((width, height), (w, h)) = (placed.scaled, placed.output);
    let scaled = resize(picture, width, height, filter);
    if placed.scaled == placed.output {
        return scaled;
    }
    let mut whole = RgbImage::from_pixel(w, h, image::Rgb(fitting.pad));
    image::imageops::replace(&mut whole, &scaled, placed.at.0, placed.at.1);
    whole
}
