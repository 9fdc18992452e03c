//! A list of operations with its options resolved.

use std::sync::Arc;

use facescan_config::EnhancedFormat;
use facescan_imaging::{crop::Region, encode::OutputFormat};

use super::{format::ProcessedFormat, step::Step};
use crate::core::{
    budget::Budget,
    options::DetectOptions,
    run::RunOptions,
    work::{self, Size},
};

/// The options of a request, with every default filled in and every range checked.
#[derive(Clone, Debug)]
pub struct ProcessPlan {
    pub(super) steps: Arc<[Step]>,
    pub(super) format: ProcessedFormat,
    pub(super) jpeg_quality: u8,
    pub(super) detect: DetectOptions,
    /// The union of the masks. `None` if the request has no masks.
    pub(super) mask: Option<MaskUnion>,
    pub(super) max_pixels: u64,
    pub(super) budget: Budget,
    /// The options of the run.
    pub run: RunOptions,
}

/// The union of the masks.
#[derive(Clone, Copy, Debug)]
pub(super) struct MaskUnion {
    pub size: (u32, u32),
    /// The box around the masks. `None` if they cover nothing.
    pub region: Option<Region>,
}

impl ProcessPlan {
    /// Returns how the images are encoded. Unused by the format npy.
    pub(super) fn output(&self) -> OutputFormat {
        let format = self.format.encoded().unwrap_or(EnhancedFormat::Png);
        format.output(self.jpeg_quality)
    }

    /// Returns the price of an image of a size. An image that is cut counts in full, because the size of a face is not
    /// known yet.
    pub(super) fn work(&self, size: Size) -> u64 {
        let mut passes = work::DECODE.saturating_mul(work::pixels(size));
        let mut size = size;
        for step in self.steps.iter() {
            passes = passes.saturating_add(step.work(size));
            size = step.size_after(size);
        }
        passes.saturating_add(self.encoding(size))
    }

    /// Returns the price of encoding an image of a size.
    pub(super) fn encoding(&self, size: Size) -> u64 {
        let passes = match self.format {
            ProcessedFormat::Npy => work::PLAIN,
            _ => work::encode(self.output()),
        };
        passes.saturating_mul(work::pixels(size))
    }

    /// Returns a copy with a new byte budget, for another response.
    pub fn with_new_budget(&self) -> Self {
        Self {
            budget: Budget::default(),
            ..self.clone()
        }
    }
}
