//! Reads the body of `/verify`: two faces and the options.

use std::fmt;

use axum::extract::{FromRequest, Multipart, Request, multipart::Field};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use facescan_inference::pool::Stage;
use serde::{
    Deserialize, Deserializer,
    de::{self, IgnoredAny, SeqAccess},
};
use serde_json::Value;
use uuid::Uuid;

use super::{
    BodyFormat,
    admitted::{Admitted, RequestReservations},
    body::{Options, from_msgpack},
    body_reader::body,
    merge, option_text, options_from_pairs, options_of_part, pairs, read_options, unreadable,
};
use crate::{
    context::RequestContext,
    http::{AppState, error::ApiError},
    ingest::source::{ImageEntry, ImageInput, Payload},
    pipeline::options::RequestOptions,
    recognition::verify::{FaceVector, MAX_DIM, Side, VerifyRequest},
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

/// A face as the caller named it.
#[derive(Debug)]
pub enum FaceInput {
    /// An image that shows the face.
    Image(ImageInput),
    /// The id of a stored face.
    Stored(Uuid),
    /// A vector.
    Vector(FaceVector),
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

/// A face in a JSON or msgpack body. Exactly one of the first four fields is set.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FaceEntry {
    #[serde(default)]
    data: Option<Payload>,
    #[serde(default)]
    url: Option<String>,
    // A text also in msgpack, where a `Uuid` would be binary.
    #[serde(default)]
    face_id: Option<String>,
    #[serde(default)]
    embedding: Option<VectorEntry>,
    /// The contract of the embedding.
    #[serde(default)]
    contract: Option<String>,
}

/// A vector in a body.
enum VectorEntry {
    /// The values. One more than [`MAX_DIM`] means any larger number.
    Numbers(Vec<f32>),
    Base64(String),
}

impl<'de> Deserialize<'de> for VectorEntry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = VectorEntry;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a list of numbers, or little-endian 32-bit floats in base64")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<VectorEntry, E> {
                Ok(VectorEntry::Base64(text.to_owned()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<VectorEntry, A::Error> {
                let mut values = Vec::new();
                while values.len() <= MAX_DIM {
                    match list.next_element()? {
                        Some(value) => values.push(value),
                        None => return Ok(VectorEntry::Numbers(values)),
                    }
                }
                while list.next_element::<IgnoredAny>()?.is_some() {}
                Ok(VectorEntry::Numbers(values))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

impl FaceEntry {
    fn read(self, side: Side) -> Result<FaceInput, ApiError> {
        let named = [
            self.data.is_some(),
            self.url.is_some(),
            self.face_id.is_some(),
            self.embedding.is_some(),
        ];
        if named.into_iter().filter(|is_named| *is_named).count() != 1 {
            return Err(ApiError::InvalidBody(format!(
                "`{side}` must have exactly one of data, url, face_id and embedding"
            )));
        }
        if self.embedding.is_some() != self.contract.is_some() {
            return Err(ApiError::InvalidBody(format!(
                "`{side}` must have a contract with an embedding, and only then"
            )));
        }
        if let Some(id) = self.face_id {
            return stored(&id, "face_id");
        }
        if let (Some(embedding), Some(contract)) = (self.embedding, self.contract) {
            let vector = FaceVector::of_caller(contract, embedding.into_values()?)?;
            return Ok(FaceInput::Vector(vector));
        }
        Ok(FaceInput::Image(ImageInput::from(ImageEntry {
            id: None,
            data: self.data,
            url: self.url,
            source: None,
            source_url: None,
        })))
    }
}

/// Reads the id of a stored face.
fn stored(text: &str, option: &str) -> Result<FaceInput, ApiError> {
    let id = text.trim().parse().map(FaceInput::Stored);
    id.map_err(|_| ApiError::invalid_option(option, "is not the id of a face; ids are UUIDs"))
}

impl VectorEntry {
    fn into_values(self) -> Result<Vec<f32>, ApiError> {
        let text = match self {
            Self::Numbers(values) => return Ok(values),
            Self::Base64(text) => text,
        };
        let bytes = BASE64_STANDARD.decode(text);
        let bytes =
            bytes.map_err(|error| ApiError::invalid_option("embedding", error.to_string()))?;
        let (values, rest) = bytes.as_chunks::<4>();
        if !rest.is_empty() {
            let detail = "must be 32-bit floats, so a multiple of 4 bytes";
            return Err(ApiError::invalid_option("embedding", detail));
        }
        Ok(values.iter().copied().map(f32::from_le_bytes).collect())
    }
}

impl PairBody {
    fn read(self) -> Result<PairContent, ApiError> {
        Ok(PairContent {
            faces: [self.a.read(Side::A)?, self.b.read(Side::B)?],
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
                structured(request, state, is_json).await?
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

impl FaceInput {
    fn image(&self) -> Option<&ImageInput> {
        match self {
            Self::Image(image) => Some(image),
            Self::Stored(_) | Self::Vector(_) => None,
        }
    }
}

/// Parses a body and its base64 on the CPU pool.
async fn structured(
    request: Request,
    state: &AppState,
    is_json: bool,
) -> Result<PairContent, ApiError> {
    let body = body(request, state).await?;
    let read = move || {
        let parsed = if is_json {
            serde_json::from_slice::<PairBody>(&body).map_err(|error| error.to_string())
        } else {
            from_msgpack::<PairBody>(&body).map_err(|error| error.to_string())
        };
        parsed.map_err(ApiError::invalid_body)?.read()
    };
    state.pipeline.pool.run(Stage::Begin, read).await?
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
