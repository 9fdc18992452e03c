//! The low-resolution recipe of [`facescan_imaging::enhance`], byte for byte: bicubic enlargement, contrast, sharpness,
//! unsharp mask.

use facescan_imaging::{
    enhance::{
        BLUR_BITS, BLUR_CENTER, BLUR_PASSES, BLUR_SIDE, CONTRAST, SHARPNESS, SMOOTH_CENTER,
        SMOOTH_SUM, UNSHARP_PERCENT, UNSHARP_THRESHOLD,
    },
    luma,
    resize::axis::{BICUBIC_BITS, BICUBIC_TAPS},
};
use tch::{Kind, TchError, Tensor as Torch};

use super::{
    code::Given,
    process::{beside, length},
};
use crate::graphs::enhance::Steps;

/// Axes of the planes `[3, H, W]` that everything is computed on.
const CHANNEL: i64 = 0;
const ROW: i64 = 1;
const COLUMN: i64 = 2;

/// Taps of the bicubic filter, which only enlarges here.
const TAPS: i64 = BICUBIC_TAPS as i64;
/// The graphs' weights come in two halves. This is 2 to the number of bits in a half.
const HALF: i64 = 1 << (BICUBIC_BITS / 2);

/// Returns the enhanced image `[h, w, 3]` u8.
pub(super) fn enhance(given: &Given, steps: Steps) -> Result<Torch, TchError> {
    let planes = given.get("image")?.f_permute([2, 0, 1])?;
    let planes = enlarge(given, &planes.f_to_kind(Kind::Int)?, COLUMN, "columns")?;
    let mut planes = enlarge(given, &planes, ROW, "rows")?;
    if steps.contrast {
        planes = contrast(&planes)?;
    }
    if steps.sharpen {
        let inside = given
            .integers("rows_inside")?
            .f_mul(&given.integers("columns_inside")?)?;
        planes = sharpness(&planes, &inside)?;
        planes = unsharp_mask(&planes)?;
    }
    planes.f_to_kind(Kind::Uint8)?.f_permute([1, 2, 0])
}

/// Runs one pass of the bicubic filter along an axis, in the fixed point of Pillow.
fn enlarge(given: &Given, planes: &Torch, axis: i64, name: &str) -> Result<Torch, TchError> {
    let samples = given.get(name)?;
    let high = given.integers(&format!("{name}_high"))?;
    let weights = high
        .f_mul_scalar(HALF)?
        .f_add(&given.integers(&format!("{name}_low"))?)?;
    let part = |tap: i64| {
        planes
            .f_index_select(axis, &samples.f_select(0, tap)?)?
            .f_mul(&weights.f_select(0, tap)?)
    };
    let mut sum = part(0)?;
    for tap in 1..TAPS {
        sum = sum.f_add(&part(tap)?)?;
    }
    sum.f_add_scalar(1 << (BICUBIC_BITS - 1))?
        .f_bitwise_right_shift_tensor_scalar(i64::from(BICUBIC_BITS))?
        .f_clamp(0, 255)
}

/// Returns `from + factor · (to − from)`, truncated and clamped to 0..=255, in the CPU's order of operations.
fn blend(from: &Torch, to: &Torch, factor: f32) -> Result<Torch, TchError> {
    let (from, to) = (from.f_to_kind(Kind::Float)?, to.f_to_kind(Kind::Float)?);
    let moved = to.f_sub(&from)?.f_mul_scalar(f64::from(factor))?;
    from.f_add(&moved)?
        .f_trunc()?
        .f_clamp(0.0, 255.0)?
        .f_to_kind(Kind::Int)
}

/// Moves every sample away from the rounded mean luma.
fn contrast(planes: &Torch) -> Result<Torch, TchError> {
    let shares = Torch::f_from_slice(&luma::BT601_PILLOW.map(u32::cast_signed))?
        .f_view([3, 1, 1])?
        .f_to_device(planes.device())?;
    let gray = planes
        .f_mul(&shares)?
        .f_sum_dim_intlist(CHANNEL, false, Kind::Int)?
        .f_add_scalar(1 << (luma::PILLOW_BITS - 1))?
        .f_bitwise_right_shift_tensor_scalar(i64::from(luma::PILLOW_BITS))?;
    // ⌊mean + ½⌋ without a fraction that could be rounded.
    let count = gray.numel() as i64;
    let middle = gray
        .f_sum(Kind::Int64)?
        .f_mul_scalar(2)?
        .f_add_scalar(count)?
        .f_div_scalar_mode(2 * count, "floor")?;
    blend(&middle, planes, CONTRAST)
}

/// Moves samples away from the image smoothed by (1 1 1 / 1 5 1 / 1 1 1) / 13. The outermost pixels stay.
fn sharpness(planes: &Torch, inside: &Torch) -> Result<Torch, TchError> {
    let box_sum = three(&three(planes, ROW)?, COLUMN)?;
    let smooth = box_sum
        .f_add(&planes.f_mul_scalar(i64::from(SMOOTH_CENTER - 1))?)?
        .f_add_scalar(i64::from(SMOOTH_SUM / 2))?
        .f_div_scalar_mode(i64::from(SMOOTH_SUM), "floor")?;
    let smooth = smooth.f_sub(planes)?.f_mul(inside)?.f_add(planes)?;
    blend(&smooth, planes, SHARPNESS)
}

/// Returns the sum of each sample and its two neighbors.
fn three(planes: &Torch, axis: i64) -> Result<Torch, TchError> {
    let [before, here, after] = repeated(planes, axis)?;
    before.f_add(&here)?.f_add(&after)
}

/// Returns the sample before, the sample itself and the sample after, along an axis. The edge is repeated.
fn repeated(planes: &Torch, axis: i64) -> Result<[Torch; 3], TchError> {
    let last = length(planes, axis)? - 1;
    beside(planes, axis, |at| at.clamp(0, last))
}

/// Adds 120 % of the difference from the blurred image where it exceeds 3 levels.
fn unsharp_mask(planes: &Torch) -> Result<Torch, TchError> {
    // The sums of a pass are unsigned 32-bit integers.
    let mut blurred = planes.f_to_kind(Kind::Int64)?;
    for axis in [COLUMN, ROW] {
        for _ in 0..BLUR_PASSES {
            blurred = blur_pass(&blurred, axis)?;
        }
    }
    let apart = planes.f_sub(&blurred.f_to_kind(Kind::Int)?)?;
    let counts = apart.f_abs()?.f_gt(i64::from(UNSHARP_THRESHOLD))?;
    let added = apart
        .f_mul_scalar(i64::from(UNSHARP_PERCENT))?
        .f_div_scalar_mode(100, "trunc")?;
    planes.f_add(&added.f_mul(&counts)?)?.f_clamp(0, 255)
}

/// Runs one pass of Pillow's extended box, whose weights have 24 bits.
fn blur_pass(planes: &Torch, axis: i64) -> Result<Torch, TchError> {
    let [before, here, after] = repeated(planes, axis)?;
    let sides = before.f_add(&after)?.f_mul_scalar(i64::from(BLUR_SIDE))?;
    here.f_mul_scalar(i64::from(BLUR_CENTER))?
        .f_add(&sides)?
        .f_add_scalar(1 << (BLUR_BITS - 1))?
        .f_bitwise_right_shift_tensor_scalar(i64::from(BLUR_BITS))
}
