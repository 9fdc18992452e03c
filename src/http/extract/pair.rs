//! Reads the body of `/verify`: two faces and the options.

use axum::extract::{FromRequest, Multipart, Request, multipart::Field};
use serde::Deserialize;
use serde_json::Value;

use super::{
    BodyFormat,
    admitted::{Admitted, RequestReservations},
    body::Options,
    body_reader::structured,
    face_input::{FaceEntry, FaceInput, stored},
    merge, option_text, options_from_pairs, options_of_part, pairs, read_options, unreadable,
};
use crate::{
    context::RequestContext,
    http::{AppState, error::ApiError},
    ingest::source::ImageInput,
    pipeline::options::RequestOptions,
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
        let query = options_from_pairs(&pairs(request.uri().query().unwrap_or_default())?);
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
                structured(request, state, is_json, PairBody::read).await?
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

/// The parts of a multipart form that are already read.
#[derive(Default)]
struct Parts {
    faces: [Option<FaceInput>; 2],
    texts: Vec<(String, String)>,
    options: Option<Value>,
}

impl Parts {
    async fn add(&mut self, part: Field<'_>, state: &AppState) -> Result<(), ApiError> {
        let name = part.name().unwrap_or_default().to_owned();
        match name.as_str() {
            "a" | "b" => {
                let bytes = part.bytes().await;
                let bytes = bytes.map_err(|error| unreadable(&error, &state.config.server))?;
                let side = if name == "a" { Side::A } else { Side::B };
                self.put(side, FaceInput::Image(ImageInput::from_bytes(bytes)))
            }
            _ => {
                let text = option_text(part, &name, &state.config.server).await?;
                self.add_text(name, text)
            }
        }
    }

    fn add_text(&mut self, name: String, text: String) -> Result<(), ApiError> {
        match name.as_str() {
            "a_face_id" => self.put(Side::A, stored(&text, &name)?),
            "b_face_id" => self.put(Side::B, stored(&text, &name)?),
            "options" => {
                self.options = Some(options_of_part(&text)?);
                Ok(())
            }
            _ => {
                self.texts.push((name, text));
                Ok(())
            }
        }
    }

    fn put(&mut self, side: Side, face: FaceInput) -> Result<(), ApiError> {
        match self.faces[side as usize].replace(face) {
            None => Ok(()),
            Some(_) => Err(ApiError::InvalidBody(format!("`{side}` is named twice"))),
        }
    }
}

async fn multipart(request: Request, state: &AppState) -> Result<PairContent, ApiError> {
    let mut form = Multipart::from_request(request, state)
        .await
        .map_err(|rejection| ApiError::invalid_body(rejection.body_text()))?;
    let mut parts = Parts::default();
    while let Some(part) = form
        .next_field()
        .await
        .map_err(|error| unreadable(&error, &state.config.server))?
    {
        parts.add(part, state).await?;
    }
    let [Some(a), Some(b)] = parts.faces else {
        return Err(ApiError::InvalidBody(
            "a form needs the parts `a` or `a_face_id`, and `b` or `b_face_id`".to_owned(),
        ));
    };
    Ok(PairContent {
        faces: [a, b],
        options: merge(options_from_pairs(&parts.texts), parts.options)?,
    })
}
