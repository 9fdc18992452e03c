//! Reads the markers of a JPEG file: its size, its orientation, its scans, and whether it has an end marker.

use std::{borrow::Cow, ops::Range};

use memchr::memchr;

use super::super::{DecodeError, orientation};
use super::TRUNCATED;
use crate::format::Format;

/// The place of the color transform in an Adobe segment.
const ADOBE_TRANSFORM: usize = 11;

/// The content of the markers. Scan data is skipped, not decoded.
pub(super) struct Walk {
    pub width: u16,
    pub height: u16,
    /// The EXIF orientation, 1..=8.
    pub orientation: Option<u8>,
    /// Whether there is an end-of-image marker.
    pub ended: bool,
    /// The number of scans.
    pub scans: u32,
    /// The color transform that an Adobe segment names. 0 is none.
    adobe_transform: Option<u8>,
    /// Bytes between segments that belong to no segment. They affect no pixel, but the strict decoder refuses them.
    junk: Vec<Range<usize>>,
    components: Vec<Component>,
}

struct Component {
    id: u8,
    /// The lowest bit of each coefficient in any scan, in zigzag order. It is `u8::MAX` before the first scan.
    lowest_bit: [u8; 64],
}

impl Walk {
    /// Reads `bytes`, which start with a JPEG signature, up to the first end marker or the end of the file.
    pub fn over(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut walk = Self {
            width: 0,
            height: 0,
            orientation: None,
            ended: false,
            scans: 0,
            adobe_transform: None,
            junk: Vec::new(),
            components: Vec::new(),
        };
        let mut at = 2;
        while let Some((marker, skipped)) = next_marker(bytes, &mut at) {
            let is_fill = bytes[skipped.clone()].iter().all(|byte| *byte == 0xFF);
            // Other bytes after a scan are the rest of a scan that was split by damage.
            if walk.scans > 0 && !is_fill {
                return Err(DecodeError::corrupt(
                    Format::Jpeg,
                    "its scan data is interrupted",
                ));
            }
            if !skipped.is_empty() {
                walk.junk.push(skipped);
            }
            match marker {
                0xD9 => {
                    walk.ended = true;
                    break;
                }
                // Restart markers and similar markers have no segment.
                0x01 | 0xD0..=0xD8 => continue,
                _ => {}
            }
            let Some(segment) = segment(bytes, &mut at)? else {
                break;
            };
            match marker {
                0xC0..=0xC2 => walk.start_of_frame(segment)?,
                0xC3 | 0xC5..=0xC7 | 0xC9..=0xCB | 0xCD..=0xCF => return Err(coding(marker)),
                0xE1 if segment.starts_with(b"Exif\0\0") => {
                    walk.orientation = walk.orientation.or_else(|| orientation::read(segment));
                }
                0xEE if segment.starts_with(b"Adobe") => {
                    walk.adobe_transform = segment.get(ADOBE_TRANSFORM).copied();
                }
                0xDA => {
                    walk.start_of_scan(segment)?;
                    walk.scans += 1;
                    at = end_of_scan(bytes, at);
                }
                _ => {}
            }
        }
        match (walk.scans, walk.ended) {
            (0, false) => Err(TRUNCATED),
            (0, true) => Err(DecodeError::corrupt(Format::Jpeg, "it has no scan")),
            _ => Ok(walk),
        }
    }

    /// Returns whether a decoder could read the three components as RGB. Decoders disagree if other markers say YCbCr.
    pub fn may_be_rgb(&self) -> bool {
        let ids = self.components.iter().map(|component| component.id);
        self.components.len() == 3 && (self.adobe_transform == Some(0) || ids.eq(*b"RGB"))
    }

    /// Returns whether the scans have every coefficient of every component in full precision.
    pub fn is_complete(&self) -> bool {
        self.components
            .iter()
            .all(|component| component.lowest_bit == [0; 64])
    }

    /// Returns the file without the junk between its segments.
    pub fn without_junk<'a>(&self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        if self.junk.is_empty() {
            return Cow::Borrowed(bytes);
        }
        let mut rest = Vec::with_capacity(bytes.len());
        let mut from = 0;
        for junk in &self.junk {
            rest.extend_from_slice(&bytes[from..junk.start]);
            from = junk.end;
        }
        rest.extend_from_slice(&bytes[from..]);
        Cow::Owned(rest)
    }

    fn start_of_frame(&mut self, segment: &[u8]) -> Result<(), DecodeError> {
        let corrupt = |detail| Err(DecodeError::corrupt(Format::Jpeg, detail));
        if !self.components.is_empty() {
            return corrupt("it has two frame headers");
        }
        let [precision, h1, h0, w1, w0, count, components @ ..] = segment else {
            return corrupt("its frame header is too short");
        };
        if *precision != 8 {
            let detail = format!("{precision} bits a sample, only 8 are decoded");
            return Err(DecodeError::unsupported(Format::Jpeg, &detail));
        }
        self.height = u16::from_be_bytes([*h1, *h0]);
        self.width = u16::from_be_bytes([*w1, *w0]);
        if self.width == 0 {
            return corrupt("it has no pixels");
        }
        if self.height == 0 {
            let detail = "its height is given after its pixels";
            return Err(DecodeError::unsupported(Format::Jpeg, detail));
        }
        if !matches!(count, 1 | 3 | 4) {
            let detail = format!("{count} color channels, only 1, 3 and 4 are decoded");
            return Err(DecodeError::unsupported(Format::Jpeg, &detail));
        }
        self.components = components
            .chunks_exact(3)
            .take((*count).into())
            .map(|component| Component {
                id: component[0],
                lowest_bit: [u8::MAX; 64],
            })
            .collect();
        if self.components.len() != usize::from(*count) {
            return corrupt("its frame header is too short");
        }
        Ok(())
    }

    fn start_of_scan(&mut self, segment: &[u8]) -> Result<(), DecodeError> {
        let corrupt = |detail| Err(DecodeError::corrupt(Format::Jpeg, detail));
        if self.components.is_empty() {
            return corrupt("it has a scan before its frame header");
        }
        let Some((count, rest)) = segment.split_first() else {
            return corrupt("a scan header is too short");
        };
        let Some((selectors, [start, end, precision, ..])) =
            rest.split_at_checked(usize::from(*count) * 2)
        else {
            return corrupt("a scan header is too short");
        };
        let (start, end) = (usize::from(*start), usize::from(*end).min(63));
        for selector in selectors.chunks_exact(2) {
            let component = self.components.iter_mut().find(|c| c.id == selector[0]);
            if let Some(bits) = component.and_then(|c| c.lowest_bit.get_mut(start..=end)) {
                bits.fill(precision & 0x0F);
            }
        }
        Ok(())
    }
}

/// Returns the width and the height in the first frame header.
pub(in crate::decode) fn stated_size(bytes: &[u8]) -> Option<(u32, u32)> {
    let mut at = 2;
    loop {
        match next_marker(bytes, &mut at)?.0 {
            // Tables and arithmetic coding have numbers between those of the frames.
            0xC4 | 0xC8 | 0xCC => {}
            0xC0..=0xCF => {
                let [h1, h0, w1, w0] = *bytes.get(at + 3..)?.first_chunk()?;
                let side = |high, low| u32::from(u16::from_be_bytes([high, low]));
                return Some((side(w1, w0), side(h1, h0)));
            }
            // Markers without a segment.
            0x01 | 0xD0..=0xD8 => continue,
            // A scan or the end, before any frame.
            0xD9 | 0xDA => return None,
            _ => {}
        }
        at += usize::from(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?));
    }
}

/// Returns the next marker and the bytes before it. Moves `at` behind the marker.
fn next_marker(bytes: &[u8], at: &mut usize) -> Option<(u8, Range<usize>)> {
    let from = *at;
    loop {
        let rest = bytes.get(*at..)?;
        let ff = memchr(0xFF, rest)?;
        let code = rest[ff..].iter().position(|b| *b != 0xFF)?;
        *at += ff + code + 1;
        let marker = rest[ff + code];
        if marker != 0 {
            return Some((marker, from..*at - 2));
        }
    }
}

/// Returns the segment at `at` and moves `at` behind it. Returns `None` if the file ends inside the segment.
fn segment<'a>(bytes: &'a [u8], at: &mut usize) -> Result<Option<&'a [u8]>, DecodeError> {
    let Some(length) = bytes.get(*at..*at + 2) else {
        return Ok(None);
    };
    let length = usize::from(u16::from_be_bytes([length[0], length[1]]));
    if length < 2 {
        let detail = "a segment has an impossible length";
        return Err(DecodeError::corrupt(Format::Jpeg, detail));
    }
    let segment = bytes.get(*at + 2..*at + length);
    *at += length;
    Ok(segment)
}

/// Returns the position of the next marker other than a restart marker, or the end of the file.
fn end_of_scan(bytes: &[u8], mut at: usize) -> usize {
    while let Some(ff) = bytes.get(at..).and_then(|rest| memchr(0xFF, rest)) {
        at += ff;
        match bytes.get(at + 1) {
            // A stuffed byte, a restart marker or a fill byte belongs to the scan.
            Some(0 | 0xD0..=0xD7) => at += 2,
            Some(0xFF) => at += 1,
            Some(_) => return at,
            None => break,
        }
    }
    bytes.len()
}

fn coding(marker: u8) -> DecodeError {
    let detail = match marker {
        0xC3 => "lossless coding",
        0xC9..=0xCB => "arithmetic coding",
        _ => "hierarchical coding",
    };
    DecodeError::unsupported(Format::Jpeg, detail)
}
