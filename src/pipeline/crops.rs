//! The CPU work between detection and embedding: faces are cut out, measured, and written into the embedder's rows.

use image::RgbImage;

use crate::{
    pipeline::error::PipelineError,
    pipeline::{
        Pipeline,
        embed::Embedder,
        options::{ScanKind, ScanOptions},
        quality::{Grader, Measuring},
    },
};
use facescan_imaging::{
    encode::{OutputFormat, encode},
    geometry::Landmarks,
    warp::align_face,
};
use facescan_inference::engine::Pending;

/// What is done with the faces of one picture.
pub(super) struct Crops<'a> {
    picture: &'a RgbImage,
    embedder: &'a Embedder,
    grader: Option<&'a Grader>,
    embed: bool,
    measure: bool,
    keep: bool,
    aligned: bool,
}

/// A face that was cut out; all is absent when its points are degenerate, so that no crop can be cut.
#[derive(Default)]
pub(super) struct CutFace {
    pub measures: Option<Measuring>,
    pub embedding: Option<Pending>,
    pub png: Option<Vec<u8>>,
}

impl<'a> Crops<'a> {
    /// What `options` ask to be done; `None` when that is nothing.
    pub fn asked(
        picture: &'a RgbImage,
        pipeline: &'a Pipeline,
        options: &ScanOptions,
    ) -> Option<Self> {
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

    /// Cuts faces by their points. CPU work, and the last before a wait.
    ///
    /// # Errors
    /// [`PipelineError::InvalidOption`] when faces without points are to be embedded; otherwise a fault of ours.
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
                    "the detector gives no landmarks, so faces cannot be aligned: send aligned crops with \
                     aligned=true, or configure a detector with landmarks",
                ));
            }
            None => None,
        };
        let Some(crop) = crop else {
            return Ok(CutFace::default());
        };
        Ok(CutFace {
            // First, so that the model runs while the rest is done.
            embedding: self.embed.then(|| {
                // What else is done with the face would keep the model waiting on this thread.
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
