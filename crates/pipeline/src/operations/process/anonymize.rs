//! Hides faces, and searches again until the detector finds none.

use image::RgbImage;

use super::{
    regions::{around_all, price_of_blur},
    request::ProcessPlan,
    step::Method,
};
use crate::{
    Pipeline,
    core::{error::PipelineError, run::ImageRun, work},
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

impl Pipeline {
    /// Hides every face that the detector finds. Returns the number of faces in the first search, and the number of searches. The
    /// last one found no face.
    ///
    /// # Errors
    /// [`PipelineError::AnonymizationFailed`] if the last search still finds faces, or an error of the model or the
    /// server.
    pub(super) async fn hide_faces(
        &self,
        pixels: &mut RgbImage,
        options: &HideOptions,
        plan: &ProcessPlan,
        run: &mut ImageRun,
    ) -> Result<(usize, u32), PipelineError> {
        // Every face must be hidden, so the limits on size and number do not apply.
        let every = plan.detect.clone().without_limits();
        let mut faces = 0;
        for search in 1..=MAX_SEARCHES {
            let found = self.faces_of(pixels, &every, run).await?;
            if found.is_empty() {
                return Ok((faces, search));
            }
            if search == 1 {
                faces = found.len();
            }
            for region in around_all(&found, pixels.dimensions(), options.margin) {
                let area = work::pixels((region.width(), region.height()));
                run.work.add(work::PIXELATE * area)?;
                match BLOCKS.get(search as usize - 1) {
                    Some(&blocks) => {
                        options.hide(pixels, region, blocks);
                        if let Some(gaussian) = options.smoothing_kernel(region, blocks) {
                            run.work.add(price_of_blur(region, &gaussian))?;
                            self.blur(pixels, region, &gaussian, run).await?;
                        }
                    }
                    None => fill(pixels, region, options.color),
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
