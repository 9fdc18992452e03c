//! WebP: lossy, lossless, with alpha. For an animation, the decoder returns the first frame on its canvas.

pub(super) mod codes;

use std::borrow::Cow;
use std::io::Cursor;

use image::codecs::webp::WebPDecoder;
use image::{ImageDecoder, Rgba};

use super::{DecodeError, DecodeOptions, Stored, orientation, read};
use crate::format::Format;

/// The offset of the flags of VP8X, and the two flags that announce metadata.
const FLAGS_AT: usize = 20;
const EXIF_FLAG: u8 = 0x08;
const XMP_FLAG: u8 = 0x04;

pub(super) fn decode(bytes: &[u8], options: &DecodeOptions) -> Result<Stored, DecodeError> {
    let limits = &options.limits;
    let file = File::walk(bytes)?;
    // Each frame states its own size, and the decoder allocates that size before it compares it with the canvas.
    let (width, height) = file.largest_frame;
    limits.check_size(width, height)?;
    check_codes(bytes)?;
    let mut decoder = WebPDecoder::new(Cursor::new(file.repaired(bytes)))
        .map_err(|error| DecodeError::from_image(Format::Webp, limits, &error))?;
    let canvas = decoder.dimensions();
    limits.check_size(canvas.0, canvas.1)?;
    if width > canvas.0 || height > canvas.1 {
        let detail = "a frame is larger than its canvas";
        return Err(DecodeError::corrupt(Format::Webp, detail));
    }
    if decoder.has_animation() {
        // Where the first frame does not cover the canvas, the canvas is transparent, or the background if there is no
        // alpha.
        let [r, g, b] = options.background;
        let color = if decoder.color_type().has_alpha() {
            Rgba([0; 4])
        } else {
            Rgba([r, g, b, 255])
        };
        decoder
            .set_background_color(color)
            .map_err(|error| DecodeError::from_image(Format::Webp, limits, &error))?;
    }
    let pixels = read(Ok(decoder), Format::Webp, options)?;
    Ok(Stored::full(pixels, file.orientation.unwrap_or(1)))
}

/// Returns the size of the canvas, or of the largest frame if that is larger.
pub(super) fn stated_size(bytes: &[u8]) -> Option<(u32, u32)> {
    let (width, height) = File::walk(bytes).ok()?.largest_frame;
    let is_extended = bytes.get(12..16) == Some(b"VP8X");
    let canvas = size_at(bytes, 24)
        .filter(|_| is_extended)
        .unwrap_or_default();
    Some((width.max(canvas.0), height.max(canvas.1)))
}

/// Checks the tables of prefix codes that the decoder makes. It reads the first chunk of each kind.
fn check_codes(bytes: &[u8]) -> Result<(), DecodeError> {
    let chunks = bytes.get(12..).unwrap_or_default();
    let first = |chunks, kind: &[u8; 4]| Chunks::new(chunks).find(|chunk| chunk.kind == kind);
    let frame = first(chunks, b"ANMF").and_then(|frame| frame.data.get(16..));
    let canvas = first(chunks, b"VP8X").and_then(|header| size_at(header.data, 4));
    let frame_size = first(chunks, b"ANMF").and_then(|frame| size_at(frame.data, 6));
    let parts = [(Some(chunks), canvas), (frame, frame_size)];
    for (chunks, size) in parts
        .into_iter()
        .filter_map(|(chunks, size)| Some((chunks?, size)))
    {
        let image = first(chunks, b"VP8L").and_then(|image| codes::groups_of_image(image.data));
        let alpha = first(chunks, b"ALPH")
            .zip(size)
            .and_then(|(alpha, (width, height))| codes::groups_of_alpha(alpha.data, width, height));
        if image.max(alpha) > Some(codes::MAX_GROUPS) {
            let detail = "it has too many groups of codes";
            return Err(DecodeError::corrupt(Format::Webp, detail));
        }
    }
    Ok(())
}

/// Reads a width and a height of 24 bits each, which are stored without 1.
fn size_at(data: &[u8], at: usize) -> Option<(u32, u32)> {
    let [w0, w1, w2, h0, h1, h2] = *data.get(at..at + 6)? else {
        return None;
    };
    let side = |bytes| u32::from_le_bytes(bytes) + 1;
    Some((side([w0, w1, w2, 0]), side([h0, h1, h2, 0])))
}

/// The content of the chunks.
struct File {
    /// The largest width and the largest height of any frame, in any chunk that the decoder may read.
    largest_frame: (u32, u32),
    orientation: Option<u8>,
    has_exif: bool,
    has_xmp: bool,
}

impl File {
    fn walk(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut first_frame = None;
        let mut file = Self {
            largest_frame: (0, 0),
            orientation: None,
            has_exif: false,
            has_xmp: false,
        };
        for chunk in Chunks::new(bytes.get(12..).unwrap_or_default()) {
            match chunk.kind {
                b"VP8 " | b"VP8L" | b"ANMF" => {
                    let (width, height) = chunk.size().unwrap_or_default();
                    let (most_w, most_h) = file.largest_frame;
                    file.largest_frame = (most_w.max(width), most_h.max(height));
                    first_frame.get_or_insert(chunk);
                }
                b"EXIF" if chunk.is_complete() => {
                    file.has_exif = true;
                    file.orientation = orientation::read(chunk.data);
                }
                b"XMP " if chunk.is_complete() => file.has_xmp = true,
                _ => {}
            }
        }
        let Some(frame) = first_frame else {
            return Err(missing_frame(bytes));
        };
        if !frame.is_complete() {
            return Err(DecodeError::truncated(Format::Webp));
        }
        if frame.size().is_none() {
            let detail = "its frame has no valid header";
            return Err(DecodeError::corrupt(Format::Webp, detail));
        }
        Ok(file)
    }

    /// Returns the file without the flags of missing metadata. The decoder refuses such files; browsers do not.
    fn repaired<'a>(&self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        let mut broken = 0;
        if !self.has_exif {
            broken |= EXIF_FLAG;
        }
        if !self.has_xmp {
            broken |= XMP_FLAG;
        }
        let extended = bytes.get(12..16) == Some(b"VP8X");
        match bytes.get(FLAGS_AT) {
            Some(flags) if extended && flags & broken != 0 => {
                let mut copy = bytes.to_vec();
                copy[FLAGS_AT] &= !broken;
                Cow::Owned(copy)
            }
            _ => Cow::Borrowed(bytes),
        }
    }
}

fn missing_frame(bytes: &[u8]) -> DecodeError {
    let stated = bytes.get(4..8).and_then(|b| b.try_into().ok());
    let stated = stated.map_or(0, u32::from_le_bytes) as usize;
    if stated.saturating_add(8) > bytes.len() {
        DecodeError::truncated(Format::Webp)
    } else {
        DecodeError::corrupt(Format::Webp, "it has no frame")
    }
}

/// A RIFF chunk. `data` is shorter than `length` when the file is truncated.
struct Chunk<'a> {
    kind: &'a [u8; 4],
    length: usize,
    data: &'a [u8],
}

impl Chunk<'_> {
    fn is_complete(&self) -> bool {
        self.data.len() == self.length
    }

    /// Returns the size in the header of the bitstream.
    fn size(&self) -> Option<(u32, u32)> {
        match self.kind {
            b"VP8 " => {
                let side = |at: usize| {
                    let bytes = self.data.get(at..at + 2)?.try_into().ok()?;
                    Some(u32::from(u16::from_le_bytes(bytes) & 0x3FFF))
                };
                Some((side(6)?, side(8)?))
            }
            b"VP8L" => {
                let bits = u32::from_le_bytes(self.data.get(1..5)?.try_into().ok()?);
                Some(((bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1))
            }
            // An animation frame: sixteen bytes of header, then chunks.
            _ => Chunks::new(self.data.get(16..)?)
                .find(|c| matches!(c.kind, b"VP8 " | b"VP8L"))?
                .size(),
        }
    }
}

struct Chunks<'a> {
    rest: &'a [u8],
}

impl<'a> Chunks<'a> {
    fn new(rest: &'a [u8]) -> Self {
        Self { rest }
    }
}

impl<'a> Iterator for Chunks<'a> {
    type Item = Chunk<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        let (kind, tail) = self.rest.split_first_chunk::<4>()?;
        let (length, tail) = tail.split_first_chunk::<4>()?;
        let length = u32::from_le_bytes(*length) as usize;
        let data = &tail[..length.min(tail.len())];
        // Chunks are padded to even lengths.
        self.rest = tail.get(length + length % 2..).unwrap_or_default();
        Some(Chunk { kind, length, data })
    }
}
