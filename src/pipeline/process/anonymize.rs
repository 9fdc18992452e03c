//! Making faces unrecognisable, and looking again until none is found.

use std::sync::Arc;

use image::RgbImage;

use super::{
    Method, ProcessPlan,
    canvas::{around_all, owned},
};
use crate::{
    pipeline::error::PipelineError,
    pipeline::{Pipeline, options::DetectOptions},
};
use facescan_imaging::{
    blur::{Gaussian, fill, pixelate},
    crop::Region,
};

/// Blocks along a face's longer side after each search: too few to tell who it is, and fewer where a face is still found.
/// After the last of them a face is filled, which leaves nothing of it.
const BLOCKS: [u32; 3] = [8, 4, 2];

/// How often faces are looked for, the last time to see that there is none.
const MOST_SEARCHES: u32 = 5;

/// How faces are hidden.
pub(super) struct Hiding {
    pub method: Method,
    /// Added on each side, as a share of the face's box.
    pub margin: f32,
    /// Of `fill`.
    pub colour: [u8; 3],
}

/// A picture in which no face is found.
pub(super) struct Hidden {
    pub pixels: RgbImage,
    /// Faces that were found at first.
    pub faces: usize,
    /// How often faces were looked for, the last time in vain.
    pub searches: u32,
}

impl Pipeline {
    /// Hides every face that the detector finds.
    ///
    /// # Errors
    /// [`PipelineError::AnonymizationFailed`] when faces are still found after all; a fault of ours.
    pub(super) async fn hide_faces(
        &self,
        pixels: RgbImage,
        hiding: &Hiding,
        plan: &ProcessPlan,
    ) -> Result<Hidden, PipelineError> {
        let mut hidden = Hidden {
            pixels,
            faces: 0,
            searches: 0,
        };
        // No face is too small or one too many to be hidden.
        let every = DetectOptions {
            max_faces: None,
            min_face_size: 0.0,
            ..plan.detect.clone()
        };
        while hidden.searches < MOST_SEARCHES {
            let picture = Arc::new(std::mem::take(&mut hidden.pixels));
            let found = self.faces_in(&picture, plan, &every).await?;
            hidden.pixels = owned(picture);
            hidden.searches += 1;
            if found.is_empty() {
                return Ok(hidden);
            }
            if hidden.searches == 1 {
                hidden.faces = found.len();
            }
            let size = hidden.pixels.dimensions();
            for region in around_all(&found, size, hiding.margin) {
                match BLOCKS.get(hidden.searches as usize - 1) {
                    Some(&blocks) => {
                        let (pixels, strict) = (&mut hidden.pixels, plan.strict_device);
                        hiding.hide(pixels, region, blocks);
                        if let Some(gaussian) = hiding.softening(region, blocks) {
                            self.blur(pixels, region, &gaussian, strict).await?;
                        }
                    }
                    None => fill(&mut hidden.pixels, region, hiding.colour),
                }
                // Between two faces, so that a caller that has left is noticed.
                tokio::task::yield_now().await;
            }
        }
        Err(PipelineError::AnonymizationFailed {
            searches: MOST_SEARCHES,
        })
    }
}

impl Hiding {
    fn hide(&self, pixels: &mut RgbImage, region: Region, blocks: u32) {
        match self.method {
            Method::Fill => fill(pixels, region, self.colour),
            Method::Pixelate | Method::Blur => pixelate(pixels, region, blocks),
        }
    }

    /// What takes the blocks' edges away where a face is to look blurred: a kernel of two blocks.
    fn softening(&self, region: Region, blocks: u32) -> Option<Gaussian> {
        if self.method != Method::Blur {
            return None;
        }
        let block = region.width().max(region.height()).div_ceil(blocks);
        let kernel = (2 * block + 1).min(255);
        Gaussian::new(kernel, kernel as f32 / 6.0)
    }
}
