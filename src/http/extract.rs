//! Reads the four body formats into images, faces or items, and options.

pub mod api_request;
pub mod arriving;
pub mod batch_body;
mod body;
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
mod parsing;
mod request;
pub mod stored_request;
mod texts;
mod vector;

pub(super) use self::arriving::BodyFormat;
pub use self::{
    images::{ImageRequest, Images},
    options::page_size,
    request::{AdmittedRequest, RequestReservations},
};
