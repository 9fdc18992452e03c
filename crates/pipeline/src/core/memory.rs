//! The memory that the work on an image needs, in bytes, known before it is decoded.

use super::{
    budget::MAX_BYTES,
    options::DetectOptions,
    work::{Size, pixels},
};

/// The samples of a pixel.
pub(crate) const SAMPLES: u64 = 3;

/// The memory for each pixel of an image that is decoded: that of a 16-bit TIFF with transparency, the most.
const DECODED: u64 = 16;

/// The memory for each pixel of the detector's input: its floats, and the samples that they are made of. What a run takes beside
/// them does not count, because few runs are made at a time, and one of large inputs.
const DETECTED: u64 = 16;

/// Returns the memory of an image while it is decoded, and of plain work on it.
pub(crate) fn decoding(size: Size) -> u64 {
    pixels(size).saturating_mul(DECODED)
}

/// Returns the memory of a search for faces. It does not depend on the image, because a small one is enlarged.
pub(crate) fn detection(options: &DetectOptions) -> u64 {
    let side = |side| pixels((side, side)) * DETECTED;
    options.inputs().map(|input| side(input.side)).sum()
}

/// Returns the memory of a result and of the work that makes it. The budget of a response refuses more before it is allocated.
pub(crate) fn result(bytes: u64) -> u64 {
    bytes.min(MAX_BYTES as u64)
}

/// Returns the memory of an image's samples.
pub(crate) fn samples(pixels: u64) -> u64 {
    pixels.saturating_mul(SAMPLES)
}
