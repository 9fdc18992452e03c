//! Decodes the outputs of detectors to boxes, scores and landmarks in pixels of the detector's input.
//!
//! A [`Head`] decodes one row of a batch. Then [`nms`] keeps one candidate for each face. Neither needs a model or an
//! image. Thresholds are inclusive: a score equal to `min_score` passes. Candidates with non-finite values are dropped.

pub(crate) mod centerface;
pub(crate) mod scrfd;
pub(crate) mod yunet;

use crate::tensor::Tensor;
use facescan_imaging::geometry::{BBox, Landmarks};

/// A face candidate of a detector, in pixels of its input.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// The box, not clipped to the image.
    pub bbox: BBox,
    /// The score, 0..1.
    pub score: f32,
    /// The five landmarks. `None` for detectors without landmarks.
    pub landmarks: Option<Landmarks>,
}

impl Candidate {
    fn is_finite(&self) -> bool {
        let points = self.landmarks.iter().flatten().flatten();
        self.score.is_finite()
            && self.bbox.to_array().iter().all(|v| v.is_finite())
            && points.into_iter().all(|v| v.is_finite())
    }
}

/// What is wrong with the outputs of a detector.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct HeadError(String);

type Decode = fn(&OutputRow<'_>) -> Result<Vec<Candidate>, HeadError>;

/// The head of a detector family. [`Family::head`](crate::registry::Family::head) returns it.
#[derive(Clone, Copy, Debug)]
pub struct Head(pub(crate) Decode);

impl Head {
    /// Decodes the candidates of one row of the batch that have at least `min_score`, in the order of the grid.
    ///
    /// `input` is the width and height of the detector's input, multiples of 32.
    ///
    /// # Errors
    /// Returns an error if an output is missing, if a shape does not match `input`, or if the batch has no `row`.
    pub fn decode(
        self,
        outputs: &[Tensor],
        row: usize,
        input: (u32, u32),
        min_score: f32,
    ) -> Result<Vec<Candidate>, HeadError> {
        let mut candidates = (self.0)(&OutputRow {
            outputs,
            index: row,
            width: input.0 as usize,
            height: input.1 as usize,
            min_score,
        })?;
        candidates.retain(Candidate::is_finite);
        Ok(candidates)
    }
}

/// One row of a batch of outputs, the size of the detector's input in pixels, and the lowest score.
pub(crate) struct OutputRow<'a> {
    outputs: &'a [Tensor],
    index: usize,
    width: usize,
    height: usize,
    min_score: f32,
}

impl<'a> OutputRow<'a> {
    /// Returns the numbers of columns and rows of the grid at a stride.
    fn grid(&self, stride: usize) -> (usize, usize) {
        (self.width / stride, self.height / stride)
    }

    /// Returns whether a score is high enough. NaN is not.
    fn passes(&self, score: f32) -> bool {
        score >= self.min_score
    }

    /// Returns the values of the row. Checks that the shape of the output is `[N, …expected]`.
    fn values(&self, output: &'a Tensor, expected: &[usize]) -> Result<&'a [f32], HeadError> {
        let len: usize = expected.iter().product();
        match output.shape.split_first() {
            Some((&rows, rest)) if rest == expected => {
                let values = output.row(self.index);
                if self.index < rows && values.len() == len {
                    Ok(values)
                } else {
                    Err(self.missing_row())
                }
            }
            _ => Err(HeadError(format!(
                "output `{}` has shape {:?}, expected [N, {}]",
                output.name,
                output.shape,
                join_dims(expected)
            ))),
        }
    }

    /// Returns the error of a batch that is shorter than the index of the row.
    fn missing_row(&self) -> HeadError {
        HeadError(format!("the batch has no row {}", self.index))
    }

    /// Returns the error of an output that is missing.
    fn missing(&self, expected: &str) -> HeadError {
        let outputs = self.outputs.iter();
        let all: Vec<String> = outputs
            .map(|output| format!("`{}` [{}]", output.name, join_dims(&output.shape)))
            .collect();
        let found = if all.is_empty() {
            "none".to_owned()
        } else {
            all.join(", ")
        };
        HeadError(format!(
            "the detector returned no output {expected}; it returned {found}"
        ))
    }
}

fn join_dims(dims: &[usize]) -> String {
    let dims: Vec<String> = dims.iter().map(usize::to_string).collect();
    dims.join(", ")
}

/// Makes five landmarks. `at` returns the x and y of each.
fn five(at: impl Fn(usize) -> [f32; 2]) -> Landmarks {
    std::array::from_fn(at)
}

/// The maximum number of candidates that the NMS compares. OpenCV's face detector has the same default. It bounds the
/// time if a request has a minimum score of 0.
pub const MAX_CANDIDATES: usize = 5000;

/// Keeps the best candidate of each face. Takes candidates by falling score and drops each one whose IoU with a kept
/// one is above `iou`.
///
/// The result is sorted by falling score and has at most `max` candidates. Candidates with equal scores keep their
/// order. Only the best [`MAX_CANDIDATES`] are compared.
pub fn nms(mut candidates: Vec<Candidate>, iou: f32, max: Option<usize>) -> Vec<Candidate> {
    candidates.sort_by(|a, b| b.score.total_cmp(&a.score));
    candidates.truncate(MAX_CANDIDATES);
    let mut kept: Vec<Candidate> = Vec::new();
    for candidate in candidates {
        if max.is_some_and(|max| kept.len() >= max) {
            break;
        }
        if kept
            .iter()
            .all(|better| better.bbox.iou(&candidate.bbox) <= iou)
        {
            kept.push(candidate);
        }
    }
    kept
}

#[cfg(test)]
mod tests;
