//! The strips and tiles of a TIFF, and the work that they cause.
//!
//! A file may state that thousands of strips are the same bytes, that a tile is much larger than its image, or that a
//! strip is a JPEG image of any size. The decoder would decode all of that.

use std::io::Cursor;

use tiff::TiffError;
use tiff::decoder::{ChunkType, Decoder};
use tiff::tags::Tag;

use super::{DecodeError, Format};
use crate::decode::{LimitKind, Limits, size::within};

/// The values of Compression for no compression and for JPEG.
const UNCOMPRESSED: u16 = 1;
const JPEG: u16 = 7;

/// The value of PlanarConfiguration for one chunk for each channel.
const PLANAR: u16 = 2;

/// How often a compressed byte is read. In most files it belongs to one chunk; in some, equal tiles are the same bytes.
const MAX_READS: u64 = 16;

/// More than the bytes of all tables that a JPEG decoder can have at a time. They are read for each chunk.
const MAX_TABLES: usize = 4096;

/// The largest number of chunks. An image of 100 megapixels in the smallest tiles, which are 16 × 16, has fewer.
const MAX_CHUNKS: usize = 1 << 19;

/// The largest number of chunks that are JPEG images, because each of them has headers and tables.
const MAX_JPEG_CHUNKS: usize = 1 << 16;

/// The chunks of the first page.
pub(super) struct Chunks {
    /// The offset and the length of each chunk in the file.
    places: Vec<(u64, u64)>,
    /// The coded bits of one chunk, with those outside the image.
    bits: u64,
    compression: u16,
    jpeg_tables: Vec<u8>,
}

impl Chunks {
    /// Reads the directory of the first page.
    pub fn read(bytes: &[u8]) -> Result<Self, TiffError> {
        let mut file = Decoder::new(Cursor::new(bytes))?;
        let (_, image_height) = file.dimensions()?;
        let (width, mut height) = file.chunk_dimensions();
        let (offsets, lengths) = match file.get_chunk_type() {
            ChunkType::Strip => (Tag::StripOffsets, Tag::StripByteCounts),
            ChunkType::Tile => (Tag::TileOffsets, Tag::TileByteCounts),
        };
        if matches!(file.get_chunk_type(), ChunkType::Strip) {
            // One strip for the whole image often states more rows than there are.
            height = height.min(image_height);
        }
        let offsets = file.get_tag_u64_vec(offsets)?;
        let lengths = file.get_tag_u64_vec(lengths)?;
        let depth = file.find_tag_unsigned_vec::<u64>(Tag::BitsPerSample)?;
        let depth = depth.and_then(|all| all.first().copied()).unwrap_or(1);
        let planar = file.find_tag_unsigned::<u16>(Tag::PlanarConfiguration)? == Some(PLANAR);
        let samples = match file.find_tag_unsigned::<u64>(Tag::SamplesPerPixel)? {
            Some(samples) if !planar => samples,
            _ => 1,
        };
        let compression = file.find_tag_unsigned::<u16>(Tag::Compression)?;
        let jpeg_tables = match file.find_tag(Tag::JPEGTables)? {
            Some(tables) => tables.into_u8_vec()?,
            None => Vec::new(),
        };
        Ok(Self {
            places: offsets.into_iter().zip(lengths).collect(),
            bits: [width.into(), height.into(), depth, samples]
                .into_iter()
                .fold(1, u64::saturating_mul),
            compression: compression.unwrap_or(UNCOMPRESSED),
            jpeg_tables,
        })
    }

    /// Checks that decoding takes no more time and memory than an image inside the limits needs. `samples` is the size of
    /// the decoded image in bytes.
    pub fn check(&self, bytes: &[u8], samples: u64, limits: &Limits) -> Result<(), DecodeError> {
        let corrupt = |detail| Err(DecodeError::corrupt(Format::Tiff, detail));
        let is_jpeg = self.compression == JPEG;
        let most = if is_jpeg { MAX_JPEG_CHUNKS } else { MAX_CHUNKS };
        if self.places.len() > most {
            return corrupt("it has too many strips or tiles");
        }
        // Tiles reach beyond the edges of the image, so they may have twice the samples.
        let coded = self.bits.saturating_mul(self.places.len() as u64) / 8;
        let max = limits.decode_bytes().saturating_mul(2);
        within(LimitKind::Memory, max, coded)?;
        if self.compression == UNCOMPRESSED {
            return Ok(());
        }
        let read: u64 = self.parts(bytes).map(|part| part.len() as u64).sum();
        if read > MAX_READS.saturating_mul(bytes.len() as u64) {
            return corrupt("its strips or tiles overlap");
        }
        if is_jpeg {
            return self.check_jpeg(bytes, samples, limits);
        }
        Ok(())
    }

    /// Returns the bytes of each chunk, up to the end of the file.
    fn parts<'a>(&self, bytes: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
        self.places.iter().map(move |(offset, length)| {
            let place = |at: u64| usize::try_from(at).map_or(bytes.len(), |at| at.min(bytes.len()));
            &bytes[place(*offset)..place(offset.saturating_add(*length))]
        })
    }

    fn check_jpeg(&self, bytes: &[u8], samples: u64, limits: &Limits) -> Result<(), DecodeError> {
        if self.jpeg_tables.len() > MAX_TABLES {
            return Err(DecodeError::corrupt(
                Format::Tiff,
                "its JPEG tables are too long",
            ));
        }
        // The end marker of the tables and the start marker of a chunk are left out, and the rest is one JPEG file.
        let tables = self.jpeg_tables.len().saturating_sub(2);
        let mut pixels: u64 = 0;
        for part in self.parts(bytes) {
            let frame = if self.jpeg_tables.is_empty() {
                Frame::largest(part)
            } else {
                let rest = part.get(2..).unwrap_or_default();
                Frame::largest(&[&self.jpeg_tables[..tables], rest].concat())
            };
            pixels = pixels.saturating_add(frame.pixels);
            // The decoder has the samples of a chunk, and its coefficients of two bytes, beside the image.
            let memory = frame.pixels.saturating_mul(3 * frame.channels);
            limits.check_memory(memory.saturating_add(samples))?;
        }
        Ok(within(LimitKind::Pixels, limits.max_pixels, pixels)?)
    }
}

/// The size in a frame header of a JPEG image.
#[derive(Clone, Copy, Default)]
struct Frame {
    pixels: u64,
    channels: u64,
}

impl Frame {
    /// Returns the largest frame header that any decoder could find, also one inside metadata.
    fn largest(jpeg: &[u8]) -> Self {
        let mut largest = Self::default();
        let mut rest = jpeg;
        while let Some(at) = rest.iter().position(|byte| *byte == 0xFF) {
            rest = &rest[at + 1..];
            // The marker, the length of the segment, the precision, the height, the width, the number of channels.
            if let [0xC0..=0xCF, _, _, _, h1, h0, w1, w0, channels, ..] = *rest {
                let side = |high, low| u64::from(u16::from_be_bytes([high, low]));
                let frame = Self {
                    pixels: side(h1, h0) * side(w1, w0),
                    channels: channels.into(),
                };
                largest.pixels = largest.pixels.max(frame.pixels);
                largest.channels = largest.channels.max(frame.channels);
            }
        }
        largest
    }
}
