//! Pixels: decoding, geometry, resizing, warping, quality, enhancement and encoding. No inference, no I/O.

pub mod blur;
pub mod border;
pub mod checkpoint;
pub mod crop;
pub mod decode;
pub mod draw;
pub mod encode;
pub mod enhance;
pub mod format;
pub mod geometry;
pub mod luma;
pub mod memory;
pub mod npy;
pub mod orientation;
pub mod phash;
pub mod precision;
mod prefetch;
pub mod preprocess;
pub mod quality;
pub mod resize;
pub mod tensor;
pub mod warp;

#[cfg(any(test, feature = "testing"))]
pub mod synthetic;
