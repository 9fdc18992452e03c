//! Reads the four body formats into images, faces or items, and options.

pub mod api_request;
pub mod arriving;
pub mod batch_body;
mod body;
mod body_reader;
pub mod collection_request;
mod content;
pub mod enrollment_options;
mod entry;
pub mod face_input;
pub mod faces;
mod form;
mod images;
pub mod json_object;
mod options;
pub mod pair;
mod request;
pub mod stored_request;
mod texts;
mod vector;

pub use self::{
    images::{ImageRequest, Images},
    options::page_size,
    request::{AdmittedRequest, RequestReservations},
};

use axum::http::{HeaderMap, header::CONTENT_TYPE};
use mime::Mime;

use crate::http::error::ApiError;

/// The four formats of a request body.
pub(super) enum BodyFormat {
    /// The bytes of one image.
    Raw,
    /// A form with a part for each image.
    Multipart,
    /// JSON with the images in base64, or their URLs.
    Json,
    /// The same tree as JSON.
    Msgpack,
}

impl BodyFormat {
    /// Returns the format that the content type names.
    pub(super) fn from_headers(headers: &HeaderMap) -> Result<Self, ApiError> {
        let accepted = "send image/* or application/octet-stream, multipart/form-data, application/json or \
                        application/msgpack";
        let Some(parsed) = content_type(headers) else {
            let wrong = match headers.contains_key(CONTENT_TYPE) {
                true => "the content-type cannot be read",
                false => "the request has no content-type",
            };
            let detail = format!("{wrong}; {accepted}");
            return Err(ApiError::UnsupportedMediaType(detail));
        };
        match (parsed.type_().as_str(), parsed.subtype().as_str()) {
            ("image", _) | ("application", "octet-stream") => Ok(Self::Raw),
            ("multipart", "form-data") => Ok(Self::Multipart),
            ("application", "json") => Ok(Self::Json),
            ("application", "msgpack" | "x-msgpack" | "vnd.msgpack") => Ok(Self::Msgpack),
            _ => Err(ApiError::UnsupportedMediaType(format!(
                "the content-type {} is not accepted; {accepted}",
                parsed.essence_str()
            ))),
        }
    }
}

/// Returns the content type of a request, if it has one that can be read.
fn content_type(headers: &HeaderMap) -> Option<Mime> {
    headers.get(CONTENT_TYPE)?.to_str().ok()?.parse().ok()
}
