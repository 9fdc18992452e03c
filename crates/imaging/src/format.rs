//! Detection of a file's format from its bytes.

use std::fmt;

use serde::{
    Deserialize, Serialize,
    de::{
        IntoDeserializer,
        value::{self, StrDeserializer},
    },
};
use utoipa::ToSchema;

/// The formats that are decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// JPEG, baseline and progressive.
    Jpeg,
    /// PNG; of an animated PNG, the default image.
    Png,
    /// WebP; of an animated WebP, the first frame.
    Webp,
    /// GIF; the first frame.
    Gif,
    /// Windows and OS/2 bitmaps.
    Bmp,
    /// TIFF and BigTIFF; the first page.
    Tiff,
}

impl Format {
    /// Returns the lower-case name, as in responses.
    pub fn name(self) -> &'static str {
        match self {
            Self::Jpeg => "jpeg",
            Self::Png => "png",
            Self::Webp => "webp",
            Self::Gif => "gif",
            Self::Bmp => "bmp",
            Self::Tiff => "tiff",
        }
    }

    /// Returns the format with this name.
    pub fn named(name: &str) -> Option<Self> {
        let name: StrDeserializer<'_, value::Error> = name.into_deserializer();
        Self::deserialize(name).ok()
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The detected format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sniffed {
    /// A format that is decoded.
    Accepted(Format),
    /// A known format that is not decoded, by name.
    Other(&'static str),
    /// An unknown format.
    Unknown,
}

/// Signatures of decoded formats, at the start of a file.
const ACCEPTED: &[(&[u8], Format)] = &[
    (b"\xFF\xD8\xFF", Format::Jpeg),
    (b"\x89PNG\r\n\x1A\n", Format::Png),
    (b"GIF87a", Format::Gif),
    (b"GIF89a", Format::Gif),
    (b"BM", Format::Bmp),
    (b"II*\0", Format::Tiff),
    (b"MM\0*", Format::Tiff),
    (b"II+\0", Format::Tiff),
    (b"MM\0+", Format::Tiff),
];

/// Signatures of known formats that are not decoded, at the start of a file.
const OTHER: &[(&[u8], &str)] = &[
    (b"\xFF\x0A", "jpeg xl"),
    (b"\0\0\0\x0CJXL \r\n\x87\n", "jpeg xl"),
    (b"\0\0\0\x0CjP  \r\n\x87\n", "jpeg 2000"),
    (b"\xFF\x4F\xFF\x51", "jpeg 2000"),
    (b"II\xBC\x01", "jpeg xr"),
    (b"8BPS", "psd"),
    (b"qoif", "qoi"),
    (b"\x76\x2F\x31\x01", "openexr"),
    (b"#?RADIANCE", "radiance hdr"),
    (b"#?RGBE", "radiance hdr"),
    (b"DDS ", "dds"),
    (b"farbfeld", "farbfeld"),
    (b"%PDF-", "pdf"),
    (b"%!PS", "postscript"),
    (b"\x89MNG\r\n\x1A\n", "mng"),
    (b"\x8BJNG\r\n\x1A\n", "jng"),
    (b"gimp xcf", "xcf"),
    (b"BPG\xFB", "bpg"),
    (b"FLIF", "flif"),
    (b"\x1A\x45\xDF\xA3", "webm or matroska"),
    (b"PK\x03\x04", "zip"),
    (b"\x1F\x8B", "gzip"),
];

/// Detects the format of `bytes` by its signature.
pub fn sniff(bytes: &[u8]) -> Sniffed {
    if let Some((_, format)) = ACCEPTED.iter().find(|(magic, _)| bytes.starts_with(magic)) {
        return Sniffed::Accepted(*format);
    }
    if bytes.starts_with(b"RIFF") {
        return match bytes.get(8..12) {
            Some(b"WEBP") => Sniffed::Accepted(Format::Webp),
            Some(b"AVI ") => Sniffed::Other("avi"),
            _ => Sniffed::Unknown,
        };
    }
    if let Some((_, name)) = OTHER.iter().find(|(magic, _)| bytes.starts_with(magic)) {
        return Sniffed::Other(name);
    }
    iso_media(bytes)
        .or_else(|| icon(bytes))
        .or_else(|| targa(bytes))
        .or_else(|| netpbm(bytes))
        .or_else(|| markup(bytes))
        .map_or(Sniffed::Unknown, Sniffed::Other)
}

/// Detects ISO base media files. The brands of their `ftyp` box name the format.
fn iso_media(bytes: &[u8]) -> Option<&'static str> {
    if bytes.len() < 12 || bytes[4..8] != *b"ftyp" {
        return None;
    }
    let length = u32::from_be_bytes(bytes.get(..4)?.try_into().ok()?) as usize;
    let brands = bytes.get(8..length.clamp(12, 256).min(bytes.len()))?;
    // The major brand may be the generic `mif1`; then the compatible brands name the format.
    let has = |names: &[&[u8; 4]]| {
        brands
            .chunks_exact(4)
            .any(|brand| names.iter().any(|name| *name == brand))
    };
    if has(&[b"avif", b"avis"]) {
        Some("avif")
    } else if has(&[b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx"]) {
        Some("heic")
    } else if has(&[b"mif1", b"msf1"]) {
        Some("heif")
    } else if has(&[b"crx "]) {
        Some("canon cr3")
    } else {
        Some("mp4")
    }
}

/// Detects icons and cursors by their type and a count above 0. Without the count, TGA files without a footer would be
/// taken for cursors.
fn icon(bytes: &[u8]) -> Option<&'static str> {
    match bytes.get(..6)? {
        [0, 0, _, 0, 0, 0] => None,
        [0, 0, 1, 0, ..] => Some("ico"),
        [0, 0, 2, 0, ..] => Some("cur"),
        _ => None,
    }
}

/// Detects TGA files of version 2, which end with a signature. Other versions have no signature.
fn targa(bytes: &[u8]) -> Option<&'static str> {
    bytes.ends_with(b"TRUEVISION-XFILE.\0").then_some("tga")
}

fn netpbm(bytes: &[u8]) -> Option<&'static str> {
    match bytes.get(..3)? {
        [b'P', b'1'..=b'7', space] if space.is_ascii_whitespace() => Some("pnm"),
        [b'P', b'f' | b'F', space] if space.is_ascii_whitespace() => Some("pfm"),
        _ => None,
    }
}

fn markup(bytes: &[u8]) -> Option<&'static str> {
    let head = &bytes[..bytes.len().min(1024)];
    let head = head.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(head);
    let text = String::from_utf8_lossy(head).to_ascii_lowercase();
    let text = text.trim_start();
    if !text.starts_with('<') {
        None
    } else if text.contains("<svg") {
        Some("svg")
    } else if text.starts_with("<!doctype html") || text.starts_with("<html") {
        Some("html")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tests of decoding detect every other format.
    #[test]
    fn all_kinds_of_tiff_are_detected() {
        for bytes in [b"II*\0", b"MM\0*", b"II+\0", b"MM\0+"] {
            assert_eq!(sniff(bytes), Sniffed::Accepted(Format::Tiff), "{bytes:?}");
        }
    }

    #[test]
    fn other_formats_are_named() {
        let cases: &[(&[u8], &str)] = &[
            (b"\0\0\0\x1Cftypavif\0\0\0\0mif1miaf", "avif"),
            (b"\0\0\0\x18ftypmif1\0\0\0\0mif1avif", "avif"),
            (b"\0\0\0\x18ftypmif1\0\0\0\0mif1heic", "heic"),
            (b"\0\0\0\x10ftypmif1\0\0\0\0", "heif"),
            (b"\0\0\0\x18ftypisom\0\0\0\0isomavc1", "mp4"),
            (b"\xFF\x0A\xFA", "jpeg xl"),
            (b"\0\0\x01\0\x01\0", "ico"),
            (b"\0\0\x02\0\x01\0", "cur"),
            (b"\0\0\x02\0\0\0pixelsTRUEVISION-XFILE.\0", "tga"),
            (b"8BPS\0\x01", "psd"),
            (b"P6\n2 2\n", "pnm"),
            (b"%PDF-1.7", "pdf"),
            (
                b"\xEF\xBB\xBF <?xml version=\"1.0\"?>\n<SVG xmlns=\"\">",
                "svg",
            ),
            (b"<!DOCTYPE html><p>", "html"),
        ];
        for (bytes, name) in cases {
            assert_eq!(sniff(bytes), Sniffed::Other(name), "{name}");
        }
    }

    #[test]
    fn everything_else_is_unknown() {
        for bytes in [
            &b""[..],
            b"P",
            b"RIFF",
            b"RIFF\0\0\0\0WAVE",
            b"hello",
            b"\0\0\x02\0\0\0",
            b"\0\0\0\x08ftyp",
            b"\xFF\xD8",
        ] {
            assert_eq!(sniff(bytes), Sniffed::Unknown, "{bytes:?}");
        }
    }

    #[test]
    fn names_equal_the_serialized_ones() {
        assert_eq!(serde_json::json!(Format::Webp), Format::Webp.to_string());
        assert_eq!(Format::named("webp"), Some(Format::Webp));
        assert_eq!(Format::named("WEBP"), None);
    }
}
