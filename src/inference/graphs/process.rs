//! Pictures to network input: resized, padded or cut, normalised, planar.
//!
//! There are two graphs, because the detectors' filter and the antialiased one are different work. [`letterbox`] takes
//! two samples a side for each output, so it gathers them from the picture's bytes, in whole numbers: no provider has
//! a lower precision for that, and the answer is OpenCV's to the last bit. [`preprocess`] weighs as many samples as the
//! scale asks for, which is a product with a matrix a side. ONNX's own `Resize` was not taken: its linear mode
//! rounds otherwise than OpenCV, and antialiasing is there for some providers only.
//!
//! A plan holds what depends on sizes alone, and may be kept for the next picture of that size.

use std::borrow::Cow;

use image::RgbImage;

use super::{
    builder::{Builder, Dim, Kind, Value},
    session::{GraphModel, Input},
};
use crate::imaging::{
    resize::axis::{self, Taps},
    tensor::{ChannelOrder, Letterbox, Normalisation},
};

const PICTURE: &str = "picture";
const ROWS: &str = "rows";
const ROW_WEIGHTS: &str = "row_weights";
const COLUMNS: &str = "columns";
const COLUMN_WEIGHTS: &str = "column_weights";
const PAD: &str = "pad";
const ORDER: &str = "order";
const MEAN: &str = "mean";
const SCALE: &str = "scale";

/// The detectors' input. In: `picture` `[H, W, 3]` u8, RGB, and what [`LetterboxPlan::inputs`] adds. Out: `row`
/// `[1, 3, side_h, side_w]` f32, what [`letterbox_into`](crate::imaging::tensor::letterbox_into) writes, bit for bit:
/// OpenCV's `INTER_LINEAR` in its fixed point at the top left, zero pixels elsewhere, normalised.
pub fn letterbox() -> GraphModel {
    Builder::write("letterbox", describe_letterbox)
}

fn describe_letterbox(b: &mut Builder) {
    use Dim::{Free, Is};
    let picture = b.input(PICTURE, Kind::U8, &[Free("H"), Free("W"), Is(3)]);
    let rows = b.input(ROWS, Kind::I32, &[Is(2), Free("h")]);
    let columns = b.input(COLUMNS, Kind::I32, &[Is(2), Free("w")]);
    let one = Is(1);
    let column_dims = [Is(2), one, one, Free("w")];
    let column_weights = b.input(COLUMN_WEIGHTS, Kind::F32, &column_dims);
    let row_dims = [Is(2), one, one, Free("h"), one];
    let row_weights = b.input(ROW_WEIGHTS, Kind::F32, &row_dims);

    // The four samples of each output are all that is taken from the bytes. They become planes while they are bytes
    // still, so that the arithmetic runs along lines: [2 rows, 2 columns, 3, h, w].
    let samples = b.gather(&picture, &rows, 0);
    let samples = b.gather(&samples, &columns, 2);
    let samples = b.transpose(&samples, &[0, 2, 4, 1, 3]);
    let samples = b.cast(&samples, Kind::F32);
    let weighed = b.mul(&samples, &column_weights);
    let across = b.sum(&weighed, 1);
    let across = b.times(&across, 1.0 / 16.0);
    let across = b.floor(&across);
    // ⌊across · weight / 2¹⁶⌋ has a product of 26 bits, two too many; in two parts of `across` it has 19.
    let high = b.times(&across, 1.0 / 256.0);
    let high = b.floor(&high);
    let low = b.times(&high, 256.0);
    let low = b.sub(&across, &low);
    let low = b.mul(&low, &row_weights);
    let low = b.times(&low, 1.0 / 256.0);
    let carry = b.floor(&low);
    let high = b.mul(&high, &row_weights);
    let sum = b.add(&high, &carry);
    let sum = b.times(&sum, 1.0 / 256.0);
    let parts = b.floor(&sum);
    let quarters = b.sum(&parts, 0);
    let quarters = b.plus(&quarters, 2.0);
    let levels = b.times(&quarters, 0.25);
    let levels = b.floor(&levels);

    let planes = b.squeeze(&levels, &[0, 1]);
    finish(b, &planes);
}

/// How the samples of a resized picture are rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// Not at all: the `jax` profile.
    None,
    /// To whole levels at the end: the `torchvision` profile.
    Once,
    /// To whole levels after the columns and after the rows: the `pil` profile.
    EachPass,
}

/// The antialiased resize. In: `picture` `[H, W, 3]` u8, RGB, and what [`PreprocessPlan::inputs`] adds. Out: `row`
/// `[1, 3, h, w]` f32: the weighted means of the widened triangle, the pad value where the plan pads, normalised.
///
/// Its two matrix products are the only operations here that providers run in a lower precision by themselves.
/// **They must be f32**: CUDA's `use_tf32=0`, OpenVINO's `INFERENCE_PRECISION_HINT=f32`. In TF32 samples move by up to
/// 0.15 of a level, which rounding mostly hides but [`Rounding::None`] does not; in bf16 by 1.3.
pub fn preprocess(rounding: Rounding) -> GraphModel {
    let name = match rounding {
        Rounding::None => "preprocess_jax",
        Rounding::Once => "preprocess_torchvision",
        Rounding::EachPass => "preprocess_pil",
    };
    Builder::write(name, |b| describe_preprocess(b, rounding))
}

fn describe_preprocess(b: &mut Builder, rounding: Rounding) {
    use Dim::{Free, Is};
    let picture = b.input(PICTURE, Kind::U8, &[Free("H"), Free("W"), Is(3)]);
    let columns = b.input(COLUMNS, Kind::F32, &[Free("W"), Free("w")]);
    let rows = b.input(ROWS, Kind::F32, &[Free("h"), Free("H")]);
    let pad = b.input(PAD, Kind::F32, &[Is(3), Is(1), Is(1)]);

    let planes = b.transpose(&picture, &[2, 0, 1]);
    let planes = b.cast(&planes, Kind::F32);
    // Padding weighs nothing, so it comes out as 0: counted from the pad value, that is the pad value.
    let planes = b.sub(&planes, &pad);
    let narrow = b.matmul(&planes, &columns);
    let narrow = if rounding == Rounding::EachPass {
        round(b, &narrow)
    } else {
        narrow
    };
    let levels = b.matmul(&rows, &narrow);
    let levels = b.add(&levels, &pad);
    let levels = if rounding == Rounding::None {
        levels
    } else {
        round(b, &levels)
    };
    finish(b, &levels);
}

/// To the nearest whole number, halves up, as Pillow does.
fn round(b: &mut Builder, a: &Value) -> Value {
    let half_more = b.plus(a, 0.5);
    b.floor(&half_more)
}

/// Orders and normalises planes `[3, h, w]` and makes them the output.
fn finish(b: &mut Builder, planes: &Value) {
    use Dim::{Free, Is};
    let order = b.input(ORDER, Kind::I32, &[Is(3)]);
    let mean = b.input(MEAN, Kind::F32, &[Is(3), Is(1), Is(1)]);
    let scale = b.input(SCALE, Kind::F32, &[Is(3), Is(1), Is(1)]);
    let ordered = b.gather(planes, &order, 0);
    let centred = b.sub(&ordered, &mean);
    let normalised = b.mul(&centred, &scale);
    let row = b.unsqueeze(&normalised, 0);
    b.output(
        "row",
        &row,
        Kind::F32,
        &[Is(1), Is(3), Free("h"), Free("w")],
    );
}

/// The inputs that [`finish`] reads.
fn normalisation_inputs(normalisation: &Normalisation) -> [Input<'static>; 3] {
    let order = match normalisation.order {
        ChannelOrder::Rgb => [0, 1, 2],
        ChannelOrder::Bgr => [2, 1, 0],
    };
    let [mean, scale] = [normalisation.mean, normalisation.scale].map(|values| values.to_vec());
    [
        Input::i32(ORDER, &[3], order.to_vec()),
        Input::f32(MEAN, &[3, 1, 1], mean),
        Input::f32(SCALE, &[3, 1, 1], scale),
    ]
}

fn picture_input(picture: &RgbImage, size: (u32, u32)) -> Input<'_> {
    assert_eq!(picture.dimensions(), size, "a picture of the plan's size");
    let shape = [size.1 as usize, size.0 as usize, 3];
    Input::u8(PICTURE, &shape, picture.as_raw().as_slice())
}

/// Where the samples of a letterboxed picture come from, for one size of pictures and one of networks.
#[derive(Clone, Debug, PartialEq)]
pub struct LetterboxPlan {
    size: (u32, u32),
    fit: Letterbox,
    columns: Taps,
    column_weights: Vec<f32>,
    rows: Taps,
    row_weights: Vec<f32>,
}

impl LetterboxPlan {
    /// Fits pictures of `size` into `side`, both width and height in pixels.
    ///
    /// # Panics
    /// When one of them is 0.
    pub fn new(size: (u32, u32), side: (u32, u32)) -> Self {
        let fit = Letterbox::fit(size, side);
        let columns = axis::bilinear_point(size.0, fit.width, side.0);
        let rows = axis::bilinear_point(size.1, fit.height, side.1);
        let floats = |taps: &Taps| taps.weights.iter().map(|&w| w as f32).collect();
        Self {
            size,
            fit,
            column_weights: floats(&columns),
            columns,
            row_weights: floats(&rows),
            rows,
        }
    }

    /// Where the picture lies in the network's input.
    pub fn fit(&self) -> Letterbox {
        self.fit
    }

    /// The inputs of [`letterbox`].
    ///
    /// # Panics
    /// When the picture has another size than the plan.
    pub fn inputs<'a>(
        &'a self,
        picture: &'a RgbImage,
        normalisation: &Normalisation,
    ) -> Vec<Input<'a>> {
        let (h, w) = (self.rows.positions, self.columns.positions);
        let mut inputs = vec![
            picture_input(picture, self.size),
            Input::i32(ROWS, &[2, h], self.rows.samples.as_slice()),
            Input::i32(COLUMNS, &[2, w], self.columns.samples.as_slice()),
            Input::f32(ROW_WEIGHTS, &[2, 1, 1, h, 1], self.row_weights.as_slice()),
            Input::f32(
                COLUMN_WEIGHTS,
                &[2, 1, 1, w],
                self.column_weights.as_slice(),
            ),
        ];
        inputs.extend(normalisation_inputs(normalisation));
        inputs
    }
}

/// The weights of an antialiased resize, for one size of pictures and one way to place them. They take
/// 4 · (W·w + H·h) bytes: 10 MB for 4000 × 3000 to 480 × 360.
#[derive(Clone, Debug, PartialEq)]
pub struct PreprocessPlan {
    size: (u32, u32),
    output: (u32, u32),
    columns: Vec<f32>,
    rows: Vec<f32>,
}

impl PreprocessPlan {
    /// Scales pictures of `size` to `scaled`, and shows what lies in `output` when the scaled picture's top left corner
    /// is put at `at`, in output pixels. All are x before y.
    ///
    /// Stretching has `scaled` equal to `output` and `at` 0; a letterbox has a smaller `scaled`; a centre crop a larger
    /// one and `at` half the difference, below 0.
    ///
    /// # Panics
    /// When a size is 0.
    pub fn new(size: (u32, u32), scaled: (u32, u32), output: (u32, u32), at: (i64, i64)) -> Self {
        let kept = |output: u32, at: i64| -at..i64::from(output) - at;
        let by_position = axis::bilinear(size.0, scaled.0, kept(output.0, at.0));
        Self {
            size,
            output,
            columns: transposed(&by_position, size.0 as usize),
            rows: axis::bilinear(size.1, scaled.1, kept(output.1, at.1)),
        }
    }

    /// Scales without regard to the aspect.
    ///
    /// # Panics
    /// When a size is 0.
    pub fn stretch(size: (u32, u32), output: (u32, u32)) -> Self {
        Self::new(size, output, output, (0, 0))
    }

    /// The inputs of [`preprocess`]. `pad` is the RGB value of padding, whole numbers in 0..=255.
    ///
    /// # Panics
    /// When the picture has another size than the plan.
    pub fn inputs<'a>(
        &'a self,
        picture: &'a RgbImage,
        pad: [u8; 3],
        normalisation: &Normalisation,
    ) -> Vec<Input<'a>> {
        let [w, h] = [self.output.0, self.output.1].map(|side| side as usize);
        let [width, height] = [self.size.0, self.size.1].map(|side| side as usize);
        let pad: Vec<f32> = pad.map(f32::from).to_vec();
        let mut inputs = vec![
            picture_input(picture, self.size),
            Input::f32(COLUMNS, &[width, w], self.columns.as_slice()),
            Input::f32(ROWS, &[h, height], self.rows.as_slice()),
            Input::f32(PAD, &[3, 1, 1], Cow::Owned(pad)),
        ];
        inputs.extend(normalisation_inputs(normalisation));
        inputs
    }
}

/// A matrix of rows of `width` with its axes swapped.
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

#[cfg(test)]
mod tests;
