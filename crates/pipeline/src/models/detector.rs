//! Face detection: letterbox, detector run, decoding of the heads, one NMS.

use std::{num::NonZeroU32, sync::Arc, time::Duration};

use facescan_config::Padding;
use image::RgbImage;

use super::loaded::LoadedModel;
use crate::core::{
    error::PipelineError,
    image_file::Pixels,
    options::{DetectOptions, InputSize},
    scan::Face,
    work::{self, Size},
};
use facescan_imaging::{
    geometry::BBox,
    tensor::{Letterbox, Normalization, letterbox_into},
};
use facescan_inference::{
    device::DeviceRun,
    engine::{Engine, Pending, Row},
    heads::{Candidate, Head, nms},
    image_executor::ImageExecutor,
    registry::ModelSpec,
};

mod letterbox_job;

/// The maximum number of faces of one image. Faces with the highest scores are kept. Real crowds at the largest
/// resolution have fewer faces. Requests with very low thresholds have many more, and each would be embedded.
const MAX_FACES: usize = 2000;

/// The detector's engine, and the code that decodes its outputs.
#[derive(Clone)]
pub struct Detector {
    /// The model.
    pub spec: Arc<ModelSpec>,
    engine: Engine,
    /// Runs rows of more than [`LONG_INPUT`] pixels on the CPU.
    long: Option<Engine>,
    head: Head,
    normalization: Normalization,
    padding: Padding,
}

/// The pixels of an input that still runs as fast as usual work on the CPU should: four times those of the default size.
const LONG_INPUT: u64 = 1280 * 1280;

/// The rows of an image that wait for the detector.
pub struct PendingDetection {
    rows: Vec<(Letterbox, Pending)>,
    /// The device that made the rows.
    pub processed: DeviceRun,
}

/// The faces that the detector found in an image.
pub struct DetectedFaces {
    /// The faces in pixels of the upright image, largest first.
    pub faces: Vec<Face>,
    /// Time spent waiting for a session.
    pub queued: Duration,
    /// The device that ran the rows. If several devices ran them, this is the one that was not requested.
    pub run: DeviceRun,
}

impl PendingDetection {
    /// Converts the results to pixels of an image whose sides are `factor` times as long as those of the searched image.
    pub(crate) fn enlarged(mut self, factor: u32) -> Self {
        for (letterbox, _) in &mut self.rows {
            letterbox.scale /= factor as f32;
        }
        self
    }
}

impl Detector {
    /// Creates a detector of a loaded model. Returns `None` if the model is not a detector.
    pub fn new(LoadedModel { spec, engine, long }: LoadedModel, padding: Padding) -> Option<Self> {
        Some(Self {
            head: spec.family.head()?,
            normalization: spec.input.normalization(),
            spec,
            engine,
            long,
            padding,
        })
    }

    /// Checks that the model accepts inputs of side `size`.
    ///
    /// # Errors
    /// A message with the sizes that the model accepts.
    pub fn check_size(&self, size: u32) -> Result<(), String> {
        let input = &self.spec.input;
        if input.takes_square(size) {
            return Ok(());
        }
        let allowed = match input.size_multiple {
            Some(multiple) => format!("multiples of {multiple}"),
            None => format!("{} only", input.width),
        };
        Err(format!(
            "the detector {} accepts {allowed}, not {size}",
            self.spec.id
        ))
    }

    /// Checks that the model accepts the requested sizes.
    ///
    /// # Errors
    /// [`PipelineError::InvalidOption`] with the name of the option.
    pub fn check(&self, options: &DetectOptions) -> Result<(), PipelineError> {
        let sizes = [
            ("det_size", Some(options.det_size.side())),
            ("second_det_size", options.second_det_size),
        ];
        for (option, size) in sizes {
            if let Some(size) = size {
                self.check_size(size)
                    .map_err(|detail| PipelineError::invalid_option(option, detail))?;
            }
        }
        Ok(())
    }

    /// Writes one row for each resolution and commits the rows. A device makes the rows if there is one. The pool must
    /// drive this future.
    pub(crate) async fn submit_through<P: Pixels>(
        &self,
        executor: &ImageExecutor,
        image: &Arc<P>,
        options: &DetectOptions,
    ) -> PendingDetection {
        if !executor.has_device() {
            return self.submit(image.as_ref().borrow(), options);
        }
        let mut submitted = PendingDetection {
            rows: Vec::with_capacity(2),
            processed: DeviceRun::CPU,
        };
        for (at, size) in options.inputs().enumerate() {
            let work = Arc::new(self.letterbox_job(image, size));
            let done = executor.run(Arc::clone(&work)).await;
            submitted.processed = match at {
                0 => done.run,
                _ => submitted.processed.or_fallback(done.run),
            };
            // Claimed only after the device has run, because an unwritten row delays the other rows of its batch
            // buffer.
            let mut row = self.claim(&work.letterbox);
            row.values().copy_from_slice(&done.output);
            submitted.rows.push((work.letterbox, row.commit()));
        }
        submitted
    }

    /// Writes one row for each resolution and commits the rows. This is CPU work. The caller must wait for the rows
    /// next.
    pub fn submit(&self, image: &RgbImage, options: &DetectOptions) -> PendingDetection {
        let mut rows = Vec::with_capacity(2);
        let mut sizes = options.inputs().peekable();
        while let Some(size) = sizes.next() {
            let letterbox = self.letterbox(image.dimensions(), size);
            let mut row = self.claim(&letterbox);
            letterbox_into(image, &letterbox, &self.normalization, row.values());
            let is_last = sizes.peek().is_none();
            let pending = if is_last {
                row.commit_last()
            } else {
                row.commit()
            };
            rows.push((letterbox, pending));
        }
        PendingDetection {
            rows,
            processed: DeviceRun::CPU,
        }
    }

    /// Claims a row of the letterbox's input size.
    fn claim(&self, letterbox: &Letterbox) -> Row {
        let (width, height) = letterbox.input;
        let is_long = u64::from(width) * u64::from(height) > LONG_INPUT;
        // Rows of a device that is down are reported as those of the device, by its own engine.
        let engine = match &self.long {
            Some(long) if is_long && !self.engine.has_device() => long,
            _ => &self.engine,
        };
        engine.claim(&[3, height as usize, width as usize])
    }

    /// Returns how an image is placed in the input.
    pub fn letterbox(&self, image: (u32, u32), size: InputSize) -> Letterbox {
        let input = (size.side, size.side);
        let square = if size.enlarges {
            Letterbox::fit(image, input)
        } else {
            Letterbox::shrink(image, input)
        };
        // A device runs rows of one shape together. Rows that fall back to the CPU have that shape, too, so that a response
        // does not depend on the device's state.
        let multiple = self.spec.input.size_multiple;
        let multiple = multiple.filter(|_| !self.engine.has_device());
        match (multiple.and_then(NonZeroU32::new), self.padding) {
            (Some(multiple), Padding::Minimal) => square.with_minimal_padding(multiple),
            (Some(multiple), Padding::Square) => square.with_square_padding(multiple),
            (None, _) => square,
        }
    }

    /// Returns the price of a search for faces in an image of a size.
    pub(crate) fn work(&self, image: Size, options: &DetectOptions) -> u64 {
        let inputs = options
            .inputs()
            .map(|size| self.letterbox(image, size).input);
        work::search(image, inputs)
    }

    /// Waits for the outputs, and decodes the faces of an image of `size`: heads, one NMS over all resolutions, and the limits
    /// of the options. The pool must drive this future.
    ///
    /// # Errors
    /// The error of the engine, or an error if the outputs of the model cannot be decoded.
    pub async fn finish(
        &self,
        submitted: PendingDetection,
        size: Size,
        options: &DetectOptions,
    ) -> Result<DetectedFaces, PipelineError> {
        let mut outputs = Vec::with_capacity(submitted.rows.len());
        for (letterbox, pending) in submitted.rows {
            outputs.push((letterbox, pending.await?));
        }
        let mut candidates = Vec::new();
        for (letterbox, output) in &outputs {
            let (row, input) = (output.row, letterbox.input);
            let found = (self.head).decode(&output.outputs, row, input, options.min_score)?;
            let found = found.into_iter();
            candidates.extend(found.map(|candidate| to_image(candidate, letterbox)));
        }
        let runs = outputs.iter().map(|(_, output)| output.run);
        let queued = outputs.iter().map(|(_, output)| output.queued).min();
        Ok(DetectedFaces {
            faces: select(candidates, options, size),
            queued: queued.unwrap_or_default(),
            run: runs
                .reduce(DeviceRun::or_fallback)
                .unwrap_or(DeviceRun::CPU),
        })
    }
}

fn to_image(candidate: Candidate, letterbox: &Letterbox) -> Candidate {
    let BBox { x1, y1, x2, y2 } = candidate.bbox;
    let [x1, y1] = letterbox.to_image([x1, y1]);
    let [x2, y2] = letterbox.to_image([x2, y2]);
    Candidate {
        bbox: BBox { x1, y1, x2, y2 },
        score: candidate.score,
        landmarks: candidate
            .landmarks
            .map(|points| points.map(|point| letterbox.to_image(point))),
    }
}

/// Applies the NMS, clips the boxes, drops small faces, and sorts by area, largest first.
fn select(candidates: Vec<Candidate>, options: &DetectOptions, (width, height): Size) -> Vec<Face> {
    let mut faces: Vec<Face> = nms(candidates, options.nms_iou, Some(MAX_FACES))
        .into_iter()
        .map(|candidate| Face {
            score: Some(candidate.score),
            landmarks: candidate.landmarks,
            ..Face::at(candidate.bbox.clipped(width, height))
        })
        .filter(|face| {
            let shorter = face.bbox.width().min(face.bbox.height());
            shorter > 0.0 && shorter >= options.min_face_size
        })
        .collect();
    faces.sort_by(|a, b| b.bbox.area().total_cmp(&a.bbox.area()));
    faces.truncate(options.max_faces.unwrap_or(usize::MAX));
    faces
}

#[cfg(test)]
mod tests {
    use super::*;
    use facescan_config::DetSize;

    fn candidate(bbox: [f32; 4], score: f32) -> Candidate {
        Candidate {
            bbox: bbox.into(),
            score,
            landmarks: None,
        }
    }

    fn options() -> DetectOptions {
        DetectOptions {
            min_score: 0.5,
            nms_iou: 0.3,
            det_size: DetSize::Side(640),
            second_det_size: None,
            max_faces: None,
            min_face_size: 0.0,
        }
    }

    fn boxes(faces: &[Face]) -> Vec<[f32; 4]> {
        faces.iter().map(|face| face.bbox.to_array()).collect()
    }

    #[test]
    fn faces_are_clipped_and_sorted_by_area_without_those_in_the_padding() {
        let found = vec![
            candidate([110.0, 0.0, 130.0, 20.0], 0.9),
            candidate([10.0, 10.0, 20.0, 20.0], 0.9),
            candidate([-5.0, 50.0, 40.0, 120.0], 0.8),
        ];
        let faces = select(found, &options(), (100, 100));
        assert_eq!(
            boxes(&faces),
            [[0.0, 50.0, 40.0, 100.0], [10.0, 10.0, 20.0, 20.0]]
        );
    }

    #[test]
    fn the_limits_keep_the_largest_faces_above_the_floor() {
        let found = vec![
            candidate([0.0, 0.0, 10.0, 10.0], 0.9),
            candidate([20.0, 20.0, 50.0, 50.0], 0.7),
            candidate([60.0, 60.0, 80.0, 80.0], 0.8),
        ];
        let options = DetectOptions {
            min_face_size: 15.0,
            max_faces: Some(1),
            ..options()
        };
        assert_eq!(
            boxes(&select(found, &options, (100, 100))),
            [[20.0, 20.0, 50.0, 50.0]]
        );
    }
}
