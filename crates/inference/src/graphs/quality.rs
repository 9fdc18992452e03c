//! Blur, brightness, contrast and sharpness of images of one size, as in [`facescan_imaging::quality::measure`].

use facescan_imaging::{luma::BT601, quality::FLAT_VARIANCE};

use super::{
    builder::{Builder, Dim, Kind, Value},
    session::Input,
};

pub use on_cpu::OnCpu;

mod on_cpu;

/// Axes of `[N, 3, H, W]`.
const CHANNEL: i64 = 1;
const ROW: i64 = 2;
const COLUMN: i64 = 3;

/// The input: RGB samples, 0..=255.
const IMAGES: &str = "images";

pub(super) fn describe(b: &Builder) {
    use Dim::{Free, Is};
    let images = b.input(IMAGES, Kind::F32, &[Free("N"), Is(3), Free("H"), Free("W")]);

    let gray = (images * b.floats(&[1, 3, 1, 1], &BT601)).sum(CHANNEL);
    let brightness = mean(&gray);
    // The following is invariant under a constant that is added to gray. Values around zero lose the least precision in
    // f32.
    let gray = gray - &brightness;
    let contrast = mean_square(&gray).sqrt();

    let framed = gray.reflect_edges(ROW).reflect_edges(COLUMN);
    let [above, here, below] = framed.neighbors(ROW);
    let beside = &above + &below;
    let laplacian = laplacian(&here, &beside);
    // The mean is small but not zero, and the variance is taken about it.
    let center = mean(&laplacian);
    let blur = mean_square(&(laplacian - center));

    let downward = below - above;
    let smooth = beside + (&here + &here);
    let sharpness = mean(&gradient(&smooth, &downward));

    let measures = blur.concat(&[&brightness, &contrast, &sharpness], CHANNEL);
    let measures = measures.squeeze(&[ROW, COLUMN]);
    b.output("measures", &measures, Kind::F32, &[Free("N"), Is(4)]);
}

/// Returns the graph's input for `data`: `rows` images of 3 × `height` × `width` samples.
pub fn inputs(data: &[f32], [rows, height, width]: [usize; 3]) -> [Input<'_>; 1] {
    [Input::f32(IMAGES, &[rows, 3, height, width], data)]
}

/// Returns the Laplacian `(0 1 0 / 1 −4 1 / 0 1 0)` from the rows, and from the sum of the rows above and below. Both
/// are one sample wider at both ends.
fn laplacian(here: &Value, beside: &Value) -> Value {
    let [left, center, right] = here.neighbors(COLUMN);
    beside.slice(COLUMN, 1, -1) + (left + right) - center * 4.0
}

/// Returns the magnitude of the Sobel gradient, from rows that are smoothed vertically and rows of differences.
fn gradient(smooth: &Value, downward: &Value) -> Value {
    let [left, _, right] = smooth.neighbors(COLUMN);
    let across = right - left;
    let [left, center, right] = downward.neighbors(COLUMN);
    let down = left + right + (&center + &center);
    (&across * &across + &down * &down).sqrt()
}

/// Returns the mean of each image, `[N, 1, 1, 1]`. It sums rows first: short sums lose less precision than one sum of
/// all pixels.
fn mean(a: &Value) -> Value {
    a.mean(COLUMN).mean(ROW)
}

fn mean_square(a: &Value) -> Value {
    (mean(&(a * a)) - FLAT_VARIANCE as f32).relu()
}

#[cfg(test)]
mod tests;
