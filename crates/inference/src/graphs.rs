//! Small ONNX graphs that are built here: the image operations of the CPU for any device, tested against the CPU's results.
//!
//! | graph | in | out | against the CPU |
//! |---|---|---|---|
//! | [`quality::graph`] | images `[N, 3, H, W]` | `[N, 4]` measures | 0.5 % or 0.01 |
//! | [`process::bilinear_two_tap`] | one image `[H, W, 3]` | `[1, 3, H', W']` | the same bits |
//! | [`process::bilinear()`] | one image `[H, W, 3]` | `[1, 3, H', W']` | 1 level; `jax` 0.001 |
//! | [`process::blur()`] | one image `[H, W, 3]` | a region's tiles `[m, t, n, t, 3]` | 1 level |
//! | [`enhance::graph`] | one image `[H, W, 3]` | `[H', W', 3]` | the same bytes |
//!
//! All sizes are dynamic. A provider that compiles for fixed shapes (TensorRT, MIGraphX, CoreML) compiles again for
//! each new shape.
//!
//! **Exactness.** If the CPU computes with integers, the graphs do so in f32, below 2²⁴, where every sum and product is
//! exact in any order, fused or not. Divisions and truncations are offset so that no result lies close to an integer. A
//! device whose division is off by a unit in the last place then returns the same level.

pub(crate) mod builder;
pub mod enhance;
pub mod process;
pub mod quality;
pub mod session;

#[cfg(any(test, feature = "testing"))]
pub mod check;

use session::GraphModel;

/// An image operation that devices run.
///
/// This is the one list of them. Code that depends on the operation matches on it without a wildcard arm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageGraph {
    /// [`quality::graph`].
    Quality,
    /// [`enhance::graph`].
    Enhance(enhance::Steps),
    /// [`process::bilinear_two_tap`].
    BilinearTwoTap,
    /// [`process::bilinear()`].
    Bilinear(process::Rounding),
    /// [`process::blur()`].
    Blur,
}

impl ImageGraph {
    /// Returns the name of the graph in errors and logs, and the key of its session.
    pub fn name(self) -> &'static str {
        match self {
            Self::Quality => "quality",
            Self::Enhance(steps) => steps.graph_name(),
            Self::BilinearTwoTap => "bilinear_two_tap",
            Self::Bilinear(process::Rounding::None) => "bilinear_jax",
            Self::Bilinear(process::Rounding::Once) => "bilinear_torchvision",
            Self::Bilinear(process::Rounding::EachPass) => "bilinear_pil",
            Self::Blur => "gaussian_blur",
        }
    }

    /// Returns the graph.
    pub fn model(self) -> GraphModel {
        match self {
            Self::Quality => quality::graph(),
            Self::Enhance(steps) => enhance::graph(steps),
            Self::BilinearTwoTap => process::bilinear_two_tap(),
            Self::Bilinear(rounding) => process::bilinear(rounding),
            Self::Blur => process::blur(),
        }
    }
}
