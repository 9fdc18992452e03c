//! Finding faces: letterbox, run, decode the heads, one NMS.

use std::{sync::Arc, time::Duration};

use image::RgbImage;

use crate::{
    error::Error,
    imaging::{
        geometry::{BBox, Landmarks},
        pool::CpuPool,
        tensor::{Letterbox, Normalisation, letterbox_into},
    },
    inference::{backend::Batch, engine::Engine, registry::ModelSpec},
    pipeline::{
        heads::{Candidate, Head, MAX_CANDIDATES, nms},
        options::DetectOptions,
    },
};

/// The detector's engine and how to read its answers.
#[derive(Clone)]
pub struct Detector {
    /// The model.
    pub spec: Arc<ModelSpec>,
    engine: Engine,
    head: Head,
    normalisation: Normalisation,
    pool: Arc<CpuPool>,
}

/// A face in pixels of the upright picture.
#[derive(Clone, Debug, PartialEq)]
pub struct DetectedFace {
    /// Its box, clipped to the picture.
    pub bbox: BBox,
    /// The detection score, 0..=1.
    pub score: f32,
    /// Its five points, when the detector gives them.
    pub landmarks: Option<Landmarks>,
}

/// The faces found, and the time it took.
#[derive(Debug, Default)]
pub struct Detections {
    /// By area, largest first.
    pub faces: Vec<DetectedFace>,
    /// Time spent waiting for the session.
    pub queued: Duration,
}

impl Detector {
    /// A detector that runs `spec` on `engine`.
    ///
    /// `None` when the model is no detector.
    pub fn new(spec: Arc<ModelSpec>, engine: Engine, pool: Arc<CpuPool>) -> Option<Self> {
        Some(Self {
            head: Head::of(spec.family)?,
            normalisation: spec.input.normalisation(),
            spec,
            engine,
            pool,
        })
    }

    /// Checks that the model runs at `size`.
    ///
    /// # Errors
    /// Says which sizes it takes.
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
            "the detector {} takes {allowed}, not {size}",
            self.spec.id
        ))
    }

    /// Finds the faces of a picture.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] when the model cannot run at the size asked for; otherwise a fault
    /// of the engine or of the model's answers.
    pub async fn detect(
        &self,
        picture: &Arc<RgbImage>,
        options: &DetectOptions,
    ) -> Result<Detections, Error> {
        let mut found = self
            .candidates(picture, "det_size", options.det_size, options.min_score)
            .await?;
        if let Some(size) = options.second_det_size {
            let second = self
                .candidates(picture, "second_det_size", size, options.min_score)
                .await?;
            found.candidates.extend(second.candidates);
            found.queued += second.queued;
        }
        let (width, height) = picture.dimensions();
        let options = options.clone();
        let faces = self
            .pool
            .run(move || select(found.candidates, &options, width, height))
            .await?;
        Ok(Detections {
            faces,
            queued: found.queued,
        })
    }

    /// The candidates at one resolution, in pixels of the picture.
    async fn candidates(
        &self,
        picture: &Arc<RgbImage>,
        option: &str,
        size: u32,
        min_score: f32,
    ) -> Result<Found, Error> {
        self.check_size(size)
            .map_err(|detail| Error::invalid_option(option, detail))?;
        let picture = Arc::clone(picture);
        let normalisation = self.normalisation;
        let (batch, letterbox) = self
            .pool
            .run(move || letterboxed(&picture, size, &normalisation))
            .await?;
        let finished = self.engine.run(batch).await?;
        let head = self.head;
        let decoded = self
            .pool
            .run(move || head.decode(&finished.outputs, 0, (size, size), min_score))
            .await??;
        Ok(Found {
            candidates: decoded
                .into_iter()
                .map(|candidate| to_picture(candidate, &letterbox))
                .collect(),
            queued: finished.queued,
        })
    }
}

struct Found {
    candidates: Vec<Candidate>,
    queued: Duration,
}

fn letterboxed(picture: &RgbImage, size: u32, normalisation: &Normalisation) -> (Batch, Letterbox) {
    let side = size as usize;
    let mut data = vec![0.0; 3 * side * side];
    let letterbox = letterbox_into(picture, (size, size), normalisation, &mut data);
    let batch = Batch {
        row_shape: vec![3, side, side],
        data,
    };
    (batch, letterbox)
}

fn to_picture(candidate: Candidate, letterbox: &Letterbox) -> Candidate {
    let BBox { x1, y1, x2, y2 } = candidate.bbox;
    let [x1, y1] = letterbox.to_picture([x1, y1]);
    let [x2, y2] = letterbox.to_picture([x2, y2]);
    Candidate {
        bbox: BBox { x1, y1, x2, y2 },
        score: candidate.score,
        landmarks: candidate
            .landmarks
            .map(|points| points.map(|point| letterbox.to_picture(point))),
    }
}

/// NMS, clipping, the size floor, and the order: by area, largest first.
fn select(
    candidates: Vec<Candidate>,
    options: &DetectOptions,
    width: u32,
    height: u32,
) -> Vec<DetectedFace> {
    let mut faces: Vec<DetectedFace> = nms(candidates, options.nms_iou, Some(MAX_CANDIDATES))
        .into_iter()
        .map(|candidate| DetectedFace {
            bbox: candidate.bbox.clipped(width, height),
            score: candidate.score,
            landmarks: candidate.landmarks,
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
            det_size: 640,
            second_det_size: None,
            max_faces: None,
            min_face_size: 0.0,
        }
    }

    fn boxes(faces: &[DetectedFace]) -> Vec<[f32; 4]> {
        faces.iter().map(|face| face.bbox.to_array()).collect()
    }

    #[test]
    fn faces_come_largest_first_and_clipped() {
        let found = vec![
            candidate([10.0, 10.0, 20.0, 20.0], 0.9),
            candidate([-5.0, 50.0, 40.0, 120.0], 0.8),
        ];
        let faces = select(found, &options(), 100, 100);
        assert_eq!(
            boxes(&faces),
            [[0.0, 50.0, 40.0, 100.0], [10.0, 10.0, 20.0, 20.0]]
        );
    }

    #[test]
    fn a_face_wholly_in_the_padding_is_dropped() {
        let faces = select(
            vec![candidate([110.0, 0.0, 130.0, 20.0], 0.9)],
            &options(),
            100,
            100,
        );
        assert!(faces.is_empty());
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
            boxes(&select(found, &options, 100, 100)),
            [[20.0, 20.0, 50.0, 50.0]]
        );
    }
}
