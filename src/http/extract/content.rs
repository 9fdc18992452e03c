//! What bodies are made of: entries, which are images, faces or items, and options beside them.
//!
//! One reader takes the entries from each format. JSON and msgpack are read as a stream, without a tree of the body, and a form is
//! divided into its parts. What becomes of an entry is the business of its [`Content`].

mod structured;

use std::mem;

use axum::extract::Request;
use bytes::Bytes;
use facescan_config::MAX_IMAGES;
use facescan_fields::{FieldError, FieldErrors, MAX_ERRORS, Shape};

use super::{
    BodyFormat,
    arriving::{SharedReservation, body},
    body::MAX_OPTIONS,
    entry::Entry,
    form::{self, FormOptions, Part},
    options::SentOptions,
    texts::LongText,
};
use crate::http::{AppState, error::ApiError};

/// The field with the options of a body.
const OPTIONS: &str = "options";

/// A field of a JSON or msgpack body that has entries.
pub(super) struct EntryField {
    pub name: &'static str,
    /// Whether it has a list of entries, and not one.
    pub is_list: bool,
    /// What to send if it is missing. `None` if it need not be there.
    pub wanted: Option<&'static str>,
}

/// The entries of a body.
pub(super) trait Content: Default + Send + 'static {
    /// The fields of a JSON or msgpack body that have entries.
    const FIELDS: &'static [EntryField];
    /// The fields of an entry.
    const ENTRY: &'static [&'static str];
    /// The names of the parts of a form that have images.
    const PARTS: &'static str;
    /// The entries of a list after which nothing is read.
    const MOST: usize = MAX_IMAGES;
    /// Whether the other fields describe the content, as those of a batch do. Otherwise there are only options.
    const HAS_HEAD: bool = false;

    /// Takes an entry of a field. Returns everything that is wrong with it.
    fn add(&mut self, field: &'static str, entry: Entry) -> Result<(), Vec<FieldError>>;

    /// Takes a part of a form, or returns it if it has an option.
    fn add_part(&mut self, part: Part) -> Result<Option<Part>, ApiError>;

    /// Takes a body that is an image.
    ///
    /// # Errors
    /// [`ApiError::UnsupportedMediaType`] if one image is not enough.
    fn add_image(&mut self, bytes: Bytes) -> Result<(), ApiError>;

    /// Returns the number of entries of the longest list.
    fn count(&self) -> usize;

    /// Returns the most entries of a list. `limit` is the number of images that a request may have.
    fn most(limit: usize) -> usize {
        limit
    }

    /// Returns the most entries of a form.
    fn most_parts(limit: usize) -> usize {
        Self::most(limit)
    }

    /// Returns the error of a list with too many entries.
    fn too_many(limit: usize) -> ApiError {
        ApiError::TooManyImages { limit }
    }

    fn check_count(&self, limit: usize) -> Result<(), ApiError> {
        match self.count() > Self::most(limit) {
            true => Err(Self::too_many(limit)),
            false => Ok(()),
        }
    }
}

pub(super) struct ReadBody<C> {
    pub content: C,
    /// The options, or the fields of the head.
    pub options: SentOptions,
    /// The fields that no body has.
    pub unknown: Vec<String>,
    /// What is wrong with the other fields.
    pub errors: Vec<FieldError>,
}

impl<C: Content> ReadBody<C> {
    fn new(content: C, options: SentOptions) -> Self {
        Self {
            content,
            options,
            unknown: Vec::new(),
            errors: Vec::new(),
        }
    }

    /// Returns everything that is wrong with the fields of the body. `shape` has the options.
    pub(super) fn field_errors(&mut self, shape: &Shape) -> Vec<FieldError> {
        let unknown = mem::take(&mut self.unknown);
        let unknown = unknown
            .into_iter()
            .map(|name| unknown_field::<C>(name, shape));
        let mut errors: Vec<FieldError> = unknown.collect();
        errors.append(&mut self.errors);
        errors.truncate(MAX_ERRORS);
        errors
    }
}

/// Reads a body in its format.
pub(super) async fn read_body<C: Content>(
    format: BodyFormat,
    request: Request,
    state: &AppState,
    reservation: &SharedReservation,
) -> Result<ReadBody<C>, ApiError> {
    let limit = state.config.server.max_images_per_request;
    let read = match format {
        BodyFormat::Raw => {
            let mut content = C::default();
            content.add_image(body(request, state.config.server.max_body_bytes).await?)?;
            ReadBody::new(content, SentOptions::default())
        }
        BodyFormat::Multipart => {
            let most = C::most_parts(limit) + MAX_OPTIONS;
            let read = move |parts| read_parts::<C>(parts, limit, most);
            form::read(request, state, most, read).await?
        }
        BodyFormat::Json | BodyFormat::Msgpack => {
            let is_json = matches!(format, BodyFormat::Json);
            structured::read(request, state, reservation, is_json, limit).await?
        }
    };
    read.content.check_count(limit)?;
    Ok(read)
}

fn read_parts<C: Content>(
    parts: Vec<Part>,
    limit: usize,
    most: usize,
) -> Result<ReadBody<C>, ApiError> {
    let count = parts.len();
    let mut content = C::default();
    let mut options = FormOptions::new(C::PARTS);
    for part in parts {
        if let Some(option) = content.add_part(part)? {
            options.add(option)?;
        }
    }
    content.check_count(limit)?;
    form::check_count(count, most)?;
    let (options, errors) = options.finish(C::HAS_HEAD)?;
    Ok(ReadBody {
        errors,
        ..ReadBody::new(content, options)
    })
}

/// Returns the error of a text that is too long. It mostly is an image under a name that no image has.
fn long_text<C: Content>(error: LongText) -> ApiError {
    let Some(name) = error.field else {
        return ApiError::invalid_body(error.to_string());
    };
    let fields = C::FIELDS.iter().map(|field| field.name);
    let known: Vec<&str> = fields
        .chain([OPTIONS])
        .chain(C::ENTRY.iter().copied())
        .collect();
    if !known.contains(&name.as_str()) && !C::HAS_HEAD {
        return FieldErrors::from(FieldError::unknown(name.clone(), &name, known)).into();
    }
    let detail =
        r#"is too long; only `data` may have the bytes of an image, as in {"data": "<base64>"}"#;
    ApiError::invalid_field(name, detail)
}

/// Returns the error of a field that no body of this kind has.
fn unknown_field<C: Content>(name: String, shape: &Shape) -> FieldError {
    if let Some(field) = C::FIELDS.first()
        && field.name.strip_suffix('s') == Some(name.as_str())
        && shape.has(&name)
    {
        let list = field.name;
        let detail = format!(
            r#"is an option, which goes under `{OPTIONS}`; send what it is about as "{list}": [{{"data": "<base64>"}}]"#
        );
        return FieldError {
            did_you_mean: Some(list.to_owned()),
            ..FieldError::new(name, detail)
        };
    }
    if shape.has(&name) {
        let detail = format!(r#"is an option; put it under `{OPTIONS}`"#);
        return FieldError {
            did_you_mean: Some(format!("{OPTIONS}.{name}")),
            ..FieldError::new(name, detail)
        };
    }
    if C::ENTRY.contains(&name.as_str())
        && let Some(field) = C::FIELDS.first()
    {
        let (open, close) = if field.is_list { ("[", "]") } else { ("", "") };
        let list = field.name;
        let detail = format!(r#"belongs in `{list}`; send "{list}": {open}{{"{name}": …}}{close}"#);
        return FieldError::new(name, detail);
    }
    let known = C::FIELDS.iter().map(|field| field.name).chain([OPTIONS]);
    FieldError::unknown(name.clone(), &name, known)
}
