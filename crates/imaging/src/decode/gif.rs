//! GIF: the first frame on its logical canvas.

use std::io::Cursor;

use image::codecs::gif::GifDecoder;

use super::{DecodeError, DecodeOptions, Stored, read};
use crate::format::Format;

const EXTENSION: u8 = 0x21;
const IMAGE: u8 = 0x2C;
const TRAILER: u8 = 0x3B;

pub(super) fn decode(bytes: &[u8], options: &DecodeOptions) -> Result<Stored, DecodeError> {
    let (width, height) = first_frame(bytes)?;
    // The frame may be larger than the canvas, and the decoder allocates all of it.
    options.limits.check_size(width, height)?;
    let pixels = read(GifDecoder::new(Cursor::new(bytes)), Format::Gif, options)?;
    Ok(Stored::full(pixels, 1))
}

/// Reads the blocks up to the end of the first frame's data and returns its size.
fn first_frame(bytes: &[u8]) -> Result<(u32, u32), DecodeError> {
    let truncated = || DecodeError::truncated(Format::Gif);
    let mut blocks = Blocks { bytes, at: 6 };
    let screen = blocks.take(7).ok_or_else(truncated)?;
    blocks.color_table(screen[4]).ok_or_else(truncated)?;
    loop {
        match blocks.take(1).ok_or_else(truncated)?[0] {
            EXTENSION => {
                blocks.take(1).ok_or_else(truncated)?;
                blocks.sub_blocks().ok_or_else(truncated)?;
            }
            IMAGE => {
                let frame = blocks.take(9).ok_or_else(truncated)?;
                blocks.color_table(frame[8]).ok_or_else(truncated)?;
                blocks.take(1).ok_or_else(truncated)?;
                blocks.sub_blocks().ok_or_else(truncated)?;
                let side = |at: usize| u32::from(u16::from_le_bytes([frame[at], frame[at + 1]]));
                return Ok((side(4), side(6)));
            }
            TRAILER => return Err(DecodeError::corrupt(Format::Gif, "it has no frame")),
            _ => {
                let detail = "it has a block of an unknown kind";
                return Err(DecodeError::corrupt(Format::Gif, detail));
            }
        }
    }
}

struct Blocks<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Blocks<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let taken = self.bytes.get(self.at..self.at + count)?;
        self.at += count;
        Some(taken)
    }

    /// Skips the color table, if the flags announce one.
    fn color_table(&mut self, flags: u8) -> Option<()> {
        if flags & 0x80 != 0 {
            self.take(3 << ((flags & 7) + 1))?;
        }
        Some(())
    }

    fn sub_blocks(&mut self) -> Option<()> {
        loop {
            let length = self.take(1)?[0];
            if length == 0 {
                return Some(());
            }
            self.take(length.into())?;
        }
    }
}
