//! The EXIF orientation.

/// Tag 0x0112, Orientation, in IFD 0.
const ORIENTATION: u16 = 0x0112;

/// Returns the orientation, 1..=8, in an EXIF block: a TIFF header and its IFD 0, with or without JPEG's prefix
/// `Exif\0\0`. Returns `None` if it is missing or malformed, because broken metadata must not fail an image.
pub(super) fn orientation(block: &[u8]) -> Option<u8> {
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

#[cfg(test)]
mod tests {
    use super::*;

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
                assert_eq!(orientation(&block(big_endian, kind, 6)), Some(6), "{kind}");
            }
        }
        let prefixed = [&b"Exif\0\0"[..], &block(true, 3, 8)].concat();
        assert_eq!(orientation(&prefixed), Some(8));
    }

    #[test]
    fn malformed_blocks_have_no_orientation() {
        assert_eq!(orientation(&block(false, 3, 0)), None);
        assert_eq!(orientation(&block(false, 3, 9)), None);
        assert_eq!(orientation(&block(false, 4, 0x1_0006)), None);
        assert_eq!(orientation(&block(false, 2, 6)), None);
        let complete = block(false, 3, 6);
        for end in 0..complete.len() - 2 {
            assert_eq!(orientation(&complete[..end]), None, "{end}");
        }
        let mut far = complete;
        far[4..8].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(orientation(&far), None);
    }
}
