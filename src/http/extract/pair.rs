//! Reads the body of `/verify`: two faces and the options.

use axum::extract::{FromRequest, Request};
use bytes::Bytes;
use facescan_fields::{FieldError, FieldErrors};
use facescan_pipeline::{context::RequestContext, ingest::source::ImageInput};
use facescan_recognition::verify::VerifyRequest;

use super::{
    admitted::RequestReservations,
    content::{Content, EntryField},
    entry::Entry,
    face_input::{FACE_FIELDS, FaceInput, stored},
    form::Part,
    images::image,
    request::{ReadRequest, read_request},
};
use crate::http::{AppState, error::ApiError};

/// The two faces of a request and its options.
pub struct PairRequest {
    /// The context of the request, with the priority that its images have.
    pub context: RequestContext,
    /// The faces `a` and `b`.
    pub faces: [FaceInput; 2],
    /// The options as sent.
    pub options: VerifyRequest,
    /// The reservations of the request. Hold them until the answer is written.
    pub reservations: RequestReservations,
}

/// What to send as a face.
const FACE: &str = r#"a face such as {"data": "<base64>"}"#;

/// The faces of a body, in any format.
#[derive(Default)]
struct Pair {
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

    fn check_count(&self, _: usize) -> Result<(), ApiError> {
        Ok(())
    }

    fn most_parts(_: usize) -> usize {
        2
    }
}

impl Pair {
    fn side(&mut self, is_a: bool) -> &mut Option<FaceInput> {
        if is_a { &mut self.a } else { &mut self.b }
    }
}

/// Returns the error of the faces that a form does not have.
fn missing(is_missing: [bool; 2]) -> ApiError {
    let sides = ["a", "b"].into_iter().zip(is_missing);
    let errors = sides
        .filter(|(_, is_missing)| *is_missing)
        .map(|(name, _)| {
            let detail =
                format!("is missing; send an image as `{name}`, or an id as `{name}_face_id`");
            FieldError::new(name, detail)
        });
    FieldErrors {
        noun: "part",
        errors: errors.collect(),
    }
    .into()
}

impl FromRequest<AppState> for PairRequest {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &AppState) -> Result<Self, ApiError> {
        let read: ReadRequest<Pair, VerifyRequest> = read_request(request, state).await?;
        let Pair { a, b } = &read.content;
        let is_missing = [a.is_none(), b.is_none()];
        let images = || [a, b].into_iter().flatten().filter_map(FaceInput::image);
        let are_fetched = images().any(ImageInput::is_fetched);
        let count = images().count();
        if is_missing.contains(&true) {
            return Err(missing(is_missing));
        }
        let admitted = read.admit(state, count, are_fetched)?;
        let Pair {
            a: Some(a),
            b: Some(b),
        } = admitted.content
        else {
            return Err(missing(is_missing));
        };
        Ok(Self {
            context: admitted.context,
            faces: [a, b],
            options: admitted.options,
            reservations: admitted.reservations,
        })
    }
}
