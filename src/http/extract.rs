//! Reads the four body formats into images and options.

pub mod admitted;
pub mod arriving;
pub mod batch_body;
mod body;
mod body_reader;
pub mod collection_request;
pub mod face_input;
pub mod faces;
mod form;
pub mod json_object;
pub mod pair;
pub mod stored_request;
mod texts;

use axum::{
    extract::{FromRequest, Request},
    http::{HeaderMap, header::CONTENT_TYPE},
};
use mime::Mime;
use serde::de::DeserializeOwned;
use serde_json::{Number, Value};

use self::{
    admitted::{Admitted, RequestReservations, priority_of},
    arriving::SharedReservation,
    body::{Body, MAX_OPTIONS, Options, number},
    body_reader::{body, structured},
    form::{FormOptions, Part},
};
use crate::{
    context::RequestContext,
    http::{AppState, error::ApiError},
    ingest::{source::ImageInput, text::NUL},
    pipeline::core::{
        error::excerpt,
        options::{RequestOptions, from_tree},
    },
};

/// The images and options of a request, in any format.
pub struct ImageRequest<O> {
    /// The context of the request, with the priority that its images have.
    pub context: RequestContext,
    /// At least one image.
    pub images: Vec<ImageInput>,
    /// The masks of the images, where the options take some.
    pub masks: Vec<ImageInput>,
    /// The options as sent.
    pub options: O,
    /// The reservations of the request. Hold them until the answer is written.
    pub reservations: RequestReservations,
}

/// The images and options of a body, in any format.
#[derive(Default)]
struct BodyContent {
    images: Vec<ImageInput>,
    masks: Vec<ImageInput>,
    options: Option<Value>,
}

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
    pub(super) fn of(headers: &HeaderMap) -> Result<Self, ApiError> {
        let accepted = "send image/* or application/octet-stream, multipart/form-data, application/json or \
                        application/msgpack";
        let Some(value) = headers.get(CONTENT_TYPE) else {
            return Err(ApiError::UnsupportedMediaType(format!(
                "the request has no content-type; {accepted}"
            )));
        };
        let parsed = value
            .to_str()
            .ok()
            .and_then(|text| text.parse::<Mime>().ok());
        let Some(parsed) = parsed else {
            return Err(ApiError::UnsupportedMediaType(format!(
                "the content-type cannot be read; {accepted}"
            )));
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

    /// Reads a body of this format.
    async fn read(
        self,
        request: Request,
        state: &AppState,
        reservation: &SharedReservation,
    ) -> Result<BodyContent, ApiError> {
        match self {
            Self::Raw => Ok(BodyContent {
                images: vec![raw(request, state).await?],
                ..BodyContent::default()
            }),
            Self::Multipart => multipart(request, state).await,
            Self::Json | Self::Msgpack => {
                let is_json = matches!(self, Self::Json);
                structured(request, state, reservation, is_json, Body::read).await
            }
        }
    }
}

impl<O: DeserializeOwned + RequestOptions + Send> FromRequest<AppState> for ImageRequest<O> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &AppState) -> Result<Self, ApiError> {
        let limits = &state.config.server;
        let format = BodyFormat::of(request.headers())?;
        let query = options_from_texts(pairs(request.uri().query().unwrap_or_default())?);
        // A request with one image can be refused before its body is read. Invalid options are reported after the body.
        let raw_options = match format {
            BodyFormat::Raw => read_options::<O>(query.clone(), None).ok(),
            BodyFormat::Multipart | BodyFormat::Json | BodyFormat::Msgpack => None,
        };
        let priority = raw_options.map(|options| priority_of(state, options.priority(), 1));
        let mut context = RequestContext::of(&request)?;
        let (admitted, request) = Admitted::admit_body(request, state, priority).await?;
        let BodyContent {
            images,
            masks,
            options: in_body,
        } = format.read(request, state, admitted.body()).await?;
        if images.is_empty() {
            return Err(ApiError::MissingImage("send at least one"));
        }
        if images.len().max(masks.len()) > limits.max_images_per_request {
            return Err(ApiError::TooManyImages {
                limit: limits.max_images_per_request,
            });
        }
        if !O::TAKES_MASKS && !masks.is_empty() {
            return Err(ApiError::invalid_option(
                "mask",
                "is unknown: only /process takes masks",
            ));
        }
        let options: O = read_options(query, in_body)?;
        let all = images.len() + masks.len();
        let are_fetched = images.iter().chain(&masks).any(ImageInput::is_fetched);
        let (reservations, priority) =
            admitted.admit_images(state, options.priority(), all, are_fetched)?;
        context.priority = priority;
        Ok(Self {
            context,
            images,
            masks,
            options,
            reservations,
        })
    }
}

async fn raw(request: Request, state: &AppState) -> Result<ImageInput, ApiError> {
    let bytes = body(request, state.config.server.max_body_bytes).await?;
    if bytes.is_empty() {
        return Err(ApiError::MissingImage(
            "the body is empty; send the bytes of an image",
        ));
    }
    Ok(ImageInput::from_bytes(bytes))
}

/// Reads a form with images, options, and perhaps masks.
async fn multipart(request: Request, state: &AppState) -> Result<BodyContent, ApiError> {
    let limit = state.config.server.max_images_per_request;
    let most = 2 * limit + MAX_OPTIONS;
    let read = move |parts: Vec<Part>| {
        let count = parts.len();
        let mut content = BodyContent::default();
        let mut options = FormOptions::default();
        for part in parts {
            match part.name.as_str() {
                "image" => content.images.push(image(part)),
                "mask" => content.masks.push(image(part)),
                _ => options.add(part)?,
            }
        }
        if content.images.is_empty() {
            return Err(ApiError::MissingImage("no part is named `image`"));
        }
        if content.images.len().max(content.masks.len()) > limit {
            return Err(ApiError::TooManyImages { limit });
        }
        form::check_count(count, most)?;
        content.options = options.merged()?;
        Ok(content)
    };
    form::read(request, state, most, read).await
}

/// Returns the image of a part. The name of its file is the id.
fn image(part: Part) -> ImageInput {
    ImageInput {
        id: part.file_name,
        ..ImageInput::from_bytes(part.content)
    }
}

/// Parses the JSON of an option.
fn parse_options(name: &str, text: &str) -> Result<Value, ApiError> {
    let parsed: Result<Options, _> = serde_json::from_str(text);
    parsed.map(|options| options.0).map_err(|error| {
        let detail = excerpt(&error);
        match detail.starts_with(NUL) {
            true => ApiError::invalid_option(name, NUL),
            false => ApiError::invalid_option(name, format!("is not JSON: {detail}")),
        }
    })
}

fn pairs(query: &str) -> Result<Vec<(String, String)>, ApiError> {
    let pairs: Vec<(String, String)> = serde_html_form::from_str(query)
        .map_err(|error| ApiError::invalid_option("query", excerpt(&error)))?;
    match pairs.len() > MAX_OPTIONS {
        true => Err(ApiError::invalid_option(
            "query",
            format!("has more than {MAX_OPTIONS} options"),
        )),
        false => Ok(pairs),
    }
}

/// Converts text options to a JSON object. A text that is a JSON number or boolean becomes one, so that the options of
/// every format follow the same rules.
fn options_from_texts(texts: Vec<(String, String)>) -> Option<Value> {
    if texts.is_empty() {
        return None;
    }
    let tree = texts
        .into_iter()
        .map(|(name, text)| {
            let is_text = TEXT_OPTIONS.contains(&name.as_str());
            let scalar = if is_text { None } else { scalar(&text) };
            (name, scalar.unwrap_or(Value::String(text)))
        })
        .collect();
    Some(Value::Object(tree))
}

/// Reads a JSON number or boolean. Other JSON stays text, so it is not parsed.
fn scalar(text: &str) -> Option<Value> {
    match text.trim_ascii_start().bytes().next()? {
        b't' | b'f' => serde_json::from_str(text).ok().map(Value::Bool),
        b'-' | b'0'..=b'9' => match serde_json::from_str::<Number>(text).ok()? {
            value if value.is_f64() => value.as_f64().map(number),
            value => Some(Value::Number(value)),
        },
        _ => None,
    }
}

/// Options that stay text even if they look like a number.
const TEXT_OPTIONS: [&str; 8] = [
    "after",
    "case",
    "external_id",
    "name",
    "person",
    "purpose",
    "source",
    "source_url",
];

/// Merges both option sets. The body overrides the query.
fn merge(query: Option<Value>, body: Option<Value>) -> Result<Option<Value>, ApiError> {
    match (query, body) {
        (Some(Value::Object(mut query)), Some(Value::Object(body))) => {
            query.extend(body);
            Ok(Some(Value::Object(query)))
        }
        (query, None | Some(Value::Null)) => Ok(query),
        (_, Some(body @ Value::Object(_))) => Ok(Some(body)),
        (_, Some(_)) => Err(ApiError::invalid_option("options", "must be an object")),
    }
}

/// Reads the options of a query string.
///
/// # Errors
/// Returns an error with the name of the first invalid option.
pub fn read_query<O: DeserializeOwned>(query: &str) -> Result<O, ApiError> {
    read_options(options_from_texts(pairs(query)?), None)
}

/// Checks the number of entries that a request asks for on one page.
///
/// # Errors
/// [`ApiError`] for the option `limit` if the number is not from 1 to `most`.
pub fn page_size(requested: Option<u32>, default: u32, most: u32) -> Result<u32, ApiError> {
    match requested.unwrap_or(default) {
        limit if (1..=most).contains(&limit) => Ok(limit),
        _ => Err(ApiError::invalid_option(
            "limit",
            format!("must be from 1 to {most}"),
        )),
    }
}

fn read_options<O: DeserializeOwned>(
    query: Option<Value>,
    body: Option<Value>,
) -> Result<O, ApiError> {
    let tree = merge(query, body)?.unwrap_or_else(|| Value::Object(serde_json::Map::new()));
    Ok(from_tree(&tree)?)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::{config::DetSize, pipeline::operations::scan::request::ScanRequest};

    fn read(query: &str) -> Result<ScanRequest, ApiError> {
        read_query(query)
    }

    #[test]
    fn text_options_read_as_their_types() {
        let options =
            read("det_size=320&min_score=0.5&quality=true&embedding_format=base64-f16&source=42")
                .unwrap();
        assert_eq!(options.det_size, Some(DetSize::Side(320)));
        assert_eq!(options.min_score, Some(0.5));
        assert_eq!(options.quality, Some(true));
        assert_eq!(options.source.as_deref(), Some("42"));
        let size = |query| read(query).unwrap().det_size.unwrap();
        assert_eq!(size("det_size=320.0"), DetSize::Side(320));
        assert!(!size("det_size=fit").enlarges());
        assert!(read("det_size=fat").is_err());
        assert!(read("det_size=320.5").is_err());
    }

    #[test]
    fn only_scalars_are_read_as_json() {
        for (text, value) in [
            ("1", Some(Value::from(1))),
            (" -2 ", Some(Value::from(-2))),
            ("320.0", Some(Value::from(320))),
            ("0.5", Some(Value::from(0.5))),
            ("18446744073709551615", Some(Value::from(u64::MAX))),
            ("true", Some(Value::Bool(true))),
            ("false\n", Some(Value::Bool(false))),
            ("True", None),
            ("1e999", None),
            ("1 2", None),
            ("+1", None),
            ("\"1\"", None),
            ("[1]", None),
            ("null", None),
            ("", None),
        ] {
            assert_eq!(scalar(text), value, "{text:?}");
        }
    }

    /// A new option that is plain text must be in the list. Otherwise a text such as `42` would become a number.
    #[test]
    fn every_plain_text_option_of_the_document_stays_text() {
        let document = serde_json::to_value(crate::http::openapi_document()).unwrap();
        let is_text = |schema: &Value| {
            schema["type"] == "string" || schema["type"] == serde_json::json!(["string", "null"])
        };
        let operations = document["paths"].as_object().unwrap().values();
        let texts: BTreeSet<&str> = operations
            .flat_map(|item| item.as_object().unwrap().values())
            .filter_map(|operation| operation["parameters"].as_array())
            .flatten()
            .filter(|parameter| parameter["in"] == "query")
            .filter(|parameter| is_text(&parameter["schema"]))
            // A choice of words has no word that looks like a number.
            .filter(|parameter| parameter["schema"].get("enum").is_none())
            .map(|parameter| parameter["name"].as_str().unwrap())
            // These texts are lists, and the types of the options parse them.
            .filter(|name| !["mean", "operations", "std"].contains(name))
            .collect();
        assert_eq!(texts, BTreeSet::from(TEXT_OPTIONS));
    }

    #[test]
    fn booleans_are_strict_and_the_error_names_the_option() {
        for query in ["quality=1", "quality=yes", "quality=True", "quality="] {
            let error = read(query).unwrap_err().to_string();
            assert!(error.starts_with("option `quality`: "), "{query}: {error}");
        }
    }

    #[test]
    fn an_unknown_option_is_named() {
        let error = read("det_sise=320").unwrap_err().to_string();
        assert!(
            error.starts_with("option `det_sise`: is unknown, expected one of `kind`, `min_score`"),
            "{error}"
        );
    }

    #[test]
    fn the_body_overrides_the_query() {
        let query = options_from_texts(pairs("det_size=320&crops=true").unwrap());
        let merged: ScanRequest =
            read_options(query, Some(serde_json::json!({"det_size": 640}))).unwrap();
        assert_eq!(
            (merged.det_size, merged.crops),
            (Some(DetSize::Side(640)), Some(true))
        );
        assert!(read_options::<ScanRequest>(None, Some(serde_json::json!([1]))).is_err());
    }
}
