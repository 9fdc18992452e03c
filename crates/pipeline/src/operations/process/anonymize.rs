//! Hides faces, and searches again until the detector finds none.

use std::sync::Arc;

use image::RgbImage;

use super::{
    regions::{around_all, price_of_blur},
    request::ProcessPlan,
    step::Method,
};
use crate::{
    Pipeline,
    core::{error::PipelineError, image_file::into_owned, run::ImageRun, work},
};
use facescan_imaging::{
    blur::{Gaussian, fill, pixelate},
    crop::Region,
};

/// The number of blocks along a face's longer side after each search. Eight blocks hide who it is. A face that is found
/// again gets fewer blocks, and after the last number it is filled with one color.
const BLOCKS: [u32; 3] = [8, 4, 2];

/// The maximum number of searches. The last search must find no face.
const MAX_SEARCHES: u32 = 5;

pub(super) struct HideOptions {
    pub method: Method,
    /// The margin on each side, as a share of the face's box.
    pub margin: f32,
    /// The color of the method `fill`.
    pub color: [u8; 3],
}

/// An image in which the detector finds no face.
pub(super) struct HiddenFaces {
    pub pixels: RgbImage,
    /// The number of faces in the first search.
    pub faces: usize,
    /// The number of searches. The last one found no face.
    pub searches: u32,
}

impl Pipeline {
    /// Hides every face that the detector finds.
    ///
    /// # Errors
    /// [`PipelineError::AnonymizationFailed`] if the last search still finds faces, or an error of the model or the
    /// server.
    pub(super) async fn hide_faces(
        &self,
        pixels: RgbImage,
        options: &HideOptions,
        plan: &ProcessPlan,
        run: &mut ImageRun,
    ) -> Result<HiddenFaces, PipelineError> {
        let mut hidden = HiddenFaces {
            pixels,
            faces: 0,
            searches: 0,
        };
        // Every face must be hidden, so the limits on size and number do not apply.
        let every = plan.detect.clone().without_limits();
        while hidden.searches < MAX_SEARCHES {
            let image = Arc::new(std::mem::take(&mut hidden.pixels));
            let found = self.faces_in(&image, &every, run).await?;
            hidden.pixels = into_owned(image);
            hidden.searches += 1;
            if found.is_empty() {
                return Ok(hidden);
            }
            if hidden.searches == 1 {
                hidden.faces = found.len();
            }
            let size = hidden.pixels.dimensions();
            for region in around_all(&found, size, options.margin) {
                let area = work::pixels((region.width(), region.height()));
                run.work.add(work::PIXELATE * area)?;
                match BLOCKS.get(hidden.searches as usize - 1) {
                    Some(&blocks) => {
                        let pixels = &mut hidden.pixels;
                        options.hide(pixels, region, blocks);
                        if let Some(gaussian) = options.smoothing_kernel(region, blocks) {
                            run.work.add(price_of_blur(region, &gaussian))?;
                            self.blur(pixels, region, &gaussian, run).await?;
                        }
                    }
                    None => fill(&mut hidden.pixels, region, options.color),
                }
            }
        }
        Err(PipelineError::AnonymizationFailed {
            searches: MAX_SEARCHES,
        })
    }
}

impl HideOptions {
    fn hide(&self, pixels: &mut RgbImage, region: Region, blocks: u32) {
        match self.method {
            Method::Fill => fill(pixels, region, self.color),
            Method::Pixelate | Method::Blur => pixelate(pixels, region, blocks),
        }
    }

    /// Returns the kernel that smooths the edges of the blocks: two blocks wide. Only the method `blur` has one.
    fn smoothing_kernel(&self, region: Region, blocks: u32) -> Option<Gaussian> {
        if self.method != Method::Blur {
            return None;
        }
        let block = region.width().max(region.height()).div_ceil(blocks);
        let kernel = (2 * block + 1).min(255);
        Gaussian::new(kernel, kernel as f32 / 6.0)
    }
}
