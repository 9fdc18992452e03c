//! The faces of an image: the work on each face between detection and the response, and its results.
//!
//! The work on a face has two halves. `FaceWork::cut` is CPU work: it cuts the face out, measures it, and writes the
//! rows of the models. `FaceWork::finish` waits for the rows.

use std::{sync::Arc, time::Duration};

use facescan_imaging::{
    encode::{OutputFormat, encode},
    geometry::Landmarks,
    warp::{align_face, alignment_scale},
};
use facescan_inference::{
    device::DeviceRun, device_task::DeviceTask, engine::Pending, registry::Family,
};
use image::RgbImage;

use super::request::ScanPlan;
use crate::{
    Pipeline,
    core::{
        error::PipelineError,
        image_file::PooledImage,
        run::{ImageRun, millis},
        scan::{Face, FaceQuality},
        work,
    },
    models::{
        crop_model::FaceModel,
        grader::{Grader, PendingQuality},
    },
    plan::Plan as _,
};

/// The pixels that faces are cut out of.
pub(super) struct FacePixels {
    /// The image that was searched for faces.
    pub searched: Arc<PooledImage>,
    /// The pixels of the file for each pixel along a side of the searched image.
    pub divisor: u32,
    /// All pixels of the file. `None` if no face needs them.
    pub full: Option<Arc<PooledImage>>,
}

impl FacePixels {
    /// Cuts out and aligns the face at `points`, which are in pixels of the file.
    fn align(&self, points: &Landmarks) -> Option<RgbImage> {
        match &self.full {
            Some(full) if needs_full_image(points, self.divisor) => align_face(full, points),
            _ => align_face(&self.searched, &reduced(points, self.divisor)),
        }
    }
}

/// Returns whether the crop of a face would be enlarged, if it was cut out of an image with 1/`divisor` of the sides.
pub(super) fn needs_full_image(points: &Landmarks, divisor: u32) -> bool {
    divisor > 1 && alignment_scale(&reduced(points, divisor)).is_some_and(|scale| scale > 1.0)
}

/// Converts landmarks to pixels of a reduced image. The center of its first pixel is that of the first `divisor` pixels.
fn reduced(points: &Landmarks, divisor: u32) -> Landmarks {
    points.map(|point| point.map(|coordinate| (coordinate + 0.5) / divisor as f32 - 0.5))
}

/// The work that a scan does with the faces of one image.
pub(super) struct FaceWork<'a> {
    pixels: FacePixels,
    pipeline: &'a Pipeline,
    plan: &'a ScanPlan,
    models: Vec<(DeviceTask, &'a dyn FaceModel)>,
    measure: bool,
}

/// A face that was cut out. It is empty if its landmarks are degenerate, because then there is no crop.
#[derive(Default)]
struct CutFace {
    /// One row for each model.
    rows: std::vec::IntoIter<Pending>,
    measures: Option<PendingQuality>,
    png: Option<Vec<u8>>,
}

impl<'a> FaceWork<'a> {
    /// Creates the work that a plan requests.
    pub(crate) fn new(pixels: FacePixels, pipeline: &'a Pipeline, plan: &'a ScanPlan) -> Self {
        let tasks = plan.tasks();
        Self {
            pixels,
            pipeline,
            plan,
            models: pipeline.models.of_faces(&tasks),
            measure: tasks.contains(&DeviceTask::QualityChecks),
        }
    }

    /// Adds the results to the faces. Processes a limited number of faces at a time, because their crops are in memory.
    ///
    /// # Errors
    /// [`PipelineError::TooMuchWork`] before any face is cut out, or the errors of [`cut`](Self::cut) and
    /// [`finish`](Self::finish).
    pub(crate) async fn run(
        &self,
        faces: &mut [Face],
        run: &mut ImageRun,
    ) -> Result<(), PipelineError> {
        let passes = self.work_on_one().saturating_mul(faces.len() as u64);
        run.work.add(passes)?;
        for faces in faces.chunks_mut(self.pipeline.face_chunk_size) {
            let began = self.pipeline.clock.monotonic();
            let cut = self.cut(faces)?;
            run.timings.align += self.pipeline.since(began);
            self.finish(faces, cut, run).await?;
        }
        Ok(())
    }

    /// Returns the price of the work on one face.
    fn work_on_one(&self) -> u64 {
        let models = self.models.iter().map(|(_, model)| model.model().work());
        let others = work::sum([
            (true, work::align()),
            (self.measure, work::measure_face()),
            (self.plan.crops, work::encode_face()),
        ]);
        models.sum::<u64>() + others
    }

    /// Cuts faces out by their landmarks and writes the rows of the models. This is CPU work. The caller must wait for
    /// the rows next.
    ///
    /// # Errors
    /// [`PipelineError::InvalidOption`] if a model needs landmarks that the face does not have, or an error of the PNG
    /// encoder.
    fn cut(&self, faces: &[Face]) -> Result<Vec<CutFace>, PipelineError> {
        let last = faces.len().saturating_sub(1);
        faces
            .iter()
            .enumerate()
            .map(|(index, face)| self.cut_one(face.landmarks.as_ref(), index == last))
            .collect()
    }

    fn cut_one(&self, points: Option<&Landmarks>, is_last: bool) -> Result<CutFace, PipelineError> {
        let crop = match points {
            _ if self.plan.aligned => Some(RgbImage::clone(&self.pixels.searched)),
            Some(points) => self.pixels.align(points),
            None if !self.models.is_empty() => return Err(no_landmarks()),
            None => None,
        };
        let Some(crop) = crop else {
            return Ok(CutFace::default());
        };
        let keep = self.plan.crops;
        // If this thread has more work with the face, it must not run a model itself.
        let waits_next = is_last && !self.measure && !keep;
        let last = self.models.len().saturating_sub(1);
        let rows = self.models.iter().enumerate().map(|(index, (_, model))| {
            let is_last = waits_next && index == last;
            model.model().submit(&crop, is_last)
        });
        Ok(CutFace {
            // First, so that the models run during the rest of the work.
            rows: rows.collect::<Vec<_>>().into_iter(),
            measures: self
                .measure
                .then(|| Grader::measure(self.pipeline.grader.as_ref(), &crop)),
            png: match keep {
                true => Some(encode(&crop, OutputFormat::Png)?),
                false => None,
            },
        })
    }

    /// Waits for the results of faces that were cut out.
    ///
    /// # Errors
    /// An error of a model, or [`PipelineError::DeviceUnavailable`] if the run is strict and work fell back to the CPU.
    async fn finish(
        &self,
        faces: &mut [Face],
        mut cut: Vec<CutFace>,
        run: &mut ImageRun,
    ) -> Result<(), PipelineError> {
        for &(task, model) in &self.models {
            let began = self.pipeline.clock.monotonic();
            let rows = cut.iter_mut().map(|cut| cut.rows.next());
            let rows = faces.iter_mut().zip(rows);
            let (faces, rows): (Vec<_>, Vec<_>) =
                rows.filter_map(|(face, row)| Some((face, row?))).unzip();
            let outputs = model.model().finish(rows).await?;
            self.record(run, task, (outputs.run, outputs.queued), began)?;
            for (face, output) in faces.into_iter().zip(&outputs.rows) {
                model.add(output, face)?;
            }
        }
        for (face, cut) in faces.iter_mut().zip(cut) {
            if let Some(pending) = cut.measures {
                face.results.quality = Some(self.judge(face, pending, run).await?);
            }
            face.crop = cut.png;
        }
        Ok(())
    }

    /// Waits for the measures of a face, and judges them.
    async fn judge(
        &self,
        face: &Face,
        pending: PendingQuality,
        run: &mut ImageRun,
    ) -> Result<FaceQuality, PipelineError> {
        let (measures, device_run) = pending.finish().await?;
        self.pipeline
            .record(run, DeviceTask::QualityChecks, device_run)?;
        let embedder = self.pipeline.models.embedder.spec();
        // The thresholds apply to SFace. The norms of other embedders have other scales.
        let embedding = face.embedding.as_ref();
        let embedding = embedding.filter(|_| embedder.family == Family::Sface);
        let norm = embedding.map(|embedding| embedding.norm);
        Ok(FaceQuality::judge(face, measures, norm, self.plan.preset))
    }

    /// Records the device of a model and its time since `began`. `ran` has the device and the wait for a session.
    fn record(
        &self,
        run: &mut ImageRun,
        task: DeviceTask,
        (device, queued): (Option<DeviceRun>, Duration),
        began: Duration,
    ) -> Result<(), PipelineError> {
        if let Some(device) = device {
            self.pipeline.record(run, task, device)?;
        }
        let elapsed = self.pipeline.clock.monotonic().saturating_sub(began);
        let queued = queued.min(elapsed);
        run.timings.queue += millis(queued);
        run.timings.embed += self.pipeline.since(began + queued);
        Ok(())
    }
}

fn no_landmarks() -> PipelineError {
    PipelineError::invalid_option(
        "aligned",
        "the detector returns no landmarks, so faces cannot be aligned: send aligned crops with aligned=true, or \
         configure a detector with landmarks",
    )
}

#[cfg(test)]
mod tests {
    use facescan_imaging::{memory::PixelMemory, warp::ARCFACE_TEMPLATE};
    use image::Rgb;

    use super::*;

    const DIVISOR: u32 = 8;

    fn pooled(pixels: RgbImage) -> Arc<PooledImage> {
        PooledImage::new(pixels, &Arc::new(PixelMemory::new(0)))
    }

    /// Returns a wave along `x`, at every pixel or at the center of each block of a reduced image.
    fn wave(divisor: u32) -> RgbImage {
        let side = 1200 / divisor;
        RgbImage::from_fn(side, side, |x, _| {
            let at = (f64::from(x) + 0.5) * f64::from(divisor) - 0.5;
            Rgb([((at % 400.0 - 200.0).abs() * 1.2) as u8; 3])
        })
    }

    fn landmarks(scale: f32) -> Landmarks {
        ARCFACE_TEMPLATE.map(|[x, y]| [x * scale + 30.0, y * scale + 20.0])
    }

    fn difference(a: &RgbImage, b: &RgbImage) -> f64 {
        let levels = a.as_raw().iter().zip(b.as_raw());
        let sum: f64 = levels.map(|(a, b)| f64::from(a.abs_diff(*b))).sum();
        sum / a.as_raw().len() as f64
    }

    #[test]
    fn a_crop_of_a_reduced_image_is_at_the_same_place() {
        let pixels = FacePixels {
            searched: pooled(wave(DIVISOR)),
            divisor: DIVISOR,
            full: None,
        };
        let points = landmarks(10.0);
        assert!(!needs_full_image(&points, DIVISOR));
        let expected = align_face(&wave(1), &points).unwrap();
        let apart = difference(&pixels.align(&points).unwrap(), &expected);
        assert!(apart < 1.5, "{apart} levels on average");
    }

    #[test]
    fn a_crop_that_would_be_enlarged_comes_from_the_full_image() {
        let pixels = FacePixels {
            searched: pooled(wave(DIVISOR)),
            divisor: DIVISOR,
            full: Some(pooled(wave(1))),
        };
        let points = landmarks(4.0);
        assert!(needs_full_image(&points, DIVISOR));
        let expected = align_face(&wave(1), &points);
        assert!(pixels.align(&points) == expected);
    }
}
