//! The memory that the work on an image needs, in bytes, known before it is decoded, and the limit on the size of one response.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use facescan_imaging::encode::OutputFormat;

use super::{
    error::PipelineError,
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

/// The maximum number of bytes of tensors and images in one response.
const MAX_BYTES: usize = 256 << 20;

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

/// Returns the memory of the files of images of `pixels` pixels in all, and of the work of their encoder.
pub(crate) fn encoding(pixels: u64, output: OutputFormat) -> u64 {
    result(samples(pixels)).saturating_add(output.encoder_memory(pixels))
}

/// Returns the memory of an image's samples.
pub(crate) fn samples(pixels: u64) -> u64 {
    pixels.saturating_mul(SAMPLES)
}

/// The bytes that are left for one response. Clones share them. Without this limit, a small request could ask for many
/// large rows.
#[derive(Clone, Debug)]
pub struct Budget(Arc<AtomicUsize>);

impl Default for Budget {
    fn default() -> Self {
        Self(Arc::new(AtomicUsize::new(MAX_BYTES)))
    }
}

impl Budget {
    /// Reserves bytes. Call this before the memory is allocated.
    ///
    /// # Errors
    /// [`PipelineError::ResponseTooLarge`] if fewer bytes are left.
    pub fn take(&self, bytes: u64) -> Result<(), PipelineError> {
        let taken = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                left.checked_sub(usize::try_from(bytes).ok()?)
            });
        taken
            .map(drop)
            .map_err(|_| PipelineError::ResponseTooLarge { limit: MAX_BYTES })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_share_the_bytes() {
        let budget = Budget::default();
        let other = budget.clone();
        let most = MAX_BYTES as u64;
        budget.take(most - 10).unwrap();
        assert!(other.take(11).is_err());
        other.take(10).unwrap();
        assert!(budget.take(1).is_err());
        assert!(budget.take(u64::MAX).is_err());
    }
}
