//! Reads the body of `/verify`: two faces and the options.

use axum::extract::{FromRequest, Request};
use serde::Deserialize;
use serde_json::Value;

use super::{
    BodyFormat,
    admitted::{Admitted, RequestReservations},
    body::{MAX_OPTIONS, Options},
    body_reader::{StructuredBody, structured},
    face_input::{FaceEntry, FaceInput, stored},
    form::{self, FormOptions, Part},
    image, options_from_texts, pairs, read_options,
};
use crate::{
    context::RequestContext,
    http::{AppState, error::ApiError},
    ingest::source::ImageInput,
    pipeline::core::options::RequestOptions,
    recognition::verify::{Side, VerifyRequest},
};

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

/// The faces of a body, in any format.
struct PairContent {
    faces: [FaceInput; 2],
    options: Option<Value>,
}

/// A JSON or msgpack body.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PairBody {
    a: FaceEntry,
    b: FaceEntry,
    #[serde(default)]
    options: Option<Options>,
}

impl StructuredBody for PairBody {}

impl PairBody {
    fn read(self) -> Result<PairContent, ApiError> {
        Ok(PairContent {
            faces: [self.a.read("a")?, self.b.read("b")?],
            options: self.options.map(|options| options.0),
        })
    }
}

impl FromRequest<AppState> for PairRequest {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &AppState) -> Result<Self, ApiError> {
        let format = BodyFormat::of(request.headers())?;
        let query = options_from_texts(pairs(request.uri().query().unwrap_or_default())?);
        let mut context = RequestContext::of(&request)?;
        let (admitted, request) = Admitted::admit_body(request, state, None).await?;
        let content = match format {
            BodyFormat::Raw => {
                return Err(ApiError::UnsupportedMediaType(
                    "two faces are compared, so one image is not enough; send multipart/form-data, application/json or \
                     application/msgpack"
                        .to_owned(),
                ));
            }
            BodyFormat::Multipart => multipart(request, state).await?,
            BodyFormat::Json | BodyFormat::Msgpack => {
                let is_json = matches!(format, BodyFormat::Json);
                structured(request, state, admitted.body(), is_json, PairBody::read).await?
            }
        };
        let options: VerifyRequest = read_options(query, content.options)?;
        let images = || content.faces.iter().filter_map(FaceInput::image);
        let are_fetched = images().any(ImageInput::is_fetched);
        let count = images().count();
        let (reservations, priority) =
            admitted.admit_images(state, options.priority(), count, are_fetched)?;
        context.priority = priority;
        Ok(Self {
            context,
            faces: content.faces,
            options,
            reservations,
        })
    }
}

async fn multipart(request: Request, state: &AppState) -> Result<PairContent, ApiError> {
    let most = 2 + MAX_OPTIONS;
    let read = move |parts: Vec<Part>| {
        form::check_count(parts.len(), most)?;
        pair(parts)
    };
    form::read(request, state, most, read).await
}

/// Reads the parts of a form.
fn pair(parts: Vec<Part>) -> Result<PairContent, ApiError> {
    let mut faces = [None, None];
    let mut options = FormOptions::default();
    for part in parts {
        let (side, face) = match part.name.as_str() {
            "a" => (Side::A, FaceInput::Image(image(part))),
            "b" => (Side::B, FaceInput::Image(image(part))),
            "a_face_id" => (Side::A, stored(part.text()?, "a_face_id")?),
            "b_face_id" => (Side::B, stored(part.text()?, "b_face_id")?),
            _ => {
                options.add(part)?;
                continue;
            }
        };
        if faces[side as usize].replace(face).is_some() {
            return Err(ApiError::invalid_body(format!("`{side}` is named twice")));
        }
    }
    let [Some(a), Some(b)] = faces else {
        return Err(ApiError::invalid_body(
            "a form needs the parts `a` or `a_face_id`, and `b` or `b_face_id`",
        ));
    };
    Ok(PairContent {
        faces: [a, b],
        options: options.merged()?,
    })
}
