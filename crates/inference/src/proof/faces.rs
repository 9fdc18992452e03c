//! Compares two runs of a detector by the faces that its head finds, and not by raw outputs. In bf16 most raw outputs of
//! a cell without a face differ, which has no effect.
//!
//! The picture is a part of NASA's portrait of the astronaut Eileen Collins, which is in the public domain.

use image::{Rgb, RgbImage, imageops};

use crate::{
    backend::BackendError,
    heads::{Candidate, Head, nms},
    tensor::Tensor,
};
use facescan_imaging::tensor::{Letterbox, Normalization, letterbox_into};

const PICTURE: &[u8] = include_bytes!("astronaut.jpg");

/// The faces in the row: the side of the picture, and its left and top edge, as fractions of the row's shorter side.
const FACES: [(f32, f32, f32); 4] = [
    (0.70, 0.02, 0.02),
    (0.25, 0.74, 0.05),
    (0.15, 0.78, 0.40),
    (0.25, 0.10, 0.74),
];

/// The lowest score of a face that must be found by both.
const SURE: f32 = 0.6;
/// The lowest score of its counterpart.
const MIN_SCORE: f32 = SURE - SCORE_TOLERANCE;
/// The largest difference of the scores.
const SCORE_TOLERANCE: f32 = 0.05;
/// The lowest intersection over union of the boxes.
const MIN_OVERLAP: f32 = 0.9;
/// The intersection over union of two boxes of one face of a detector.
const SAME_FACE: f32 = 0.3;

/// Returns one row with faces of several sizes, as the input of a detector.
///
/// # Errors
/// Returns an error if the picture cannot be decoded.
pub(super) fn row(
    (width, height): (u32, u32),
    normalization: &Normalization,
) -> Result<Vec<f32>, BackendError> {
    let picture = image::load_from_memory(PICTURE)
        .map_err(|error| BackendError::run(format!("the picture of the self-test: {error}")))?;
    let picture = picture.to_rgb8();
    let mut canvas = RgbImage::from_pixel(width, height, Rgb([128; 3]));
    let side = width.min(height) as f32;
    for (size, left, top) in FACES {
        let size = ((size * side) as u32).max(1);
        let face = imageops::thumbnail(&picture, size, size);
        let (left, top) = ((left * side) as i64, (top * side) as i64);
        imageops::replace(&mut canvas, &face, left, top);
    }
    let letterbox = Letterbox::fit((width, height), (width, height));
    let mut row = vec![0.0; letterbox.row_len()];
    letterbox_into(&canvas, &letterbox, normalization, &mut row);
    Ok(row)
}

/// Compares the faces in the first row of two runs. Returns the lowest intersection over union of two boxes of the same
/// face.
///
/// # Errors
/// Returns a description of the difference if the faces do not agree, or if there are none.
pub(super) fn agree(
    head: Head,
    input: (u32, u32),
    given: &[Tensor],
    right: &[Tensor],
) -> Result<f64, String> {
    let find = |outputs: &[Tensor]| {
        let candidates = head.decode(outputs, 0, input, MIN_SCORE);
        let candidates = candidates.map_err(|error| error.to_string())?;
        Ok::<_, String>(nms(candidates, SAME_FACE, None))
    };
    let (given, right) = (find(given)?, find(right)?);
    if !right.iter().any(|face| face.score >= SURE) {
        return Err("the cpu finds no face in the picture of the self-test".to_owned());
    }
    let overlap = overlap_in(&right, &given).map_err(|it| format!("it does not find {it}"))?;
    overlap_in(&given, &right).map_err(|it| format!("only it finds {it}"))?;
    Ok(f64::from(overlap))
}

/// Returns the lowest intersection over union of a sure face and its counterpart. Returns the description of a face that
/// has none.
fn overlap_in(faces: &[Candidate], others: &[Candidate]) -> Result<f32, String> {
    let mut lowest: f32 = 1.0;
    for face in faces.iter().filter(|face| face.score >= SURE) {
        let overlap = others
            .iter()
            .filter(|other| (other.score - face.score).abs() <= SCORE_TOLERANCE)
            .map(|other| other.bbox.iou(&face.bbox))
            .fold(0.0, f32::max);
        if overlap < MIN_OVERLAP {
            return Err(format!(
                "the face at {:?} with the score {:.3}: the best overlap is {overlap:.3}, and {MIN_OVERLAP} is asked for",
                face.bbox.to_array().map(f32::round),
                face.score
            ));
        }
        lowest = lowest.min(overlap);
    }
    Ok(lowest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn face(x1: f32, score: f32) -> Candidate {
        Candidate {
            bbox: [x1, 10.0, x1 + 100.0, 110.0].into(),
            score,
            landmarks: None,
        }
    }

    #[test]
    fn a_face_needs_a_counterpart_with_nearly_the_same_box_and_score() {
        let right = [face(10.0, 0.9), face(300.0, 0.55)];
        assert_eq!(overlap_in(&right, &right), Ok(1.0));
        let moved = overlap_in(&right, &[face(12.0, 0.88)]).unwrap();
        assert!((0.95..1.0).contains(&moved), "{moved}");
        for wrong in [face(20.0, 0.9), face(10.0, 0.8)] {
            assert!(overlap_in(&right, &[wrong]).is_err());
        }
        assert!(overlap_in(&right, &[]).is_err());
    }

    #[test]
    fn the_row_has_the_size_of_the_input() {
        let normalization = Normalization::identity(facescan_imaging::tensor::ChannelOrder::Bgr);
        for (width, height) in [(640, 640), (32, 32), (320, 64)] {
            let row = row((width, height), &normalization).unwrap();
            assert_eq!(row.len(), 3 * (width * height) as usize);
            assert!(row.iter().any(|value| *value != 128.0));
        }
    }
}
