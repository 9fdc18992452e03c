//! Reads faces and options: the bodies of enrolments and of searches.

use axum::extract::{FromRequest, Request};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;

use super::{
    BodyFormat,
    admitted::{Admitted, RequestReservations},
    body::{MAX_OPTIONS, Options, entries},
    body_reader::{StructuredBody, body, structured},
    face_input::{FaceEntry, FaceInput, stored},
    form::{self, FormOptions, Part},
    image, options_from_texts, pairs, read_options,
};
use crate::{
    context::RequestContext,
    http::{AppState, error::ApiError},
    ingest::source::ImageInput,
    pipeline::core::options::RequestOptions,
};

/// The faces of a request and its options.
pub struct FacesRequest<O> {
    /// The context of the request, with the priority that its images have.
    pub context: RequestContext,
    /// The faces, at least one.
    pub faces: Vec<FaceInput>,
    /// The options as sent.
    pub options: O,
    /// The reservations of the request. Hold them until the answer is written.
    pub reservations: RequestReservations,
}

/// The faces of a body, in any format.
#[derive(Default)]
struct FacesContent {
    faces: Vec<FaceInput>,
    options: Option<Value>,
}

/// A JSON or msgpack body.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FacesBody {
    #[serde(deserialize_with = "entries")]
    faces: Vec<FaceEntry>,
    #[serde(default)]
    options: Option<Options>,
}

impl StructuredBody for FacesBody {}

impl FacesBody {
    fn read(self) -> Result<FacesContent, ApiError> {
        let faces = self.faces.into_iter().enumerate();
        let faces = faces.map(|(index, face)| face.read(&format!("faces[{index}]")));
        Ok(FacesContent {
            faces: faces.collect::<Result<_, _>>()?,
            options: self.options.map(|options| options.0),
        })
    }
}

impl<O> FromRequest<AppState> for FacesRequest<O>
where
    O: RequestOptions + DeserializeOwned,
{
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &AppState) -> Result<Self, ApiError> {
        let format = BodyFormat::of(request.headers())?;
        let query = options_from_texts(pairs(request.uri().query().unwrap_or_default())?);
        let mut context = RequestContext::of(&request)?;
        let (admitted, request) = Admitted::admit_body(request, state, None).await?;
        let content = match format {
            BodyFormat::Raw => FacesContent {
                faces: vec![FaceInput::Image(ImageInput::from_bytes(
                    body(request, state.config.server.max_body_bytes).await?,
                ))],
                options: None,
            },
            BodyFormat::Multipart => multipart(request, state).await?,
            BodyFormat::Json | BodyFormat::Msgpack => {
                let is_json = matches!(format, BodyFormat::Json);
                structured(request, state, admitted.body(), is_json, FacesBody::read).await?
            }
        };
        let limit = state.config.server.max_images_per_request;
        match content.faces.len() {
            0 => return Err(ApiError::MissingImage("send at least one face")),
            count if count > limit => return Err(ApiError::TooManyImages { limit }),
            _ => {}
        }
        let options: O = read_options(query, content.options)?;
        let images = || content.faces.iter().filter_map(FaceInput::image);
        let are_fetched = images().any(ImageInput::is_fetched);
        // Vectors and stored faces are compared too.
        let count = content.faces.len();
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

async fn multipart(request: Request, state: &AppState) -> Result<FacesContent, ApiError> {
    let limit = state.config.server.max_images_per_request;
    let most = limit + MAX_OPTIONS;
    let read = move |parts: Vec<Part>| {
        let count = parts.len();
        let mut faces = Vec::new();
        let mut options = FormOptions::default();
        for part in parts {
            match part.name.as_str() {
                "image" => faces.push(FaceInput::Image(image(part))),
                "face_id" => faces.push(stored(part.text()?, "face_id")?),
                _ => options.add(part)?,
            }
        }
        if faces.len() > limit {
            return Err(ApiError::TooManyImages { limit });
        }
        form::check_count(count, most)?;
        Ok(FacesContent {
            faces,
            options: options.merged()?,
        })
    };
    form::read(request, state, most, read).await
}
