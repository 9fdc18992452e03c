//! Decodes images into memory of the pool, and encodes them.

use std::sync::Arc;

use bytes::Bytes;
use facescan_imaging::{
    decode::{DecodeError, Decoded, Reduction, decode_within, decoded_pixels, stated_size},
    encode::{OutputFormat, encode},
};
use facescan_inference::pool::Stage;
use image::RgbImage;

use super::{
    Pipeline,
    core::{
        error::PipelineError,
        image_file::{ImageInfo, PooledImage},
        run::ImageRun,
        work::{self, Size},
    },
    ingest::intake::LoadedImage,
};

/// The largest number of pixels that are decoded within a turn of the pool, in some tens of milliseconds.
const DECODED_AT_ONCE: u64 = 1 << 21;
/// The same while the pool has one tenant. Nobody else waits for the decoder then, and a change of threads costs time.
const DECODED_AT_ONCE_ALONE: u64 = 1 << 24;
/// The pixels for each byte of the largest file that is decoded so: half of the pixels, which is a megabyte for the smaller
/// number. Photographs have fewer bytes.
const PIXELS_PER_BYTE: u64 = 2;

/// The size of images that are encoded in a process of their own, beside that of images that are encoded within a turn. Smaller ones
/// take up to a tenth of a second.
const ENCODED_APART: u64 = 4;

/// Returns whether a file is decoded within a turn. Its size in pixels alone says little: a file can have scan after scan, and a
/// JPEG without an end marker is decoded several times.
fn is_decoded_at_once(bytes: &[u8], most: u64) -> bool {
    stated_size(bytes).is_some_and(|size| work::pixels(size) <= most)
        && bytes.len() as u64 <= most / PIXELS_PER_BYTE
        && decoded_pixels(bytes).is_some_and(|pixels| pixels <= most)
}

impl Pipeline {
    /// Decodes an image into memory of the pool. Reduces a JPEG whose longer side is at least twice `min_side`, if that is
    /// given and libjpeg-turbo is loaded.
    pub(crate) async fn decode(
        &self,
        bytes: &Bytes,
        min_side: Option<u32>,
    ) -> Result<Decoded, PipelineError> {
        let most = match self.pool.has_one_tenant() {
            true => DECODED_AT_ONCE_ALONE,
            false => DECODED_AT_ONCE,
        };
        if is_decoded_at_once(bytes, most) {
            return Ok(self.decode_here(bytes, min_side)?);
        }
        let (pipeline, bytes) = (self.clone(), bytes.clone());
        let decode = move || pipeline.decode_here(&bytes, min_side);
        Ok(self.long_pool.run(Stage::Begin, decode).await??)
    }

    /// Decodes all pixels of an image, drops its bytes, adds its price to the work, and records the time.
    ///
    /// # Errors
    /// The error of the decoder, or of an image that takes too much work.
    pub(crate) async fn open(
        &self,
        file: LoadedImage,
        run: &mut ImageRun,
        price: impl FnOnce(Size) -> u64 + Send,
    ) -> Result<(ImageInfo, Arc<PooledImage>), PipelineError> {
        let began = self.clock.monotonic();
        let decoded = self.decode(&file.bytes, None).await?;
        run.work.add(price(decoded.size))?;
        let info = ImageInfo::new(&decoded, file.content_hash());
        drop(file);
        let pixels = PooledImage::new(decoded.pixels, &self.memory);
        run.timings.decode = self.since(began);
        run.count_pixels(&info);
        Ok((info, pixels))
    }

    /// Decodes an image on this thread.
    fn decode_here(&self, bytes: &[u8], min_side: Option<u32>) -> Result<Decoded, DecodeError> {
        let _span = tracing::info_span!(target: "otlp", "decode", bytes = bytes.len());
        let reduction = self.turbojpeg.as_deref().zip(min_side);
        let reduction = reduction.map(|(library, min_side)| Reduction { library, min_side });
        decode_within(bytes, &self.decoding, &self.memory, reduction.as_ref())
    }

    /// Encodes an image. If the caller leaves, the encoder of a large image is stopped.
    pub(crate) async fn encode(
        &self,
        image: &Arc<RgbImage>,
        output: OutputFormat,
    ) -> Result<Vec<u8>, PipelineError> {
        let pixels = u64::from(image.width()) * u64::from(image.height());
        let at_once = output.max_pixels_at_once();
        if pixels <= at_once {
            return Ok(encode(image, output)?);
        }
        output.check_size(image.dimensions())?;
        let image = Arc::clone(image);
        let is_large = pixels / ENCODED_APART > at_once;
        if let Some(encoders) = self.encoders.as_ref().filter(|_| is_large) {
            return encoders.encode(image, output).await;
        }
        let encode = move || encode(&image, output);
        Ok(self.long_pool.run(Stage::Begin, encode).await??)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_are_small_in_every_way_are_decoded_at_once() {
        let jpeg = encode(&RgbImage::new(640, 480), OutputFormat::default()).unwrap();
        assert!(is_decoded_at_once(&jpeg, 640 * 480));
        assert!(!is_decoded_at_once(&jpeg, 640 * 479));
        assert!(!is_decoded_at_once(b"no image", u64::MAX));
        let without_end = &jpeg[..jpeg.len() - 2];
        assert!(!is_decoded_at_once(without_end, 3 * 640 * 480));
        assert!(is_decoded_at_once(without_end, 4 * 640 * 480));
        let many_bytes = [jpeg, vec![0; 640 * 480]].concat();
        assert!(!is_decoded_at_once(&many_bytes, 640 * 480));
    }
}
