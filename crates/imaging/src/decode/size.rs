//! The size that a file states in its header.

use std::io::Cursor;

use image::{ImageDecoder, codecs::tiff::TiffDecoder};

use super::{bmp, png, webp};
use crate::format::{Format, Sniffed, sniff};

/// Returns the width and the height that a file states, in stored pixels, without decoding it. Returns `None` if its
/// header cannot be read. The decoder checks the size again.
pub fn stated_size(bytes: &[u8]) -> Option<(u32, u32)> {
    let Sniffed::Accepted(format) = sniff(bytes) else {
        return None;
    };
    match format {
        Format::Jpeg => of_jpeg(bytes),
        Format::Png => png::stated_size(bytes),
        Format::Webp => webp::stated_size(bytes),
        Format::Gif => {
            let side = |at: usize| {
                Some(u32::from(u16::from_le_bytes([
                    *bytes.get(at)?,
                    *bytes.get(at + 1)?,
                ])))
            };
            Some((side(6)?, side(8)?))
        }
        Format::Bmp => bmp::stated_size(bytes),
        Format::Tiff => Some(TiffDecoder::new(Cursor::new(bytes)).ok()?.dimensions()),
    }
}

/// Reads the markers up to the first frame header.
fn of_jpeg(bytes: &[u8]) -> Option<(u32, u32)> {
    let mut rest = bytes.get(2..)?;
    loop {
        let at = rest.iter().position(|byte| *byte == 0xFF)?;
        let marker = rest[at..].iter().position(|byte| *byte != 0xFF)? + at;
        let kind = rest[marker];
        rest = &rest[marker + 1..];
        match kind {
            // Tables and arithmetic coding have numbers between those of the frames.
            0xC4 | 0xC8 | 0xCC => {}
            0xC0..=0xCF => {
                let side = |at: usize| {
                    Some(u32::from(u16::from_be_bytes([
                        *rest.get(at)?,
                        *rest.get(at + 1)?,
                    ])))
                };
                return Some((side(5)?, side(3)?));
            }
            // Markers without a segment.
            0x00 | 0x01 | 0xD0..=0xD8 => continue,
            // A scan or the end, before any frame.
            0xD9 | 0xDA => return None,
            _ => {}
        }
        let length = usize::from(u16::from_be_bytes(*rest.first_chunk()?));
        rest = rest.get(length..)?;
    }
}
