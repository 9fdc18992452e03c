//! The pictures that are measured with.

use std::{path::PathBuf, sync::Arc};

use anyhow::Context;
use bytes::Bytes;
use http::HeaderValue;

use crate::cli::scan::files;
use facescan_imaging::format::{Sniffed, sniff};

/// A picture that is sent or worked on, again and again.
pub struct Picture {
    /// Its file.
    pub path: PathBuf,
    /// Its encoded bytes, shared by every request.
    pub bytes: Bytes,
    /// The media type of these bytes.
    pub media_type: HeaderValue,
}

/// Reads the pictures among files and folders.
///
/// # Errors
/// When a file cannot be read or is no picture that is decoded here, or there is none.
pub fn load_pictures(paths: &[PathBuf]) -> anyhow::Result<Arc<[Picture]>> {
    let pictures = files::pictures(paths)
        .map(|found| {
            let path = found.path;
            let bytes = std::fs::read(&path)
                .with_context(|| format!("reading the picture {}", path.display()))?;
            let Sniffed::Accepted(format) = sniff(&bytes) else {
                anyhow::bail!(
                    "{} is no picture that can be measured with; leave it out of --pictures",
                    path.display()
                );
            };
            Ok(Picture {
                media_type: HeaderValue::from_str(&format!("image/{}", format.name()))?,
                bytes: bytes.into(),
                path,
            })
        })
        .collect::<anyhow::Result<Vec<_>>>()?;
    anyhow::ensure!(
        !pictures.is_empty(),
        "there is no picture to measure with; name some with --pictures"
    );
    Ok(pictures.into())
}
