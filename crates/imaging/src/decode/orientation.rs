//! The EXIF orientation: reads it, and applies it to pixels.

use image::RgbImage;
use image::imageops::{flip_horizontal_in_place, flip_vertical_in_place, rotate180_in_place};

use crate::orientation::quarter_turn;

/// Tag 0x0112, Orientation, in IFD 0.
const ORIENTATION: u16 = 0x0112;

/// Returns the orientation, 1..=8, in an EXIF block: a TIFF header and its IFD 0, with or without JPEG's prefix
/// `Exif\0\0`. Returns `None` if it is missing or malformed, because broken metadata must not fail an image.
pub(super) fn read(block: &[u8]) -> Option<u8> {
    let block = block.strip_prefix(b"Exif\0\0").unwrap_or(block);
    let reader = Reader {
        block,
        big_endian: match block.get(..4)? {
            b"II*\0" => false,
            b"MM\0*" => true,
            _ => return None,
        },
    };
    let ifd = reader.u32(4)? as usize;
    let entries = usize::from(reader.u16(ifd)?);
    let entry = (0..entries)
        .map(|i| ifd + 2 + 12 * i)
        .find(|at| reader.u16(*at) == Some(ORIENTATION))?;
    // The standard requires SHORT; some writers use BYTE or LONG.
    let value = match reader.u16(entry + 2)? {
        1 => u32::from(*block.get(entry + 8)?),
        3 => u32::from(reader.u16(entry + 8)?),
        4 => reader.u32(entry + 8)?,
        _ => return None,
    };
    u8::try_from(value).ok().filter(|v| (1..=8).contains(v))
}

struct Reader<'a> {
    block: &'a [u8],
    big_endian: bool,
}

impl Reader<'_> {
    /// Returns the bytes at an offset, the most significant first.
    fn bytes<const LEN: usize>(&self, at: usize) -> Option<[u8; LEN]> {
        let mut bytes = *self.block.get(at..)?.first_chunk()?;
        if !self.big_endian {
            bytes.reverse();
        }
        Some(bytes)
    }

    fn u16(&self, at: usize) -> Option<u16> {
        self.bytes(at).map(u16::from_be_bytes)
    }

    fn u32(&self, at: usize) -> Option<u32> {
        self.bytes(at).map(u32::from_be_bytes)
    }
}

/// Rotates and mirrors stored pixels so that they are upright. Values outside 2..=8 change nothing.
pub(super) fn upright(pixels: RgbImage, orientation: u8) -> RgbImage {
    // 5 and 7 are transpositions: a rotation by 90 degrees, then a reflection.
    let mut pixels = match orientation {
        5 | 6 => quarter_turn(&pixels, true),
        7 | 8 => quarter_turn(&pixels, false),
        _ => pixels,
    };
    match orientation {
        2 | 5 | 7 => flip_horizontal_in_place(&mut pixels),
        3 => rotate180_in_place(&mut pixels),
        4 => flip_vertical_in_place(&mut pixels),
        _ => {}
    }
    pixels
}

/// Returns whether the upright image has the stored width as its height.
pub(super) fn swaps_sides(orientation: u8) -> bool {
    matches!(orientation, 5..=8)
}

/// Returns whether a side of the upright image begins at the end of a stored side.
pub(super) fn mirrors(orientation: u8) -> bool {
    matches!(orientation, 2 | 3 | 4 | 6 | 7 | 8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use image::Rgb;

    fn block(big_endian: bool, kind: u16, value: u32) -> Vec<u8> {
        let number = |value: u32, length: usize| {
            let mut bytes = value.to_le_bytes()[..length].to_vec();
            if big_endian {
                bytes.reverse();
            }
            bytes
        };
        let (short, long) = (|v| number(v, 2), |v| number(v, 4));
        let mut block = if big_endian { b"MM\0*" } else { b"II*\0" }.to_vec();
        block.extend(long(8));
        block.extend(short(2));
        // An unrelated entry first: ImageWidth.
        block.extend([short(0x100), short(4), long(1), long(7)].concat());
        block.extend([short(ORIENTATION.into()), short(kind.into()), long(1)].concat());
        match kind {
            1 => block.extend([value as u8, 0, 0, 0]),
            3 => block.extend([short(value), vec![0, 0]].concat()),
            _ => block.extend(long(value)),
        }
        block
    }

    #[test]
    fn both_byte_orders_and_three_types_are_read() {
        for big_endian in [false, true] {
            for kind in [1, 3, 4] {
                assert_eq!(read(&block(big_endian, kind, 6)), Some(6), "{kind}");
            }
        }
        let prefixed = [&b"Exif\0\0"[..], &block(true, 3, 8)].concat();
        assert_eq!(read(&prefixed), Some(8));
    }

    #[test]
    fn malformed_blocks_have_no_orientation() {
        assert_eq!(read(&block(false, 3, 0)), None);
        assert_eq!(read(&block(false, 3, 9)), None);
        assert_eq!(read(&block(false, 4, 0x1_0006)), None);
        assert_eq!(read(&block(false, 2, 6)), None);
        let complete = block(false, 3, 6);
        for end in 0..complete.len() - 2 {
            assert_eq!(read(&complete[..end]), None, "{end}");
        }
        let mut far = complete;
        far[4..8].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(read(&far), None);
    }

    /// Stored and upright pixels from the table of EXIF 2.3.
    #[test]
    fn pixels_are_moved_as_in_the_standard() {
        let stored = |letters: [u8; 6]| {
            RgbImage::from_fn(3, 2, |x, y| Rgb([letters[(y * 3 + x) as usize]; 3]))
        };
        let rows = |image: RgbImage| -> Vec<String> {
            image
                .rows()
                .map(|row| row.map(|p| char::from(p[0])).collect())
                .collect()
        };
        let cases: [(u8, &[&str]); 9] = [
            (0, &["abc", "def"]),
            (1, &["abc", "def"]),
            (2, &["cba", "fed"]),
            (3, &["fed", "cba"]),
            (4, &["def", "abc"]),
            (5, &["ad", "be", "cf"]),
            (6, &["da", "eb", "fc"]),
            (7, &["fc", "eb", "da"]),
            (8, &["cf", "be", "ad"]),
        ];
        for (orientation, expected) in cases {
            assert_eq!(
                rows(upright(stored(*b"abcdef"), orientation)),
                expected,
                "orientation {orientation}"
            );
        }
    }
}
