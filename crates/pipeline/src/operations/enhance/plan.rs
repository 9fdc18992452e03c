//! An enhancement with its options resolved.

use facescan_config::EnhancedFormat;
use facescan_imaging::{encode::OutputFormat, enhance::EnhanceOptions};

use crate::core::{options::DetectOptions, run::RunOptions};

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
        self.format.output(self.jpeg_quality)
    }
}
