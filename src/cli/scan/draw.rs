//! Draws faces on copies of images.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use facescan_pipeline::{Pipeline, core::scan::Face};

use crate::http::error::ApiError;
use facescan_imaging::{
    decode::decode,
    draw::{Annotation, annotate},
    encode::{OutputFormat, encode},
};
use facescan_inference::pool::Stage;

/// Returns the path of the drawing of an image: the same relative path below `folder`, as a JPEG. With several input
/// folders, the path begins with the name of the input folder.
pub fn target(folder: &Path, relative: &Path) -> PathBuf {
    // The extension is appended and not replaced, so that the results of a.png and a.jpg differ.
    let mut name = folder.join(relative).into_os_string();
    name.push(".faces.jpg");
    name.into()
}

pub async fn write(
    pipeline: &Pipeline,
    bytes: Bytes,
    faces: &[Face],
    target: PathBuf,
) -> Result<(), ApiError> {
    let decoding = pipeline.decoding;
    let annotations: Vec<Annotation> = faces
        .iter()
        .map(|face| Annotation {
            bbox: face.bbox,
            landmarks: face.landmarks,
            score: face.score,
        })
        .collect();
    pipeline
        .pool
        .run(Stage::Finish, move || {
            let mut image = decode(&bytes, &decoding)?.pixels;
            annotate(&mut image, &annotations);
            let jpeg = encode(&image, OutputFormat::Jpeg { quality: 90 })?;
            let failed = |error: std::io::Error| {
                ApiError::Internal(format!("writing {}: {error}", target.display()))
            };
            if let Some(folder) = target.parent() {
                std::fs::create_dir_all(folder).map_err(failed)?;
            }
            std::fs::write(&target, jpeg).map_err(failed)
        })
        .await?
}
