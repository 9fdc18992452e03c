//! Small ONNX graphs of our own: what the CPU does with its SIMD code, for any provider of ONNX Runtime, held to
//! the same answers.
//!
//! | graph | in | out | against the CPU |
//! |---|---|---|---|
//! | [`quality::graph`] | pictures `[N, 3, H, W]` | `[N, 4]` measures | 0.5 % or 0.01 |
//! | [`process::bilinear_point`] | one picture `[H, W, 3]` | `[1, 3, H', W']` | the same bits |
//! | [`process::bilinear()`] | one picture `[H, W, 3]` | `[1, 3, H', W']` | 1 level; `jax` 0.001 |
//! | [`process::blur()`] | one picture `[H, W, 3]` | a region's tiles `[m, t, n, t, 3]` | 1 level |
//! | [`enhance::graph`] | one picture `[H, W, 3]` | `[H', W', 3]` | the same bytes |
//!
//! Sizes are free in all of them. A provider that compiles for shapes (TensorRT, MIGraphX, CoreML) compiles again for
//! each new one.
//!
//! **Exactness.** Where the CPU computes in whole numbers, the graphs do so too, in f32 and below 2²⁴, where every sum
//! and product is exact in any order, fused or not. Divisions and truncations are offset so that no result lies next
//! to a whole number: a device whose division is off by a unit in the last place gives the same level.

mod builder;
pub mod enhance;
pub mod process;
pub mod quality;
pub mod session;

#[cfg(any(test, feature = "testing"))]
pub mod check;
