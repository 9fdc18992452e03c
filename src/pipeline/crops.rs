//! The CPU work between detection and embedding: cuts faces out, measures them, and writes the embedder's rows.

use image::RgbImage;

use crate::{
    pipeline::error::PipelineError,
    pipeline::{
        Pipeline,
        embed::Embedder,
        options::{ScanKind, ScanPlan},
        quality::{Grader, PendingQuality},
    },
};
use facescan_imaging::{
    encode::{OutputFormat, encode},
    geometry::Landmarks,
    warp::align_face,
};
use facescan_inference::engine::Pending;

/// The work that a scan does with the faces of one image.
pub(super) struct Crops<'a> {
    picture: &'a RgbImage,
    embedder: &'a Embedder,
    grader: Option<&'a Grader>,
    embed: bool,
    measure: bool,
    keep: bool,
    aligned: bool,
}

/// A face that was cut out. All fields are `None` if its landmarks are degenerate and there is no crop.
#[derive(Default)]
pub(super) struct CutFace {
    pub measures: Option<PendingQuality>,
    pub embedding: Option<Pending>,
    pub png: Option<Vec<u8>>,
}

impl<'a> Crops<'a> {
    /// Returns the work that `options` request, or `None` if there is none.
    pub fn new(picture: &'a RgbImage, pipeline: &'a Pipeline, options: &ScanPlan) -> Option<Self> {
        let crops = Self {
            picture,
            embedder: &pipeline.embedder,
            grader: pipeline.grader.as_ref(),
            embed: options.kind == ScanKind::Embed,
            measure: options.quality,
            keep: options.crops,
            aligned: options.aligned,
        };
        (crops.embed || crops.measure || crops.keep).then_some(crops)
    }

    /// Cuts faces out by their landmarks. This is CPU work. The caller must wait for the rows next.
    ///
    /// # Errors
    /// [`PipelineError::InvalidOption`] if a face to embed has no landmarks, or an error of the PNG encoder.
    pub fn cut<'b>(
        &self,
        faces: impl ExactSizeIterator<Item = Option<&'b Landmarks>>,
    ) -> Result<Vec<CutFace>, PipelineError> {
        let last = faces.len().saturating_sub(1);
        faces
            .enumerate()
            .map(|(index, points)| self.cut_one(points, index == last))
            .collect()
    }

    fn cut_one(&self, points: Option<&Landmarks>, is_last: bool) -> Result<CutFace, PipelineError> {
        let crop = match points {
            _ if self.aligned => Some(self.picture.clone()),
            Some(points) => align_face(self.picture, points),
            None if self.embed => {
                return Err(PipelineError::invalid_option(
                    "aligned",
                    "the detector returns no landmarks, so faces cannot be aligned: send aligned crops with \
                     aligned=true, or configure a detector with landmarks",
                ));
            }
            None => None,
        };
        let Some(crop) = crop else {
            return Ok(CutFace::default());
        };
        Ok(CutFace {
            // First, so that the model runs during the rest of the work.
            embedding: self.embed.then(|| {
                // If this thread has more work with the face, it must not run the model itself.
                let is_last = is_last && !self.measure && !self.keep;
                self.embedder.submit(&crop, is_last)
            }),
            measures: self.measure.then(|| Grader::measure(self.grader, &crop)),
            png: if self.keep {
                Some(encode(&crop, OutputFormat::Png)?)
            } else {
                None
            },
        })
    }
}
