//! The size that a file states in its header.

use std::io::Cursor;

use image::{ImageDecoder, codecs::tiff::TiffDecoder};

use super::{bmp, jpeg, png, webp};
use crate::format::{Format, Sniffed, sniff};

/// Returns the width and the height that a file states, in stored pixels, without decoding it. Returns `None` if its
/// header cannot be read. The decoder checks the size again.
pub fn stated_size(bytes: &[u8]) -> Option<(u32, u32)> {
    let Sniffed::Accepted(format) = sniff(bytes) else {
        return None;
    };
    match format {
        Format::Jpeg => jpeg::stated_size(bytes),
        Format::Png => png::stated_size(bytes),
        Format::Webp => webp::stated_size(bytes),
        Format::Gif => {
            let [w0, w1, h0, h1] = *bytes.get(6..)?.first_chunk()?;
            let side = |low, high| u32::from(u16::from_le_bytes([low, high]));
            Some((side(w0, w1), side(h0, h1)))
        }
        Format::Bmp => bmp::stated_size(bytes),
        Format::Tiff => Some(TiffDecoder::new(Cursor::new(bytes)).ok()?.dimensions()),
    }
}
