//! Small ONNX graphs that are built here: the image operations of the CPU for any device, tested against the CPU's results.
//!
//! | graph | in | out | against the CPU |
//! |---|---|---|---|
//! | [`ImageGraph::Quality`] | images `[N, 3, H, W]` | `[N, 4]` measures | 0.5 % or 0.01 |
//! | [`ImageGraph::BilinearTwoTap`] | one image `[H, W, 3]` | `[1, 3, H', W']` | the same bits |
//! | [`ImageGraph::Bilinear`] | one image `[H, W, 3]` | `[1, 3, H', W']` | 1 level; `jax` 0.001 |
//! | [`ImageGraph::Blur`] | one image `[H, W, 3]` | a region's tiles `[m, t, n, t, 3]` | 1 level |
//! | [`ImageGraph::Enhance`] | one image `[H, W, 3]` | `[H', W', 3]` | the same bytes |
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

use builder::Builder;
use session::GraphModel;

/// An image operation that devices run.
///
/// This is the one list of them. Code that depends on the operation matches on it without a wildcard arm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageGraph {
    /// Measures images. The input is `images` `[N, 3, H, W]` f32, RGB, 0..=255, with no dimension of 0. The output is
    /// `measures` `[N, 4]` f32: blur score, brightness, contrast and sharpness, in the units of
    /// [`facescan_imaging::quality::ImageQuality`].
    ///
    /// No operation in it has a reduced precision mode on any provider.
    Quality,
    /// Finishes an enhancement. The inputs are `image` `[H, W, 3]` u8, RGB, and those that [`enhance::Plan::inputs`]
    /// adds. The output is `enhanced` `[h, w, 3]` u8, RGB.
    ///
    /// The output equals that of [`DeviceSteps::apply`](facescan_imaging::enhance::DeviceSteps::apply) byte for byte for results of up to 16
    /// megapixels with no side over 16384. For larger results, the mean luma may differ by rounding.
    Enhance(enhance::Steps),
    /// Resizes for the detectors' input and for the `opencv` profile. The inputs are `image` `[H, W, 3]` u8, RGB, and
    /// those that [`process::TwoTapPlan::inputs`] adds. The output is `row` `[1, 3, h, w]` f32. It equals bit for bit
    /// what [`letterbox_into`](facescan_imaging::tensor::letterbox_into) writes on the CPU: OpenCV's `INTER_LINEAR` in
    /// its fixed point, and the pad value in the padding. Both are normalized.
    BilinearTwoTap,
    /// Resizes with antialiasing. The inputs are `image` `[H, W, 3]` u8, RGB, and those that
    /// [`process::BilinearPlan::inputs`] adds. The output is `row` `[1, 3, h, w]` f32: the weighted means of the widened
    /// triangle, and the pad value in the padding. Both are normalized.
    Bilinear(process::Rounding),
    /// Blurs a region, tile by tile. The inputs are `image` `[H, W, 3]` u8, and those that [`process::BlurPlan::inputs`]
    /// adds. The output is `tiles` `[m, t, n, t, 3]` u8: m by n tiles of side t. Their samples are in the order of an
    /// image of m·t lines. Levels differ from the CPU's by at most one.
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
        Builder::write(self.name(), |b| match self {
            Self::Quality => quality::describe(b),
            Self::Enhance(steps) => enhance::describe(b, steps),
            Self::BilinearTwoTap => process::two_tap::describe(b),
            Self::Bilinear(rounding) => process::bilinear::describe(b, rounding),
            Self::Blur => process::blur::describe(b),
        })
    }
}
