//! One resource a file.

pub mod docs;
pub mod enhance;
pub mod faces;
pub mod health;
pub mod images;
pub mod models;
pub mod scan;
mod several;

use serde::Serialize;
use utoipa::ToSchema;

use crate::ingest::source::ImageEntry;

/// The JSON and msgpack form of a request.
#[derive(Serialize, ToSchema)]
pub struct ImagesBody<O> {
    /// The pictures.
    #[schema(value_type = Vec<ImageEntry>)]
    images: Vec<()>,
    /// The options; each has its default from the settings.
    options: Option<O>,
}

/// The multipart form of a request: options are parts of their own, or one JSON part `options`.
#[derive(Serialize, ToSchema)]
pub struct MultipartBody {
    /// One part for each picture; its filename is the picture's id.
    #[schema(value_type = Vec<String>, content_media_type = "application/octet-stream")]
    image: Vec<Vec<u8>>,
    /// The options as JSON.
    options: Option<String>,
}
