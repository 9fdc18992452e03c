//! Which embeddings may be compared.

use super::{ModelSpec, digest};
use crate::imaging::tensor::ChannelOrder;

/// The template faces are aligned to: the five ArcFace points on a 112×112 crop, by a similarity transform.
pub const ALIGNMENT: &str = "arcface-112-5pt";

/// Version of everything between a decoded picture and the embedder's input. It goes up when a change there moves
/// embeddings by more than rounding.
pub const PREPROCESSING_VERSION: u32 = 1;

impl ModelSpec {
    /// The embedding contract: 32 hex digits that are equal exactly when vectors may be compared.
    ///
    /// It is the first 16 bytes of the sha256 of the lines below, each ended by a line feed. Stored vectors carry
    /// it, so neither the lines nor their order may change; what they say may.
    ///
    /// ```text
    /// facescan-embedding-1
    /// model <sha256 of the model file>
    /// input <width>x<height>
    /// channels <rgb|bgr>
    /// mean <three f32 as 8 hex digits of their bits, big end first>
    /// scale <the same>
    /// alignment <template>
    /// preprocessing <version>
    /// ```
    pub fn contract(&self) -> String {
        let bits = |[a, b, c]: [f32; 3]| {
            let [a, b, c] = [a.to_bits(), b.to_bits(), c.to_bits()];
            format!("{a:08x} {b:08x} {c:08x}")
        };
        let channels = match self.input.channel_order {
            ChannelOrder::Rgb => "rgb",
            ChannelOrder::Bgr => "bgr",
        };
        let text = format!(
            "facescan-embedding-1\nmodel {}\ninput {}x{}\nchannels {channels}\nmean {}\nscale {}\n\
             alignment {ALIGNMENT}\npreprocessing {PREPROCESSING_VERSION}\n",
            self.sha256,
            self.input.width,
            self.input.height,
            bits(self.input.mean),
            bits(self.input.scale),
        );
        digest::sha256(text.as_bytes())[..32].to_owned()
    }
}
