//! The triangle filter: bilinear resampling that antialiases when it shrinks.
//!
//! # Definition
//! An axis of `n` source samples becomes `m` target samples; the scale is `s = n / m`. Target sample `i` is the
//! weighted mean of the source samples `x`. The weight of `x` is `max(0, 1 − |x + ½ − (i + ½)·s| / max(s, 1))`, and the
//! weights of a target sample are divided by their sum. The filter is separable: an image is filtered along its columns
//! and along its rows. [`mod@rounded`] rounds once, after both passes. [`mod@unrounded`] does not round.
//!
//! # Kernels
//! The vertical pass runs first, because samples with the same weight lie side by side in a row. Each kernel is one
//! module; its note states the math, the bound of its error, and the CPU features that it uses.
//!
//! | kernel | pass | numbers | chosen |
//! |---|---|---|---|
//! | [`prefix_sum`] | vertical | 16-bit fixed point | [`mod@rounded`] with AVX-512 VBMI and VNNI, scales 1 to 22, rows of 128 samples or more |
//! | [`dot_product`] | horizontal | 16-bit fixed point | after [`prefix_sum`], up to 40 taps |
//! | [`direct_sum`] | vertical | f32 | everything else |
//! | [`float_taps`] | horizontal | f32 | after [`direct_sum`] |
//!
//! `fast_image_resize` does not replace them: a file takes 4 % longer with its bytes, which round twice, and 70 % longer
//! with its floats. A file takes 9 % longer without fixed point. `docs/benchmarks/cpu.md` has the figures.
//!
//! The tests compare every kernel that the CPU can run with the definition in f64.

mod coefficients;
mod direct_sum;
#[cfg(target_arch = "x86_64")]
mod dot_product;
#[cfg(target_arch = "x86_64")]
mod fixed_point;
mod float_taps;
#[cfg(target_arch = "x86_64")]
mod prefix_sum;
mod rounded;
mod unrounded;

pub(crate) use rounded::rounded;
pub(crate) use unrounded::unrounded;

/// Samples per pixel of a source row.
const CHANNELS: usize = super::RGB;

/// Pixels that a horizontal kernel writes at a time.
const BLOCK: usize = 16;

/// Stands in for a kernel of [`mod@fixed_point`], with its arguments, on the CPUs where no size chooses it.
#[cfg(target_arch = "x86_64")]
fn not_chosen<T>(_: T) {
    unreachable!("fixed point is chosen only on CPUs with AVX-512");
}

/// Four pixels of a row in levels: red, green, blue and an unused value.
pub(crate) type Quad = [f32; 16];

/// A value that starts at a cache line. A load that crosses two cache lines takes twice as long.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Aligned<T>(T);

/// Returns the kernel of the filter, before it is widened.
pub(super) fn triangle(x: f64) -> f64 {
    (1.0 - x.abs()).max(0.0)
}

#[cfg(test)]
mod tests;
