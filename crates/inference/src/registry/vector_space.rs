//! The vector space: it decides which embeddings can be compared.

use super::{ModelSpec, Pooling, RoleInput, digest};
use facescan_imaging::{preprocess::Preprocess, tensor::ChannelOrder};

/// The template that faces are aligned to: the five ArcFace points on a 112×112 crop, by a similarity transform.
pub const ALIGNMENT: &str = "arcface-112-5pt";

/// Version of the processing between a decoded image and the embedder's input. It increases when a change there moves
/// embeddings by more than rounding.
pub const PREPROCESSING_VERSION: u32 = 1;

impl ModelSpec {
    /// Returns the vector space: 32 hex digits that are equal exactly when embeddings can be compared.
    ///
    /// It is the first 16 bytes of the sha256 of the lines below, each terminated by a line feed. Stored embeddings
    /// carry it, so neither the lines nor their order may change; their values may.
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
    ///
    /// For encoders of whole images, the lines after `scale` are different:
    ///
    /// ```text
    /// picture <resize profile> <resize mode> <pad: three bytes as hex digits>
    /// output <name, or - for the only one> <pooling, or ->
    /// preprocessing <version>
    /// ```
    pub fn vector_space(&self) -> String {
        let bits = |[a, b, c]: [f32; 3]| {
            let [a, b, c] = [a.to_bits(), b.to_bits(), c.to_bits()];
            format!("{a:08x} {b:08x} {c:08x}")
        };
        let channels = match self.input.channel_order {
            ChannelOrder::Rgb => "rgb",
            ChannelOrder::Bgr => "bgr",
        };
        let taken = match self.role.input() {
            RoleInput::Image => self.image_taken(),
            RoleInput::Letterbox | RoleInput::AlignedCrop => format!("alignment {ALIGNMENT}"),
        };
        let text = format!(
            "facescan-embedding-1\nmodel {}\ninput {}x{}\nchannels {channels}\nmean {}\nscale {}\n\
             {taken}\npreprocessing {PREPROCESSING_VERSION}\n",
            self.sha256,
            self.input.width,
            self.input.height,
            bits(self.input.mean),
            bits(self.input.scale),
        );
        digest::sha256(text.as_bytes())[..32].to_owned()
    }

    fn image_taken(&self) -> String {
        let Preprocess {
            profile, mode, pad, ..
        } = self.input.preprocess();
        let [r, g, b] = pad;
        format!(
            "picture {} {} {r:02x}{g:02x}{b:02x}\noutput {} {}",
            profile.name(),
            mode.name(),
            self.output.as_deref().unwrap_or("-"),
            self.pooling.map_or("-", Pooling::name),
        )
    }
}
