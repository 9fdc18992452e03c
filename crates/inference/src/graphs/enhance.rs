//! The low-resolution recipe of [`facescan_imaging::enhance`]: bicubic enlargement, contrast, sharpness, unsharp mask.
//!
//! Every step rounds to bytes as Pillow does, and the next step multiplies a difference of one level. Each step is
//! therefore computed with integers and returns the exact bytes. Denoising, gamma and CLAHE stay on the CPU.

use image::RgbImage;

use super::{
    builder::{Builder, Dim, Kind, Value},
    session::Input,
};
use facescan_imaging::{
    enhance::{
        BLUR_PASSES, CONTRAST, SHARPNESS, SMOOTH_CENTER, SMOOTH_SUM, UNSHARP_PERCENT,
        UNSHARP_THRESHOLD,
    },
    luma,
    resize::axis::{self, BICUBIC_BITS, BICUBIC_TAPS, Taps},
};

/// Axes of the planes `[3, H, W]` that everything is computed on.
const CHANNEL: i64 = 0;
const ROW: i64 = 1;
const COLUMN: i64 = 2;

/// Taps of the bicubic filter, which only enlarges here.
const TAPS: usize = BICUBIC_TAPS;
/// Weights have 22 fractional bits. Their product with a sample would exceed f32, so they are split: the upper 11 bits
/// with the sign, and the lower 11 bits.
const HALF_BITS: u32 = BICUBIC_BITS / 2;
const HALF: i32 = 1 << HALF_BITS;

/// Added before a blend is truncated to a level. Exact blends are multiples of 0.05 and 0.1. A device that fuses a
/// product and a sum may come out a little below an integer, and truncation would lose a level.
const LIFT: f32 = 0.001;

const IMAGE: &str = "image";
const ROWS: [&str; 4] = ["rows", "rows_high", "rows_low", "rows_inside"];
const COLUMNS: [&str; 4] = ["columns", "columns_high", "columns_low", "columns_inside"];

/// The steps after the enlargement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Steps {
    /// Contrast × 1.15 about the mean luma.
    pub contrast: bool,
    /// Sharpness × 1.1 and the unsharp mask (radius 1, 120 %, threshold 3).
    pub sharpen: bool,
}

impl Steps {
    /// Every combination that has a graph.
    pub const ALL: [Self; 4] = [
        Self::new(true, true),
        Self::new(true, false),
        Self::new(false, true),
        Self::new(false, false),
    ];

    const fn new(contrast: bool, sharpen: bool) -> Self {
        Self { contrast, sharpen }
    }

    /// Returns the name of the graph with these steps.
    pub(super) fn graph_name(self) -> &'static str {
        match (self.contrast, self.sharpen) {
            (true, true) => "enhance",
            (true, false) => "enhance_contrast",
            (false, true) => "enhance_sharpen",
            (false, false) => "enlarge",
        }
    }
}

pub(super) fn describe(b: &Builder, steps: Steps) {
    use Dim::{Free, Is};
    let image = b.input(IMAGE, Kind::U8, &[Free("H"), Free("W"), Is(3)]);
    let columns = Axis::declare(b, COLUMNS, COLUMN, "w");
    let rows = Axis::declare(b, ROWS, ROW, "h");
    let planes = image.transpose(&[2, 0, 1]).cast(Kind::F32);
    let mut planes = rows.enlarge(&columns.enlarge(&planes));
    if steps.contrast {
        planes = contrast(b, &planes);
    }
    if steps.sharpen {
        let inside = &rows.inside * &columns.inside;
        planes = unsharp_mask(&sharpness(&planes, &inside));
    }
    let image = planes.cast(Kind::U8).transpose(&[1, 2, 0]);
    b.output("enhanced", &image, Kind::U8, &[Free("h"), Free("w"), Is(3)]);
}

/// The inputs that belong to one axis.
struct Axis {
    axis: i64,
    /// Source samples, `[4, size]`.
    samples: Value,
    /// The halves of their weights, `[4, size, 1]` for rows and `[4, size]` for columns.
    high: Value,
    low: Value,
    /// 1, or 0 for the outermost pixels; `[size, 1]` or `[size]`.
    inside: Value,
}

impl Axis {
    fn declare(b: &Builder, names: [&str; 4], axis: i64, size: &'static str) -> Self {
        let across = [Dim::Is(TAPS as i64), Dim::Free(size)];
        let down = [Dim::Is(TAPS as i64), Dim::Free(size), Dim::Is(1)];
        let dims = if axis == ROW { &down[..] } else { &across[..] };
        Self {
            axis,
            samples: b.input(names[0], Kind::I32, &across),
            high: b.input(names[1], Kind::F32, dims),
            low: b.input(names[2], Kind::F32, dims),
            inside: b.input(names[3], Kind::F32, &dims[1..]),
        }
    }

    /// Runs one pass of the bicubic filter, ⌊(sum + 2²¹) / 2²²⌋ clamped to 0..=255. The sums come in two halves.
    fn enlarge(&self, planes: &Value) -> Value {
        let parts = (0..TAPS as i64).map(|tap| {
            let samples = self.samples.slice(0, tap, tap + 1).squeeze(&[0]);
            let samples = planes.gather(&samples, self.axis);
            [&self.high, &self.low].map(|weights| &samples * weights.slice(0, tap, tap + 1))
        });
        let sums = parts.reduce(|[high, low], parts| [high + &parts[0], low + &parts[1]]);
        let Some([high, low]) = sums else {
            return planes.clone();
        };
        let carry = (low * (1.0 / HALF as f32)).floor();
        let sum = high + carry + (HALF / 2) as f32;
        (sum * (1.0 / HALF as f32)).floor().clip(0.0, 255.0)
    }
}

/// Returns `from + factor · (to − from)`, clamped to 0..=255 and truncated.
fn blend(from: &Value, to: &Value, factor: f32) -> Value {
    let blended = from + (to - from) * factor;
    (blended + LIFT).floor().clip(0.0, 255.0)
}

fn contrast(b: &Builder, planes: &Value) -> Value {
    let weights = luma::BT601_PILLOW.map(|weight| weight as f32);
    let sum = (planes * b.floats(&[3, 1, 1], &weights)).sum(CHANNEL);
    // The sum is below 2²⁴ even with the rounding, so it is exact.
    let one = (1u32 << luma::PILLOW_BITS) as f32;
    let gray = ((sum + one / 2.0) * (1.0 / one)).floor();
    blend(&rounded_mean(&gray), planes, CONTRAST)
}

/// Returns ⌊mean + ½⌋ of integers `[1, H, W]`, exactly. An error of one level would move one sample in seven.
///
/// The sum of a large image has more bits than f32. The graph sums the distance of the rows from the integer part of
/// the mean instead, in two halves. The total is less than the number of pixels.
fn rounded_mean(a: &Value) -> Value {
    const PART: f32 = 1024.0;
    let (width, height) = (a.size(COLUMN), a.size(ROW));
    let count = &width * height;
    let rows = a.sum(COLUMN);
    let whole = (&rows / &width).mean(ROW).floor();
    let apart = rows - &whole * width;
    let high = (&apart * (1.0 / PART)).floor();
    let low = apart - &high * PART;
    let total = high.sum(ROW) * PART + low.sum(ROW);
    // Adds one if twice the total is at least the count. Both are integers, so the difference is at least 0.
    let over = &total + &total - count + 1.0;
    whole + over.clip(0.0, 1.0)
}

/// Blends with the image smoothed by (1 1 1 / 1 5 1 / 1 1 1) / 13. The outermost pixels stay.
fn sharpness(planes: &Value, inside: &Value) -> Value {
    let box_sum = three(&three(planes, ROW), COLUMN);
    let sum = box_sum + planes * (SMOOTH_CENTER - 1) as f32;
    // Rounded to the nearest, ⌊(sum + 6) / 13⌋. Half a unit is added so that no quotient is close to an integer.
    let sum = sum + SMOOTH_SUM as f32 / 2.0;
    let smooth = (sum * (1.0 / SMOOTH_SUM as f32)).floor();
    let smooth = planes + (smooth - planes) * inside;
    blend(&smooth, planes, SHARPNESS)
}

/// Returns the sum of each sample and its two neighbors, with the outermost sample repeated.
fn three(planes: &Value, axis: i64) -> Value {
    let [before, here, after] = planes.repeat_edges(axis).neighbors(axis);
    before + after + here
}

/// Adds 120 % of the difference from the blurred image where it exceeds 3 levels.
fn unsharp_mask(planes: &Value) -> Value {
    let mut blurred = planes.clone();
    for axis in [COLUMN, ROW] {
        for _ in 0..BLUR_PASSES {
            blurred = blur_pass(&blurred, axis);
        }
    }
    let apart = planes - &blurred;
    let size = apart.relu() + (blurred - planes).relu();
    // The shares are multiples of 0.2 and are truncated. The offset is for a product that is slightly below an integer.
    let share = (&size * (UNSHARP_PERCENT as f32 / 100.0) + 0.05).floor();
    let counts = (size - UNSHARP_THRESHOLD as f32).clip(0.0, 1.0);
    let added = share * counts * apart.clip(-1.0, 1.0);
    (planes + added).clip(0.0, 255.0)
}

/// Runs one pass of Pillow's extended box: (4·center + sides) / 6, rounded to the nearest.
///
/// Pillow's weights have 24 bits and are not exactly 4/6 and 1/6, which decides the direction of a half: up if the
/// center is at least twice the sum of the sides, otherwise down. Adding 1/1024 of that difference, which is less than
/// a unit, has the same effect.
fn blur_pass(planes: &Value, axis: i64) -> Value {
    const TIE: f32 = 1.0 / 1024.0;
    let [before, center, after] = planes.repeat_edges(axis).neighbors(axis);
    let sum = center * (4.0 + TIE) + (before + after) * (1.0 - 2.0 * TIE);
    let sum = sum + (3.0 + TIE / 2.0);
    (sum * (1.0 / 6.0)).floor()
}

/// The taps of an enlargement, for one image size.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    size: (u32, u32),
    columns: AxisPlan,
    rows: AxisPlan,
}

#[derive(Clone, Debug, PartialEq)]
struct AxisPlan {
    taps: Taps,
    high: Vec<f32>,
    low: Vec<f32>,
    inside: Vec<f32>,
}

impl AxisPlan {
    fn new(from: u32, to: u32) -> Self {
        let taps = axis::bicubic(from, to);
        let half = |of: fn(i32) -> i32| taps.weights.iter().map(|&w| of(w) as f32).collect();
        let last = taps.positions - 1;
        let inside = (0..=last).map(|at| f32::from(u8::from(at > 0 && at < last)));
        Self {
            high: half(|weight| weight >> HALF_BITS),
            low: half(|weight| weight & (HALF - 1)),
            inside: inside.collect(),
            taps,
        }
    }

    /// Returns the inputs of one axis. `trailing` is the shape that broadcasts a position along its axis.
    fn inputs(&self, names: [&'static str; 4], trailing: &[usize]) -> [Input<'_>; 4] {
        let positions = self.taps.positions;
        let each = [&[positions], trailing].concat();
        let weights = [&[TAPS], each.as_slice()].concat();
        [
            Input::i32(names[0], &[TAPS, positions], self.taps.samples.as_slice()),
            Input::f32(names[1], &weights, self.high.as_slice()),
            Input::f32(names[2], &weights, self.low.as_slice()),
            Input::f32(names[3], &each, self.inside.as_slice()),
        ]
    }
}

impl Plan {
    /// Enlarges images of `size` to `target`, both as width and height in pixels. Equal sizes leave them unchanged.
    ///
    /// # Panics
    /// Panics if a size is 0 or the target is smaller.
    pub fn new(size: (u32, u32), target: (u32, u32)) -> Self {
        Self {
            size,
            columns: AxisPlan::new(size.0, target.0),
            rows: AxisPlan::new(size.1, target.1),
        }
    }

    /// Returns the inputs of the graph with any steps.
    ///
    /// # Panics
    /// Panics if the image has another size than the plan.
    pub fn inputs<'a>(&'a self, image: &'a RgbImage) -> Vec<Input<'a>> {
        assert_eq!(image.dimensions(), self.size, "an image of the plan's size");
        let (width, height) = (self.size.0 as usize, self.size.1 as usize);
        let mut inputs = vec![Input::u8(
            IMAGE,
            &[height, width, 3],
            image.as_raw().as_slice(),
        )];
        inputs.extend(self.columns.inputs(COLUMNS, &[]));
        inputs.extend(self.rows.inputs(ROWS, &[1]));
        inputs
    }
}

#[cfg(test)]
mod tests;
