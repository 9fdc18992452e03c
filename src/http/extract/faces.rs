//! Reads faces and options: the bodies of enrollments and of searches.

use bytes::Bytes;
use facescan_fields::{FieldError, FieldErrors};
use facescan_pipeline::ingest::source::ImageInput;

use super::{
    content::{Content, EntryField},
    entry::Entry,
    face_input::{FACE_FIELDS, FaceInput, stored},
    form::{self, Part},
    images::image,
    request::{AdmittedContent, AdmittedRequest},
};
use crate::http::error::ApiError;

/// A request with faces.
pub type FacesRequest<O> = AdmittedRequest<Vec<FaceInput>, O>;

/// The faces of a body, in any format.
#[derive(Default)]
pub(super) struct Faces(Vec<FaceInput>);

impl Content for Faces {
    const FIELDS: &'static [EntryField] = &[EntryField {
        name: "faces",
        is_list: true,
        wanted: Some(r#"a list of faces such as [{"data": "<base64>"}]"#),
    }];
    const ENTRY: &'static [&'static str] = FACE_FIELDS;
    const PARTS: &'static str = "`image`";

    fn add(&mut self, _: &'static str, entry: Entry) -> Result<(), Vec<FieldError>> {
        self.0.push(FaceInput::from_entry(entry)?);
        Ok(())
    }

    fn add_part(&mut self, part: Part) -> Result<Option<Part>, ApiError> {
        let face = match part.name.as_str() {
            name if form::is_image(name) => FaceInput::Image(image(part)),
            "face_id" => stored(part.text()?, "face_id").map_err(FieldErrors::from)?,
            _ => return Ok(Some(part)),
        };
        self.0.push(face);
        Ok(None)
    }

    fn add_image(&mut self, bytes: Bytes) -> Result<(), ApiError> {
        self.0.push(FaceInput::Image(ImageInput::from_bytes(bytes)));
        Ok(())
    }

    fn count(&self) -> usize {
        self.0.len()
    }
}

impl AdmittedContent for Vec<FaceInput> {
    type Body = Faces;

    fn from_body(Faces(faces): Faces, _: bool) -> Result<Self, ApiError> {
        match faces.is_empty() {
            true => Err(ApiError::missing_image("send at least one face")),
            false => Ok(faces),
        }
    }

    fn images(&self) -> impl Iterator<Item = &ImageInput> {
        self.iter().filter_map(FaceInput::image)
    }

    /// Vectors and stored faces are compared too.
    fn count(&self) -> usize {
        self.len()
    }
}
