//! YuNet: one candidate per cell, from twelve outputs that are identified by name.
//!
//! Formulas: Wu, Peng, Yu, "YuNet: A Tiny Millisecond-level Face Detector" (2023), as in OpenCV's FaceDetectorYN.

use super::{Candidate, HeadError, OutputRow, five};
use facescan_imaging::geometry::BBox;

const STRIDES: [usize; 3] = [8, 16, 32];

pub fn decode(row: &OutputRow<'_>) -> Result<Vec<Candidate>, HeadError> {
    let mut candidates = Vec::new();
    for stride in STRIDES {
        let (columns, rows) = row.grid(stride);
        let values = |kind: &str, each: usize| {
            let name = format!("{kind}_{stride}");
            let mut outputs = row.outputs.iter();
            let output = outputs.find(|output| output.name == name);
            let output = output.ok_or_else(|| row.missing(&format!("`{name}`")))?;
            row.values(output, &[columns * rows, each])
        };
        let (class, object) = (values("cls", 1)?, values("obj", 1)?);
        let (boxes, _) = values("bbox", 4)?.as_chunks::<4>();
        let (points, _) = values("kps", 10)?.as_chunks::<10>();
        let s = stride as f32;
        for (cell, (class, object)) in class.iter().zip(object).enumerate() {
            let score = (class.clamp(0.0, 1.0) * object.clamp(0.0, 1.0)).sqrt();
            if !row.passes(score) {
                continue;
            }
            let (c, r) = ((cell % columns) as f32, (cell / columns) as f32);
            let [dx, dy, log_w, log_h] = boxes[cell];
            let (cx, cy) = ((c + dx) * s, (r + dy) * s);
            let (half_w, half_h) = (log_w.exp() * s / 2.0, log_h.exp() * s / 2.0);
            candidates.push(Candidate {
                bbox: BBox {
                    x1: cx - half_w,
                    y1: cy - half_h,
                    x2: cx + half_w,
                    y2: cy + half_h,
                },
                score,
                landmarks: Some(five(|i| {
                    [
                        (points[cell][2 * i] + c) * s,
                        (points[cell][2 * i + 1] + r) * s,
                    ]
                })),
            });
        }
    }
    Ok(candidates)
}

#[cfg(test)]
mod tests {
    use super::super::Head;
    use super::*;
    use crate::tensor::Tensor;

    /// Returns the outputs of two rows at 96×64. All values of row 0 are zero, except in the cells that a test sets.
    fn outputs() -> Vec<Tensor> {
        let mut outputs = Vec::new();
        for (kind, each) in [("cls", 1), ("obj", 1), ("bbox", 4), ("kps", 10)] {
            for stride in STRIDES {
                let cells = 96 * 64 / (stride * stride);
                outputs.push(Tensor {
                    name: format!("{kind}_{stride}"),
                    shape: vec![2, cells, each],
                    data: vec![0.0; 2 * cells * each],
                });
            }
        }
        outputs
    }

    fn set(outputs: &mut [Tensor], name: &str, row: usize, cell: usize, values: &[f32]) {
        let output = outputs.iter_mut().find(|o| o.name == name).unwrap();
        let cells = output.shape[1];
        let at = (row * cells + cell) * values.len();
        output.data[at..at + values.len()].copy_from_slice(values);
    }

    #[test]
    fn a_cell_becomes_a_box_with_points() {
        let mut outputs = outputs();
        // Stride 16 has 6 columns: cell 8 is column 2, row 1. The class score is above 1 and is clamped.
        set(&mut outputs, "cls_16", 1, 8, &[1.5]);
        set(&mut outputs, "obj_16", 1, 8, &[0.64]);
        set(&mut outputs, "bbox_16", 1, 8, &[0.5, -0.5, 2f32.ln(), 0.0]);
        let kps = [0.0, 0.0, 1.0, 0.0, 0.5, 0.5, 0.0, 1.0, 1.0, 1.0];
        set(&mut outputs, "kps_16", 1, 8, &kps);
        let found = Head(decode).decode(&outputs, 1, (96, 64), 0.6).unwrap();
        assert_eq!(found.len(), 1);
        assert!((found[0].score - 0.8).abs() < 1e-6);
        // The center is (2.5, 0.5)·16, the width is 32, and the height is 16.
        assert_eq!(found[0].bbox, [24.0, 0.0, 56.0, 16.0].into());
        let points = [
            [32.0, 16.0],
            [48.0, 16.0],
            [40.0, 24.0],
            [32.0, 32.0],
            [48.0, 32.0],
        ];
        assert_eq!(found[0].landmarks, Some(points));
        assert_eq!(Head(decode).decode(&outputs, 0, (96, 64), 0.6), Ok(vec![]));
    }

    #[test]
    fn candidates_with_non_finite_values_are_dropped() {
        let mut outputs = outputs();
        set(&mut outputs, "cls_8", 0, 0, &[f32::NAN]);
        set(&mut outputs, "obj_8", 0, 0, &[1.0]);
        set(&mut outputs, "cls_8", 0, 1, &[1.0]);
        set(&mut outputs, "obj_8", 0, 1, &[1.0]);
        set(&mut outputs, "bbox_8", 0, 1, &[0.0, 0.0, 1e9, 0.0]);
        assert_eq!(Head(decode).decode(&outputs, 0, (96, 64), 0.6), Ok(vec![]));
    }

    #[test]
    fn a_wrong_size_a_missing_output_and_a_missing_row_are_errors() {
        let mut outputs = outputs();
        let wrong = Head(decode).decode(&outputs, 0, (64, 64), 0.6).unwrap_err();
        assert_eq!(
            wrong.to_string(),
            "output `cls_8` has shape [2, 96, 1], expected [N, 64, 1]"
        );
        let row = Head(decode).decode(&outputs, 2, (96, 64), 0.6);
        assert_eq!(row.unwrap_err().to_string(), "the batch has no row 2");
        outputs.retain(|output| output.name != "kps_32");
        let gone = Head(decode).decode(&outputs, 0, (96, 64), 0.6).unwrap_err();
        assert!(
            gone.to_string()
                .starts_with("the detector returned no output `kps_32`")
        );
    }
}
