//! The pixels of an image.

use std::{borrow::Borrow, ops::Deref, sync::Arc};

use facescan_imaging::memory::PixelMemory;
use image::RgbImage;

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
