//! The antialiased resize.

use image::RgbImage;

use super::{
    COLUMNS, IMAGE, PAD, ROWS, finish, image_input, normalization_inputs, pad_input, round,
};
use crate::graphs::{
    builder::{Builder, Dim, Kind},
    session::Input,
};
use facescan_imaging::{preprocess::Placement, resize::axis, tensor::Normalization};

/// How the samples of a resized image are rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// No rounding: the `jax` profile.
    None,
    /// To integer levels at the end: the `torchvision` profile.
    Once,
    /// To integer levels after the columns and after the rows: the `pil` profile.
    EachPass,
}

pub fn describe(b: &Builder, rounding: Rounding) {
    use Dim::{Free, Is};
    let image = b.input(IMAGE, Kind::U8, &[Free("H"), Free("W"), Is(3)]);
    let columns = b.input(COLUMNS, Kind::F32, &[Free("W"), Free("w")]);
    let rows = b.input(ROWS, Kind::F32, &[Free("h"), Free("H")]);
    let pad = b.input(PAD, Kind::F32, &[Is(3), Is(1), Is(1)]);

    // Padding has zero weight. Values are relative to the pad value, so 0 means the pad value.
    let planes = image.transpose(&[2, 0, 1]).cast(Kind::F32) - &pad;
    let mut levels = planes.matmul(&columns);
    if rounding == Rounding::EachPass {
        levels = round(&levels);
    }
    let mut levels = rows.matmul(&levels) + pad;
    if rounding != Rounding::None {
        levels = round(&levels);
    }
    finish(b, &levels);
}

/// The weights of an antialiased resize, for one image size and one placement. They take 4 · (W·w + H·h) bytes: 10 MB
/// for 4000 × 3000 to 480 × 360.
#[derive(Clone, Debug, PartialEq)]
pub struct BilinearPlan {
    size: (u32, u32),
    output: (u32, u32),
    columns: Vec<f32>,
    rows: Vec<f32>,
}

impl BilinearPlan {
    /// Scales images of `size` (width and height) to the placement `placed`.
    ///
    /// # Panics
    /// Panics if a size is 0.
    pub fn new(size: (u32, u32), placed: &Placement) -> Self {
        let [across, down] = placed.covered();
        let by_position = axis::bilinear(size.0, placed.scaled.0, across);
        Self {
            size,
            output: placed.output,
            columns: transposed(&by_position, size.0 as usize),
            rows: axis::bilinear(size.1, placed.scaled.1, down),
        }
    }

    /// Returns the inputs of the graph. `pad` is the RGB value of the padding, integers in 0..=255.
    ///
    /// # Panics
    /// Panics if the image has another size than the plan.
    pub fn inputs<'a>(
        &'a self,
        image: &'a RgbImage,
        pad: [u8; 3],
        normalization: &Normalization,
    ) -> Vec<Input<'a>> {
        let [w, h] = [self.output.0, self.output.1].map(|side| side as usize);
        let [width, height] = [self.size.0, self.size.1].map(|side| side as usize);
        let mut inputs = vec![
            image_input(image, self.size),
            Input::f32(COLUMNS, &[width, w], self.columns.as_slice()),
            Input::f32(ROWS, &[h, height], self.rows.as_slice()),
            pad_input(pad),
        ];
        inputs.extend(normalization_inputs(normalization));
        inputs
    }
}

/// Returns the transpose of a matrix with rows of `width`.
fn transposed(values: &[f32], width: usize) -> Vec<f32> {
    let height = values.len() / width;
    let mut swapped = vec![0.0; values.len()];
    for (y, row) in values.chunks_exact(width).enumerate() {
        for (x, value) in row.iter().enumerate() {
            swapped[x * height + y] = *value;
        }
    }
    swapped
}
