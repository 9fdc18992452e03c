//! Reads the body of `/verify`: two faces and the options.

use bytes::Bytes;
use facescan_fields::{FieldError, FieldErrors};
use facescan_pipeline::ingest::source::ImageInput;
use facescan_recognition::verify::VerifyRequest;

use super::{
    content::{Content, EntryField},
    entry::Entry,
    face_input::{FACE_FIELDS, FaceInput, stored},
    form::Part,
    images::image,
    request::{AdmittedContent, AdmittedRequest},
};
use crate::http::error::ApiError;

/// A request with the faces `a` and `b`.
pub type PairRequest = AdmittedRequest<[FaceInput; 2], VerifyRequest>;

/// What to send as a face.
const FACE: &str = r#"a face such as {"data": "<base64>"}"#;

/// The faces of a body, in any format.
#[derive(Default)]
pub(super) struct Pair {
    a: Option<FaceInput>,
    b: Option<FaceInput>,
}

impl Content for Pair {
    const FIELDS: &'static [EntryField] = &[
        EntryField {
            name: "a",
            is_list: false,
            wanted: Some(FACE),
        },
        EntryField {
            name: "b",
            is_list: false,
            wanted: Some(FACE),
        },
    ];
    const ENTRY: &'static [&'static str] = FACE_FIELDS;
    const PARTS: &'static str = "`a` and `b`";

    fn add(&mut self, field: &'static str, entry: Entry) -> Result<(), Vec<FieldError>> {
        *self.side(field == "a") = Some(FaceInput::from_entry(entry)?);
        Ok(())
    }

    fn add_part(&mut self, part: Part) -> Result<Option<Part>, ApiError> {
        let (is_a, face) = match part.name.as_str() {
            name @ ("a" | "b") => (name == "a", FaceInput::Image(image(part))),
            name @ ("a_face_id" | "b_face_id") => {
                let face = stored(part.text()?, name).map_err(FieldErrors::from)?;
                (name == "a_face_id", face)
            }
            _ => return Ok(Some(part)),
        };
        if self.side(is_a).replace(face).is_some() {
            let name = if is_a { "a" } else { "b" };
            return Err(ApiError::invalid_field(
                name,
                "is there twice; send one face",
            ));
        }
        Ok(None)
    }

    fn add_image(&mut self, _: Bytes) -> Result<(), ApiError> {
        Err(ApiError::UnsupportedMediaType(
            "two faces are compared, so one image is not enough; send multipart/form-data, application/json or \
             application/msgpack"
                .to_owned(),
        ))
    }

    fn count(&self) -> usize {
        [&self.a, &self.b].into_iter().flatten().count()
    }

    fn most(_: usize) -> usize {
        2
    }
}

impl Pair {
    fn side(&mut self, is_a: bool) -> &mut Option<FaceInput> {
        if is_a { &mut self.a } else { &mut self.b }
    }
}

impl AdmittedContent for [FaceInput; 2] {
    type Body = Pair;

    fn from_body(pair: Pair, _: bool) -> Result<Self, ApiError> {
        let sides = [("a", pair.a.is_none()), ("b", pair.b.is_none())];
        if let (Some(a), Some(b)) = (pair.a, pair.b) {
            return Ok([a, b]);
        }
        let missing = sides.into_iter().filter(|(_, is_missing)| *is_missing);
        let errors = missing.map(|(name, _)| {
            let detail =
                format!("is missing; send an image as `{name}`, or an id as `{name}_face_id`");
            FieldError::new(name, detail)
        });
        let errors = FieldErrors {
            noun: "part",
            errors: errors.collect(),
        };
        Err(errors.into())
    }

    fn images(&self) -> impl Iterator<Item = &ImageInput> {
        self.iter().filter_map(FaceInput::image)
    }

    fn count(&self) -> usize {
        self.images().count()
    }
}
