//! The images of a measurement.

use std::{path::PathBuf, sync::Arc};

use anyhow::Context;
use bytes::Bytes;

use crate::cli::files;
use facescan_imaging::format::{Sniffed, sniff};

/// An image that is used repeatedly.
pub struct Image {
    /// The path of the file.
    pub path: PathBuf,
    /// The encoded bytes.
    pub bytes: Bytes,
}

/// Reads the images from files and folders.
///
/// # Errors
/// Returns an error if a file cannot be read, its format is not supported, or there are no images.
pub fn load_images(paths: &[PathBuf]) -> anyhow::Result<Arc<[Image]>> {
    let images = files::images(paths)
        .map(|found| {
            let path = found.path;
            let bytes = std::fs::read(&path)
                .with_context(|| format!("reading the image {}", path.display()))?;
            anyhow::ensure!(
                matches!(sniff(&bytes), Sniffed::Accepted(_)),
                "{} is not an image in a supported format; remove it from --images",
                path.display()
            );
            Ok(Image {
                bytes: bytes.into(),
                path,
            })
        })
        .collect::<anyhow::Result<Vec<_>>>()?;
    anyhow::ensure!(
        !images.is_empty(),
        "there are no images to measure with; name some with --images"
    );
    Ok(images.into())
}
