//! Resizing as in [`facescan_imaging::preprocess`], and the blur of [`facescan_imaging::blur`].

use tch::{Kind, TchError, Tensor as Torch};

use super::code::Given;
use crate::graphs::process::Rounding;

/// Returns a row `[1, 3, h, w]`: OpenCV's `INTER_LINEAR` in the same integers, padded and normalized.
pub(super) fn bilinear_two_tap(given: &Given) -> Result<Torch, TchError> {
    let (rows, columns) = (given.get("rows")?, given.get("columns")?);
    let (height, width) = (length(rows, 1)?, length(columns, 1)?);
    // The four samples of each output, [2 rows, 2 columns, 3, h, w].
    let samples = given
        .get("image")?
        .f_index_select(0, &rows.f_reshape([-1])?)?
        .f_index_select(1, &columns.f_reshape([-1])?)?
        .f_view([2, height, 2, width, 3])?
        .f_permute([0, 2, 4, 1, 3])?
        .f_to_kind(Kind::Int)?;
    let (down_weights, across_weights) = (
        given.integers("row_weights")?,
        given.integers("column_weights")?,
    );
    let across = weighed(&samples, &across_weights, 1)?;
    let across = across.f_bitwise_right_shift_tensor_scalar(4)?;
    let parts = across.f_mul(&down_weights)?;
    let parts = parts.f_bitwise_right_shift_tensor_scalar(16)?;
    let quarters = parts.f_sum_dim_intlist(0, false, Kind::Int)?;
    let levels = quarters
        .f_add_scalar(2)?
        .f_bitwise_right_shift_tensor_scalar(2)?;
    // Padding has zero weight, so it is 0 at this point.
    let shown = down_weights
        .f_sum_dim_intlist(0, false, Kind::Int)?
        .f_mul(&across_weights.f_sum_dim_intlist(0, false, Kind::Int)?)?
        .f_view([1, height, width])?
        .f_gt(0)?;
    let pad = given.integers("pad")?;
    let levels = levels.f_squeeze_dim(0)?.f_where_self(&shown, &pad)?;
    normalized(given, &levels)
}

/// Returns the antialiased resize `[1, 3, h, w]`, padded and normalized.
///
/// Matrix products are the only operations here that a device can run in a lower precision, if it is configured to.
/// libtorch's default is f32.
pub(super) fn bilinear(given: &Given, rounding: Rounding) -> Result<Torch, TchError> {
    let pad = given.get("pad")?;
    // Padding has zero weight. Values are relative to the pad value, so 0 means the pad value.
    let planes = given
        .get("image")?
        .f_permute([2, 0, 1])?
        .f_to_kind(Kind::Float)?
        .f_sub(pad)?;
    let across = planes.f_matmul(given.get("columns")?)?;
    let across = if rounding == Rounding::EachPass {
        rounded(&across)?
    } else {
        across
    };
    let levels = given.get("rows")?.f_matmul(&across)?.f_add(pad)?;
    let levels = if rounding == Rounding::None {
        levels
    } else {
        rounded(&levels)?
    };
    normalized(given, &levels)
}

/// Returns a region's tiles `[m, t, n, t, 3]`, blurred.
pub(super) fn blur(given: &Given) -> Result<Torch, TchError> {
    let (rows, columns) = (given.get("rows")?, given.get("columns")?);
    let (m, n, read) = (length(rows, 0)?, length(columns, 0)?, length(rows, 1)?);
    let weights = given.get("weights")?;
    // The lines and columns within a tile come last: [3, m, n, read, read].
    let samples = given
        .get("image")?
        .f_index_select(1, &columns.f_reshape([-1])?)?
        .f_index_select(0, &rows.f_reshape([-1])?)?
        .f_view([m, read, n, read, 3])?
        .f_permute([4, 0, 2, 1, 3])?
        .f_to_kind(Kind::Float)?;
    let across = samples.f_matmul(weights)?;
    let levels = weights.f_transpose(0, 1)?.f_matmul(&across)?;
    rounded(&levels)?
        .f_to_kind(Kind::Uint8)?
        .f_permute([1, 3, 2, 4, 0])
}

/// Rounds to the nearest integer, halves up, as Pillow does.
fn rounded(a: &Torch) -> Result<Torch, TchError> {
    a.f_add_scalar(0.5)?.f_floor()
}

/// Planes `[3, h, w]` in the network's channel order, normalized, as a row `[1, 3, h, w]`.
fn normalized(given: &Given, planes: &Torch) -> Result<Torch, TchError> {
    planes
        .f_index_select(0, given.get("order")?)?
        .f_to_kind(Kind::Float)?
        .f_sub(given.get("mean")?)?
        .f_mul(given.get("scale")?)?
        .f_unsqueeze(0)
}

/// Returns the sum of samples times weights over an axis, in integers.
fn weighed(samples: &Torch, weights: &Torch, axis: i64) -> Result<Torch, TchError> {
    samples
        .f_mul(weights)?
        .f_sum_dim_intlist(axis, true, Kind::Int)
}

/// Returns the values before, at and after each index of an axis. `fold` maps an index beyond the ends back into the
/// range.
pub(super) fn beside(
    a: &Torch,
    axis: i64,
    fold: impl Fn(i64) -> i64,
) -> Result<[Torch; 3], TchError> {
    let size = length(a, axis)?;
    let moved = |by: i64| {
        let indices: Vec<i64> = (0..size).map(|at| fold(at + by)).collect();
        let indices = Torch::f_from_slice(&indices)?.f_to_device(a.device())?;
        a.f_index_select(axis, &indices)
    };
    Ok([moved(-1)?, a.shallow_clone(), moved(1)?])
}

/// Returns the length of an axis.
pub(super) fn length(a: &Torch, axis: i64) -> Result<i64, TchError> {
    usize::try_from(axis)
        .ok()
        .and_then(|axis| a.size().get(axis).copied())
        .ok_or_else(|| TchError::Shape(format!("{:?} has no axis {axis}", a.size())))
}
