//! From what a detector gives to boxes, scores and points in pixels of its input.
//!
//! A [`Head`] decodes one row of a batch; [`nms()`] then keeps one candidate a face. Neither touches a model or a
//! picture. Thresholds are inclusive: a score equal to `min_score` passes. Candidates that are not finite are
//! dropped.

mod centerface;
mod nms;
mod scrfd;
mod yunet;

use facescan_imaging::geometry::{BBox, Landmarks};
use facescan_inference::{registry::Family, tensor::Tensor};

pub use nms::{MAX_CANDIDATES, nms};

/// A face that a detector proposes, in pixels of the network's input.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// Its box; not clipped to the picture.
    pub bbox: BBox,
    /// How sure the detector is, 0..1.
    pub score: f32,
    /// Its five points; `None` for detectors that give none.
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

/// Why a detector's outputs could not be decoded.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeadError {
    /// An output is missing.
    #[error("the detector gave no output {expected}; it gave {found}")]
    MissingOutput {
        /// The one looked for.
        expected: String,
        /// Those there are.
        found: String,
    },
    /// An output has another shape than the input's size calls for.
    #[error("output `{output}` has shape {found:?}, expected {expected}")]
    Shape {
        /// The output's name.
        output: String,
        /// The shape that would do.
        expected: String,
        /// The one it has.
        found: Vec<usize>,
    },
    /// The batch has no such row.
    #[error("the batch has no row {0}")]
    Row(usize),
}

/// How a detector family writes its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Head {
    /// Twelve outputs, anchor-free, strides 8, 16 and 32.
    Yunet,
    /// Six or nine outputs, two anchors a cell, strides 8, 16 and 32.
    Scrfd,
    /// Four maps at stride 4.
    Centerface,
}

impl Head {
    /// The head of a model family; `None` when the family does not detect.
    pub fn of(family: Family) -> Option<Self> {
        match family {
            Family::Yunet => Some(Self::Yunet),
            Family::Scrfd => Some(Self::Scrfd),
            Family::Centerface => Some(Self::Centerface),
            Family::Sface | Family::Arcface | Family::Image => None,
        }
    }

    /// The candidates of one row of the batch with at least `min_score`, in the order of the grid.
    ///
    /// `input` is the width and height the network ran at, multiples of 32.
    ///
    /// # Errors
    /// When an output is missing or its shape does not go with `input`, or the batch is shorter than `row`.
    pub fn decode(
        self,
        outputs: &[Tensor],
        row: usize,
        input: (u32, u32),
        min_score: f32,
    ) -> Result<Vec<Candidate>, HeadError> {
        let size = Size {
            width: input.0 as usize,
            height: input.1 as usize,
        };
        let mut candidates = match self {
            Self::Yunet => yunet::decode(outputs, row, size, min_score),
            Self::Scrfd => scrfd::decode(outputs, row, size, min_score),
            Self::Centerface => centerface::decode(outputs, row, size, min_score),
        }?;
        candidates.retain(Candidate::is_finite);
        Ok(candidates)
    }
}

/// The network's input in pixels.
#[derive(Clone, Copy, Debug)]
struct Size {
    width: usize,
    height: usize,
}

impl Size {
    /// Columns and rows of the grid at a stride.
    fn grid(self, stride: usize) -> (usize, usize) {
        (self.width / stride, self.height / stride)
    }
}

/// The values of one row, once the output's shape is known to be `[N, …expected]`.
fn row_of<'a>(output: &'a Tensor, row: usize, expected: &[usize]) -> Result<&'a [f32], HeadError> {
    let len: usize = expected.iter().product();
    match output.shape.split_first() {
        Some((&rows, rest)) if rest == expected => {
            let values = output.row(row);
            if row < rows && values.len() == len {
                Ok(values)
            } else {
                Err(HeadError::Row(row))
            }
        }
        _ => Err(HeadError::Shape {
            output: output.name.clone(),
            expected: format!("[N, {}]", joined(expected)),
            found: output.shape.clone(),
        }),
    }
}

fn missing(expected: String, outputs: &[Tensor]) -> HeadError {
    let all: Vec<String> = outputs
        .iter()
        .map(|output| format!("`{}` [{}]", output.name, joined(&output.shape)))
        .collect();
    HeadError::MissingOutput {
        expected,
        found: if all.is_empty() {
            "none".into()
        } else {
            all.join(", ")
        },
    }
}

fn joined(dims: &[usize]) -> String {
    let dims: Vec<String> = dims.iter().map(usize::to_string).collect();
    dims.join(", ")
}

/// Five points from the ten values of `at`, which answers the x and y of a point.
fn five(at: impl Fn(usize) -> [f32; 2]) -> Landmarks {
    std::array::from_fn(at)
}
