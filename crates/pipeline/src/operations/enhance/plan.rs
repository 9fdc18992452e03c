//! An enhancement with its options resolved.

use facescan_config::EnhancedFormat;
use facescan_imaging::{encode::OutputFormat, enhance::EnhanceOptions};

use crate::core::{
    memory,
    options::DetectOptions,
    run::RunOptions,
    work::{self, Size},
};

/// The memory for each pixel of the enhanced image, in bytes: the steps before and after, and the encoded result.
const ENHANCED_BYTES: u64 = 17;

/// The options of a request, with every default filled in and every range checked.
#[derive(Clone, Debug)]
pub struct EnhancePlan {
    /// The format of the enhanced image.
    pub format: EnhancedFormat,
    /// The quality of a JPEG.
    pub jpeg_quality: u8,
    /// The requested steps.
    pub options: EnhanceOptions,
    /// How to compare the identity of the best face. `None` if it is not compared.
    pub identity: Option<IdentityCheck>,
    /// The options of the run.
    pub run: RunOptions,
}

/// The options of the identity check.
#[derive(Clone, Debug)]
pub struct IdentityCheck {
    /// How to find the best face.
    pub detect: DetectOptions,
    /// The result is flagged if the cosine is below this threshold.
    pub threshold: f32,
}

impl EnhancePlan {
    /// Returns how the enhanced image is encoded.
    pub(super) fn output(&self) -> OutputFormat {
        match self.format {
            EnhancedFormat::Jpeg => OutputFormat::Jpeg {
                quality: self.jpeg_quality,
            },
            EnhancedFormat::Png => OutputFormat::Png,
            EnhancedFormat::Webp => OutputFormat::Webp,
            EnhancedFormat::Avif => OutputFormat::Avif,
        }
    }

    /// Returns the memory for an image of a size.
    pub(super) fn memory_for(&self, size: Size) -> u64 {
        let enhanced = work::pixels(work::upscaled(size, self.options.upscale));
        let each = ENHANCED_BYTES + self.output().surcharge();
        let search = match &self.identity {
            Some(check) => memory::detection(&check.detect),
            None => 0,
        };
        let enhancing = memory::samples(work::pixels(size)) + enhanced * each;
        memory::decoding(size).max(enhancing + search)
    }
}
