//! OpenCV's `INTER_LINEAR` with the same integers.

use image::RgbImage;

use super::{
    COLUMN_WEIGHTS, COLUMNS, IMAGE, PAD, ROW_WEIGHTS, ROWS, finish, image_input,
    normalization_inputs, pad_input,
};
use crate::graphs::{
    builder::{Builder, Dim, Kind},
    session::Input,
};
use facescan_imaging::{
    preprocess::Placement,
    resize::axis::{self, Taps},
    tensor::{Letterbox, Normalization},
};

pub fn describe(b: &Builder) {
    use Dim::{Free, Is};
    let image = b.input(IMAGE, Kind::U8, &[Free("H"), Free("W"), Is(3)]);
    let rows = b.input(ROWS, Kind::I32, &[Is(2), Free("h")]);
    let columns = b.input(COLUMNS, Kind::I32, &[Is(2), Free("w")]);
    let one = Is(1);
    let column_dims = [Is(2), one, one, Free("w")];
    let column_weights = b.input(COLUMN_WEIGHTS, Kind::F32, &column_dims);
    let row_dims = [Is(2), one, one, Free("h"), one];
    let row_weights = b.input(ROW_WEIGHTS, Kind::F32, &row_dims);
    let pad = b.input(PAD, Kind::F32, &[Is(3), one, one]);

    // Only the four samples of each output are taken from the bytes. They are made planar while they are bytes, so that
    // the arithmetic runs along lines: [2 rows, 2 columns, 3, h, w].
    let samples = image.gather(&rows, 0).gather(&columns, 2);
    let samples = samples.transpose(&[0, 2, 4, 1, 3]).cast(Kind::F32);
    let across = ((samples * &column_weights).sum(1) * (1.0 / 16.0)).floor();
    // The product in ⌊across · weight / 2¹⁶⌋ has 26 bits, two more than f32 holds. With `across` in two parts it has
    // 19.
    let high = (&across * (1.0 / 256.0)).floor();
    let low = across - &high * 256.0;
    let carry = (low * &row_weights * (1.0 / 256.0)).floor();
    let parts = ((high * &row_weights + carry) * (1.0 / 256.0)).floor();
    let levels = ((parts.sum(0) + 2.0) * 0.25).floor();
    // Padding has zero weight, so it is 0 at this point, and 1 less than a pixel of the image.
    let covered = [&row_weights, &column_weights].map(|weights| weights.sum(0).clip(0.0, 1.0));
    let covered = (&covered[0] * &covered[1]).squeeze(&[0, 1]);
    let padding = &pad - covered * &pad;
    finish(b, &(levels.squeeze(&[0, 1]) + padding));
}

/// The source samples of a resized image, for one image size and one placement.
#[derive(Clone, Debug, PartialEq)]
pub struct TwoTapPlan {
    size: (u32, u32),
    columns: Taps,
    column_weights: Vec<f32>,
    rows: Taps,
    row_weights: Vec<f32>,
}

impl TwoTapPlan {
    /// Scales images of `size` (width and height) to the placement `placed`.
    ///
    /// # Panics
    /// Panics if a size is 0.
    pub fn new(size: (u32, u32), placed: &Placement) -> Self {
        let [across, down] = placed.covered();
        let columns = axis::bilinear_two_tap(size.0, placed.scaled.0, across);
        let rows = axis::bilinear_two_tap(size.1, placed.scaled.1, down);
        let floats = |taps: &Taps| taps.weights.iter().map(|&w| w as f32).collect();
        Self {
            size,
            column_weights: floats(&columns),
            columns,
            row_weights: floats(&rows),
            rows,
        }
    }

    /// Letterboxes images of `size`, as detectors expect them.
    ///
    /// # Panics
    /// Panics if a size is 0.
    pub fn letterbox(size: (u32, u32), letterbox: &Letterbox) -> Self {
        let placed = Placement {
            scaled: (letterbox.width, letterbox.height),
            output: letterbox.input,
            at: (0, 0),
        };
        Self::new(size, &placed)
    }

    /// Returns the inputs of the graph. `pad` is the RGB value of padding.
    ///
    /// # Panics
    /// Panics if the image has another size than the plan.
    pub fn inputs<'a>(
        &'a self,
        image: &'a RgbImage,
        pad: [u8; 3],
        normalization: &Normalization,
    ) -> Vec<Input<'a>> {
        let (h, w) = (self.rows.positions, self.columns.positions);
        let mut inputs = vec![
            image_input(image, self.size),
            Input::i32(ROWS, &[2, h], self.rows.samples.as_slice()),
            Input::i32(COLUMNS, &[2, w], self.columns.samples.as_slice()),
            Input::f32(ROW_WEIGHTS, &[2, 1, 1, h, 1], self.row_weights.as_slice()),
            Input::f32(
                COLUMN_WEIGHTS,
                &[2, 1, 1, w],
                self.column_weights.as_slice(),
            ),
            pad_input(pad),
        ];
        inputs.extend(normalization_inputs(normalization));
        inputs
    }
}
