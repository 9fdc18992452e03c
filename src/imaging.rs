//! Pixels: decoding, geometry, resizing, warping, quality, enhancement and encoding. No inference, no I/O.

pub mod geometry;
