//! SCRFD: two anchors per cell, and distances from the cell's corner in strides.
//!
//! Formulas: Guo et al., "Sample and Computation Redistribution for Efficient Face Detection" (2021), and the decoding
//! of InsightFace. The shape identifies an output, because the names differ between files.

use super::{Candidate, HeadError, OutputRow, five};
use facescan_imaging::geometry::BBox;

const STRIDES: [usize; 3] = [8, 16, 32];
const ANCHORS: usize = 2;

pub fn decode(row: &OutputRow<'_>) -> Result<Vec<Candidate>, HeadError> {
    let mut candidates = Vec::new();
    let with_points = row.outputs.len() > 6;
    for stride in STRIDES {
        let (columns, rows) = row.grid(stride);
        let anchors = columns * rows * ANCHORS;
        let values = |each: usize| find(row, anchors, each);
        let scores = values(1)?;
        let (distances, _) = values(4)?.as_chunks::<4>();
        let points = if with_points {
            Some(values(10)?.as_chunks::<10>().0)
        } else {
            None
        };
        let s = stride as f32;
        for (anchor, &score) in scores.iter().enumerate() {
            if !row.passes(score) {
                continue;
            }
            let cell = anchor / ANCHORS;
            let (x, y) = ((cell % columns) as f32 * s, (cell / columns) as f32 * s);
            let [left, top, right, bottom] = distances[anchor];
            candidates.push(Candidate {
                bbox: BBox {
                    x1: x - left * s,
                    y1: y - top * s,
                    x2: x + right * s,
                    y2: y + bottom * s,
                },
                score,
                landmarks: points.map(|points| {
                    let points = &points[anchor];
                    five(|i| [x + points[2 * i] * s, y + points[2 * i + 1] * s])
                }),
            });
        }
    }
    Ok(candidates)
}

/// Finds one row of the output with `anchors` lines of `each` values. The shape is `[N, anchors, each]`, or `[anchors,
/// each]` in the original files, which have one row.
fn find<'a>(row: &OutputRow<'a>, anchors: usize, each: usize) -> Result<&'a [f32], HeadError> {
    for output in row.outputs {
        match *output.shape.as_slice() {
            [_, a, e] if (a, e) == (anchors, each) => return row.values(output, &[a, e]),
            [a, e] if (a, e) == (anchors, each) => {
                let whole = row.index == 0 && output.data.len() == a * e;
                return if whole {
                    Ok(&output.data)
                } else {
                    Err(row.missing_row())
                };
            }
            _ => {}
        }
    }
    Err(row.missing(&format!("of shape [{anchors}, {each}]")))
}

#[cfg(test)]
mod tests {
    use super::super::Head;
    use super::*;
    use crate::tensor::Tensor;

    /// Returns the outputs at 96×64, all zeros, in the order of the original files: scores, boxes, landmarks.
    fn outputs(batch: Option<usize>, kinds: &[usize]) -> Vec<Tensor> {
        let mut outputs = Vec::new();
        for each in kinds {
            for stride in STRIDES {
                let anchors = 96 * 64 / (stride * stride) * ANCHORS;
                let shape: Vec<usize> = batch.into_iter().chain([anchors, *each]).collect();
                outputs.push(Tensor {
                    name: outputs.len().to_string(),
                    data: vec![0.0; shape.iter().product()],
                    shape,
                });
            }
        }
        outputs
    }

    /// Sets the values of an anchor at stride 16, which is the middle output of each kind.
    fn set(outputs: &mut [Tensor], kind: usize, line: usize, values: &[f32]) {
        let at = line * values.len();
        outputs[kind * 3 + 1].data[at..at + values.len()].copy_from_slice(values);
    }

    // Stride 16 has 6 columns and 24 cells. Anchor 17 is the second anchor of cell 8 (column 2, row 1), at (32, 16).
    const POINTS: [f32; 10] = [0.0, 0.0, 1.0, 0.0, 0.5, 0.5, 0.0, 1.0, 1.0, -1.0];

    fn expected(landmarks: bool) -> Candidate {
        let points = [
            [32.0, 16.0],
            [48.0, 16.0],
            [40.0, 24.0],
            [32.0, 32.0],
            [48.0, 0.0],
        ];
        Candidate {
            bbox: [16.0, 8.0, 80.0, 64.0].into(),
            score: 0.75,
            landmarks: landmarks.then_some(points),
        }
    }

    #[test]
    fn nine_flat_outputs_give_boxes_with_points() {
        let mut outputs = outputs(None, &[1, 4, 10]);
        set(&mut outputs, 0, 17, &[0.75]);
        set(&mut outputs, 1, 17, &[1.0, 0.5, 3.0, 3.0]);
        set(&mut outputs, 2, 17, &POINTS);
        let found = Head(decode).decode(&outputs, 0, (96, 64), 0.5);
        assert_eq!(found, Ok(vec![expected(true)]));
        // The order of the outputs must not matter.
        outputs.reverse();
        let found = Head(decode).decode(&outputs, 0, (96, 64), 0.5);
        assert_eq!(found, Ok(vec![expected(true)]));
        let row = Head(decode).decode(&outputs, 1, (96, 64), 0.5);
        assert_eq!(row.unwrap_err().to_string(), "the batch has no row 1");
    }

    #[test]
    fn six_batched_outputs_give_boxes_of_their_row() {
        let mut outputs = outputs(Some(2), &[1, 4]);
        set(&mut outputs, 0, 48 + 17, &[0.75]);
        set(&mut outputs, 1, 48 + 17, &[1.0, 0.5, 3.0, 3.0]);
        assert_eq!(Head(decode).decode(&outputs, 0, (96, 64), 0.5), Ok(vec![]));
        let found = Head(decode).decode(&outputs, 1, (96, 64), 0.5);
        assert_eq!(found, Ok(vec![expected(false)]));
    }

    #[test]
    fn an_output_of_another_size_is_missed() {
        let outputs = outputs(None, &[1, 4]);
        let error = Head(decode).decode(&outputs, 0, (64, 64), 0.5).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("the detector returned no output of shape [128, 1]")
        );
    }
}
