//! The CPU work between detection and embedding: faces are cut out, measured, and written into the embedder's rows.

use std::sync::Arc;

use image::RgbImage;

use crate::{
    error::Error,
    imaging::{
        encode::{OutputFormat, encode},
        geometry::Landmarks,
        warp::align_face,
    },
    inference::engine::Pending,
    pipeline::{
        Held, Pipeline,
        embed::Embedder,
        options::{ScanKind, ScanOptions},
        quality::{Grader, Measuring},
    },
};

/// What is done with the faces of one picture.
#[derive(Clone)]
pub(super) struct Crops {
    picture: Arc<Held>,
    embedder: Embedder,
    grader: Option<Grader>,
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

impl Crops {
    /// What `options` ask to be done; `None` when that is nothing.
    pub fn asked(picture: &Arc<Held>, pipeline: &Pipeline, options: &ScanOptions) -> Option<Self> {
        let crops = Self {
            picture: Arc::clone(picture),
            embedder: pipeline.embedder.clone(),
            grader: pipeline.grader.clone(),
            embed: options.kind == ScanKind::Embed,
            measure: options.quality,
            keep: options.crops,
            aligned: options.aligned,
        };
        (crops.embed || crops.measure || crops.keep).then_some(crops)
    }

    /// How many faces to cut at a time.
    pub fn together(&self) -> usize {
        self.embedder.together()
    }

    /// Cuts faces by their points.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] when faces without points are to be embedded; otherwise a fault of ours.
    pub fn cut<'a>(
        &self,
        faces: impl Iterator<Item = Option<&'a Landmarks>>,
    ) -> Result<Vec<CutFace>, Error> {
        faces
            .take(self.together())
            .map(|points| self.cut_one(points))
            .collect()
    }

    fn cut_one(&self, points: Option<&Landmarks>) -> Result<CutFace, Error> {
        let crop = match points {
            _ if self.aligned => Some(RgbImage::clone(&self.picture)),
            Some(points) => align_face(&self.picture, points),
            None if self.embed => {
                return Err(Error::invalid_option(
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
            embedding: self.embed.then(|| self.embedder.submit(&crop)),
            measures: self
                .measure
                .then(|| Grader::measure(self.grader.as_ref(), &crop)),
            png: if self.keep {
                Some(encode(&crop, OutputFormat::Png)?)
            } else {
                None
            },
        })
    }
}
