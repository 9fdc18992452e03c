//! The hash of an image file, the properties of the image, and its pixels.

use std::{borrow::Borrow, ops::Deref, sync::Arc};

use facescan_imaging::{checkpoint, decode::Decoded, format::Format, memory::PixelMemory};
use image::RgbImage;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use utoipa::ToSchema;

use crate::{core::error::PipelineError, ingest::intake::LoadedImage};

/// The bytes that are hashed between two checkpoints.
const HASHED_AT_ONCE: usize = 1 << 18;

/// The sha256 of an image file.
pub type ContentHash = [u8; 32];

/// Returns the sha256 of `bytes`. This is CPU work for large bodies.
pub fn content_hash(bytes: &[u8]) -> ContentHash {
    let mut hash = Sha256::new();
    for part in bytes.chunks(HASHED_AT_ONCE) {
        hash.update(part);
        checkpoint::passed(part.len());
    }
    hash.finalize().into()
}

/// Returns a hash as lower-case hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Parses a sha256 in hexadecimal digits.
///
/// # Errors
/// [`PipelineError::NotASha256`] if `text` is not a sha256.
pub fn hash_from_hex(text: &str) -> Result<ContentHash, PipelineError> {
    let wrong = || PipelineError::NotASha256(text.to_owned());
    let mut hash = ContentHash::default();
    if text.len() != 2 * hash.len() || !text.is_ascii() {
        return Err(wrong());
    }
    for (byte, at) in hash.iter_mut().zip((0..text.len()).step_by(2)) {
        *byte = u8::from_str_radix(&text[at..at + 2], 16).map_err(|_| wrong())?;
    }
    Ok(hash)
}

impl LoadedImage {
    /// Returns the sha256 of the bytes. This is CPU work if it is not computed yet.
    pub(crate) fn content_hash(&self) -> ContentHash {
        self.hash.unwrap_or_else(|| content_hash(&self.bytes))
    }
}

/// The properties of an image.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ImageInfo {
    /// Width of the upright image, in pixels.
    pub width: u32,
    /// Height of the upright image, in pixels.
    pub height: u32,
    /// The format, detected from the bytes.
    pub format: Format,
    /// The sha256 of the bytes, in hex.
    pub sha256: String,
    /// The EXIF orientation, 1 to 8. It is already applied.
    pub orientation: u8,
}

impl ImageInfo {
    /// Returns the properties of a decoded image whose file has this hash.
    pub(crate) fn new(image: &Decoded, hash: ContentHash) -> Self {
        Self {
            width: image.size.0,
            height: image.size.1,
            format: image.format,
            sha256: hex(&hash),
            orientation: image.orientation,
        }
    }
}

/// Any owner of an image's pixels.
pub trait Pixels: Borrow<RgbImage> + Send + Sync + 'static {}

impl<P: Borrow<RgbImage> + Send + Sync + 'static> Pixels for P {}

/// A decoded image that returns its memory to the pool on drop. It does not hold the permit: a device that hangs keeps
/// the pixels, but must not keep the permit.
pub(crate) struct PooledImage {
    pixels: RgbImage,
    memory: Arc<PixelMemory>,
}

impl Drop for PooledImage {
    fn drop(&mut self) {
        self.memory
            .keep(std::mem::take(&mut self.pixels).into_raw());
    }
}

impl PooledImage {
    /// Takes pixels that were decoded into memory of the pool.
    pub(crate) fn new(pixels: RgbImage, memory: &Arc<PixelMemory>) -> Arc<Self> {
        let memory = Arc::clone(memory);
        Arc::new(Self { pixels, memory })
    }
}

impl Borrow<RgbImage> for PooledImage {
    fn borrow(&self) -> &RgbImage {
        &self.pixels
    }
}

impl Deref for PooledImage {
    type Target = RgbImage;

    fn deref(&self) -> &RgbImage {
        &self.pixels
    }
}

/// Returns the image after a job. Clones it if the thread of a hanging device still holds it.
pub(crate) fn into_owned(image: Arc<RgbImage>) -> RgbImage {
    Arc::try_unwrap(image).unwrap_or_else(|image| RgbImage::clone(&image))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_parsed_from_hex() {
        let hash = content_hash(b"facescan");
        assert_eq!(hash_from_hex(&hex(&hash)).unwrap(), hash);
        for wrong in ["", "abc", &"g".repeat(64), &"é".repeat(32)] {
            assert!(hash_from_hex(wrong).is_err(), "{wrong}");
        }
    }
}
