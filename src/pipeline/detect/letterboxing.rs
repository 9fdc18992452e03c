//! The detector's input from a picture, which a device may make.

use std::{borrow::Borrow, sync::Arc};

use image::RgbImage;

use super::{Detector, PendingDetection, Placed};
use crate::pipeline::options::DetectOptions;
use facescan_imaging::tensor::{Letterbox, Normalisation, letterbox_into};
use facescan_inference::{
    backend::BackendError,
    graphs::{
        ImageGraph,
        process::{TwoTapPlan, bilinear_two_tap},
        session::Samples,
    },
    image_executor::{GraphSessions, ImageExecutor, ImageJob, ShapeKey, only_output},
    proof,
};

/// How far a value may be from the CPU's, in levels.
const PART_OF_A_LEVEL: f32 = 0.001;

/// A picture, however it is held.
pub(crate) trait Pixels: Borrow<RgbImage> + Send + Sync + 'static {}

impl<P: Borrow<RgbImage> + Send + Sync + 'static> Pixels for P {}

/// A picture on its way to being a row `[3, side, side]`, letterboxed and normalised.
pub(crate) struct Letterboxing<P> {
    picture: Arc<P>,
    side: u32,
    normalisation: Normalisation,
}

impl<P: Pixels> Letterboxing<P> {
    fn fit(&self) -> Letterbox {
        Letterbox::fit(self.size(), (self.side, self.side))
    }

    fn size(&self) -> (u32, u32) {
        Borrow::<RgbImage>::borrow(self.picture.as_ref()).dimensions()
    }
}

impl<P: Pixels> ImageJob for Letterboxing<P> {
    type Output = Vec<f32>;

    fn shape_key(&self) -> ShapeKey {
        let (width, height) = self.size();
        ShapeKey {
            graph: ImageGraph::BilinearTwoTap.name(),
            lengths: vec![width, height, self.side, self.side],
        }
    }

    fn run_on_device(&self, graphs: &mut GraphSessions) -> Result<Vec<f32>, BackendError> {
        let plan = TwoTapPlan::letterbox(self.size(), (self.side, self.side));
        let session = graphs.session(ImageGraph::BilinearTwoTap.name(), bilinear_two_tap)?;
        let picture = self.picture.as_ref().borrow();
        let inputs = plan.inputs(picture, [0; 3], &self.normalisation);
        let len = 3 * (self.side as usize).pow(2);
        match only_output(session.run(&inputs)?)? {
            (_, Samples::F32(row)) if row.len() == len => Ok(row),
            (shape, _) => Err(BackendError::Run {
                detail: format!(
                    "the graph gave {shape:?} and not a row of side {}",
                    self.side
                ),
            }),
        }
    }

    fn run_on_cpu(&self) -> Vec<f32> {
        let mut row = vec![0.0; 3 * (self.side as usize).pow(2)];
        let side = (self.side, self.side);
        letterbox_into(
            self.picture.as_ref().borrow(),
            side,
            &self.normalisation,
            &mut row,
        );
        row
    }

    fn compare(&self, given: &Vec<f32>, right: &Vec<f32>) -> Result<f64, String> {
        // Whole levels are shifted and scaled: a rounding of that is allowed, another level is not.
        let scale = self.normalisation.scale.into_iter().fold(0.0, f32::max);
        let limit = PART_OF_A_LEVEL * scale;
        if given.len() != right.len() || !proof::are_near(given, right, limit) {
            return Err("its values are other levels than the cpu's".to_owned());
        }
        Ok(proof::cosine(given, right))
    }
}

impl Detector {
    /// The work of making the detector's input from a picture.
    pub(crate) fn letterboxing<P: Pixels>(&self, picture: &Arc<P>, side: u32) -> Letterboxing<P> {
        Letterboxing {
            picture: Arc::clone(picture),
            side,
            normalisation: self.normalisation,
        }
    }

    /// What a device for the detector's input is proved with.
    pub(crate) fn letterboxing_probe(normalisation: &Normalisation) -> Letterboxing<RgbImage> {
        Letterboxing {
            picture: Arc::new(proof::picture(150, 110)),
            side: 96,
            normalisation: *normalisation,
        }
    }

    /// Writes the picture into rows, one for each resolution, and lets them run, with a device for the pixels where
    /// there is one. To be driven by the pool.
    pub(crate) async fn submit_through<P: Pixels>(
        &self,
        executor: &ImageExecutor,
        picture: &Arc<P>,
        options: &DetectOptions,
    ) -> PendingDetection {
        if !executor.has_device() {
            return self.submit(picture.as_ref().borrow(), options);
        }
        let sizes = options.second_det_size.into_iter();
        let mut submitted = PendingDetection {
            rows: Vec::with_capacity(2),
            unprocessed: None,
        };
        for size in sizes.chain([options.det_size]) {
            let work = Arc::new(self.letterboxing(picture, size));
            let done = executor.run(Arc::clone(&work)).await;
            submitted.unprocessed = submitted.unprocessed.or(done.fallback);
            // Claimed only now, as no other row of its slab runs before it is written.
            let side = size as usize;
            let mut row = self.engine.claim(&[3, side, side]);
            row.values().copy_from_slice(&done.output);
            let placed = Placed {
                size,
                letterbox: work.fit(),
            };
            submitted.rows.push((placed, row.commit()));
        }
        submitted
    }
}
