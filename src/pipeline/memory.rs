//! The memory that the work on an image needs, in bytes, known before it is decoded.

use super::{
    options::DetectOptions,
    work::{Size, pixels},
};

/// The samples of a pixel.
pub(super) const SAMPLES: u64 = 3;

/// The memory for each pixel of an image that is decoded: that of a 16-bit TIFF with transparency, the most.
const DECODED: u64 = 16;

/// The memory for each pixel of the detector's input: its floats, and what the layers of the default model keep at a time.
const DETECTED: u64 = 48;

/// Returns the memory of an image while it is decoded, and of plain work on it.
pub(super) fn decoding(size: Size) -> u64 {
    pixels(size).saturating_mul(DECODED)
}

/// Returns the memory of a search for faces. It does not depend on the image, because a small one is enlarged.
pub(super) fn detection(options: &DetectOptions) -> u64 {
    let side = |side| pixels((side, side)) * DETECTED;
    options.inputs().map(|input| side(input.side)).sum()
}

/// Returns the memory of an image's samples.
pub(super) fn samples(pixels: u64) -> u64 {
    pixels.saturating_mul(SAMPLES)
}
