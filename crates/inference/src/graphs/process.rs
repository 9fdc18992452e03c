//! Converts images to network input (resized, padded or cropped, normalized, planar), and blurs them.
//!
//! There are two graphs to resize, because OpenCV's filter and the antialiased one differ.
//! [`BilinearTwoTap`](super::ImageGraph::BilinearTwoTap) takes two samples per axis for each output. It gathers them from
//! the image's bytes with integers, for which no provider has a lower precision, so the result equals OpenCV's bit for
//! bit. [`Bilinear`](super::ImageGraph::Bilinear) weighs as many samples as the scale needs, as one matrix product per
//! axis. ONNX's own `Resize` is not used: its linear mode rounds differently from OpenCV, and only some providers support
//! antialiasing. [`Blur`](super::ImageGraph::Blur) weighs tiles of an image, also with products.
//!
//! A plan holds what depends on sizes alone. It can be kept for the next image of that size.
//!
//! **Matrix products must be f32**: CUDA's `use_tf32=0`, OpenVINO's `INFERENCE_PRECISION_HINT=f32`. They are the only
//! operations here that providers run in a lower precision by default. In TF32, samples move by up to 0.15 of a level,
//! which rounding mostly hides but [`Rounding::None`] does not; in bf16, by 1.3.

use image::RgbImage;

use super::{
    builder::{Builder, Dim, Kind, Value},
    session::Input,
};
use facescan_imaging::tensor::{ChannelOrder, Normalization};

pub(super) mod bilinear;
pub(super) mod blur;
pub(super) mod two_tap;

pub use bilinear::{BilinearPlan, Rounding};
pub use blur::{BlurPlan, Tiles};
pub use two_tap::TwoTapPlan;

const IMAGE: &str = "image";
const ROWS: &str = "rows";
const ROW_WEIGHTS: &str = "row_weights";
const COLUMNS: &str = "columns";
const COLUMN_WEIGHTS: &str = "column_weights";
const PAD: &str = "pad";
const ORDER: &str = "order";
const MEAN: &str = "mean";
const SCALE: &str = "scale";

/// Rounds to the nearest integer, halves up, as Pillow does.
fn round(a: &Value) -> Value {
    (a + 0.5).floor()
}

/// Orders and normalizes planes `[3, h, w]` and makes them the output.
fn finish(b: &Builder, planes: &Value) {
    use Dim::{Free, Is};
    let order = b.input(ORDER, Kind::I32, &[Is(3)]);
    let mean = b.input(MEAN, Kind::F32, &[Is(3), Is(1), Is(1)]);
    let scale = b.input(SCALE, Kind::F32, &[Is(3), Is(1), Is(1)]);
    let row = ((planes.gather(&order, 0) - mean) * scale).unsqueeze(0);
    b.output(
        "row",
        &row,
        Kind::F32,
        &[Is(1), Is(3), Free("h"), Free("w")],
    );
}

/// Returns the inputs that [`finish`] reads.
fn normalization_inputs(normalization: &Normalization) -> [Input<'static>; 3] {
    let order = match normalization.order {
        ChannelOrder::Rgb => [0, 1, 2],
        ChannelOrder::Bgr => [2, 1, 0],
    };
    let [mean, scale] = [normalization.mean, normalization.scale].map(|values| values.to_vec());
    [
        Input::i32(ORDER, &[3], order.to_vec()),
        Input::f32(MEAN, &[3, 1, 1], mean),
        Input::f32(SCALE, &[3, 1, 1], scale),
    ]
}

fn image_input(image: &RgbImage, size: (u32, u32)) -> Input<'_> {
    assert_eq!(image.dimensions(), size, "an image of the plan's size");
    let shape = [size.1 as usize, size.0 as usize, 3];
    Input::u8(IMAGE, &shape, image.as_raw().as_slice())
}

/// Returns the RGB levels of the padding, as the graphs take them.
fn pad_input(pad: [u8; 3]) -> Input<'static> {
    Input::f32(PAD, &[3, 1, 1], pad.map(f32::from).to_vec())
}

#[cfg(test)]
mod tests;
