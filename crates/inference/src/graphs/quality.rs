//! Blur, brightness, contrast and sharpness of images of one size, as in [`facescan_imaging::quality::measure`].

use facescan_imaging::{luma::BT601, quality::FLAT_VARIANCE};

use super::{
    ImageGraph,
    builder::{Builder, Dim, Kind, Value},
    session::{GraphModel, Input},
};

pub use on_cpu::OnCpu;

mod on_cpu;

/// Axes of `[N, 3, H, W]`.
const CHANNEL: i64 = 1;
const ROW: i64 = 2;
const COLUMN: i64 = 3;

/// The input: RGB samples, 0..=255.
const IMAGES: &str = "images";

/// Returns the graph.
///
/// The input is `images` `[N, 3, H, W]` f32, RGB, 0..=255, with no dimension of 0. The output is `measures` `[N, 4]`
/// f32: blur score, brightness, contrast and sharpness, in the units of [`facescan_imaging::quality::ImageQuality`].
///
/// No operation in it has a reduced precision mode on any provider.
pub fn graph() -> GraphModel {
    Builder::write(ImageGraph::Quality.name(), describe)
}

fn describe(b: &mut Builder) {
    use Dim::{Free, Is};
    let images = b.input(IMAGES, Kind::F32, &[Free("N"), Is(3), Free("H"), Free("W")]);

    let shares = b.floats(&[1, 3, 1, 1], &BT601);
    let weighed = b.mul(&images, &shares);
    let gray = b.sum(&weighed, CHANNEL);
    let brightness = mean(b, &gray);
    // The following is invariant under a constant that is added to gray. Values around zero lose the least precision in
    // f32.
    let gray = b.sub(&gray, &brightness);
    let contrast = mean_square(b, &gray);
    let contrast = b.sqrt(&contrast);

    let tall = b.reflect_edges(&gray, ROW);
    let framed = b.reflect_edges(&tall, COLUMN);
    let [above, here, below] = b.neighbors(&framed, ROW);
    let beside = b.add(&above, &below);
    let laplacian = laplacian(b, &here, &beside);
    // The mean is small but not zero, and the variance is taken about it.
    let center = mean(b, &laplacian);
    let laplacian = b.sub(&laplacian, &center);
    let blur = mean_square(b, &laplacian);

    let downward = b.sub(&below, &above);
    let twice = b.add(&here, &here);
    let smooth = b.add(&beside, &twice);
    let gradient = gradient(b, &smooth, &downward);
    let sharpness = mean(b, &gradient);

    let measures = b.concat(&[&blur, &brightness, &contrast, &sharpness], CHANNEL);
    let measures = b.squeeze(&measures, &[ROW, COLUMN]);
    b.output("measures", &measures, Kind::F32, &[Free("N"), Is(4)]);
}

/// Returns the graph's input for `data`: `rows` images of 3 × `height` × `width` samples.
pub fn inputs(data: &[f32], [rows, height, width]: [usize; 3]) -> [Input<'_>; 1] {
    [Input::f32(IMAGES, &[rows, 3, height, width], data)]
}

/// Returns the Laplacian `(0 1 0 / 1 −4 1 / 0 1 0)` from the rows, and from the sum of the rows above and below. Both
/// are one sample wider at both ends.
fn laplacian(b: &mut Builder, here: &Value, beside: &Value) -> Value {
    let [left, center, right] = b.neighbors(here, COLUMN);
    let vertical = b.slice(beside, COLUMN, 1, -1);
    let horizontal = b.add(&left, &right);
    let around = b.add(&vertical, &horizontal);
    let four = b.times(&center, 4.0);
    b.sub(&around, &four)
}

/// Returns the magnitude of the Sobel gradient, from rows that are smoothed vertically and rows of differences.
fn gradient(b: &mut Builder, smooth: &Value, downward: &Value) -> Value {
    let [left, _, right] = b.neighbors(smooth, COLUMN);
    let across = b.sub(&right, &left);
    let [left, center, right] = b.neighbors(downward, COLUMN);
    let sides = b.add(&left, &right);
    let twice = b.add(&center, &center);
    let down = b.add(&sides, &twice);
    let (across, down) = (b.mul(&across, &across), b.mul(&down, &down));
    let square = b.add(&across, &down);
    b.sqrt(&square)
}

/// Returns the mean of each image, `[N, 1, 1, 1]`. It sums rows first: short sums lose less precision than one sum of
/// all pixels.
fn mean(b: &mut Builder, a: &Value) -> Value {
    let rows = b.mean(a, COLUMN);
    b.mean(&rows, ROW)
}

fn mean_square(b: &mut Builder, a: &Value) -> Value {
    let square = b.mul(a, a);
    let mean = mean(b, &square);
    let above = b.plus(&mean, -(FLAT_VARIANCE as f32));
    b.relu(&above)
}

#[cfg(test)]
mod tests;
