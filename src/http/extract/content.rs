//! What bodies are made of: entries, which are images, faces or items, and options beside them.
//!
//! One reader takes the entries from each format. JSON and msgpack are read as a stream, without a tree of the body, and a form is
//! divided into its parts. What becomes of an entry is the business of its [`Content`].

use std::{fmt, marker::PhantomData};

use axum::extract::Request;
use bytes::Bytes;
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::{Map, Value};

use super::{
    BodyFormat,
    arriving::SharedReservation,
    body::{FieldReader, MAX_OPTIONS, Options},
    body_reader::{body, structured},
    entry::{Entry, EntrySeed, skip_plain},
    form::{self, FormOptions, Part},
    options::SentOptions,
};
use crate::{
    config::MAX_IMAGES,
    fields::{FieldError, MAX_ERRORS, MAX_NAME_BYTES, Shape, wording},
    http::{AppState, error::ApiError},
};

/// The field with the options of a body.
const OPTIONS: &str = "options";

/// The beginning of the error of a list that is too long. The errors of serde have only a text.
pub(super) const TOO_MANY: &str = "the list is too long";

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
    /// The most entries of a list.
    const MOST: usize = MAX_IMAGES;
    /// Whether the other fields describe the content, as those of a batch do. Otherwise there are only options.
    const HAS_HEAD: bool = false;

    /// Takes an entry of a field.
    ///
    /// # Errors
    /// Everything that is wrong with the entry.
    fn add(&mut self, field: &'static str, entry: Entry) -> Result<(), Vec<FieldError>>;

    /// Takes a part of a form, or returns it if it has an option.
    ///
    /// # Errors
    /// The error of a part that has no entry.
    fn add_part(&mut self, part: Part) -> Result<Option<Part>, ApiError>;

    /// Takes a body that is an image.
    ///
    /// # Errors
    /// [`ApiError::UnsupportedMediaType`] if one image is not enough.
    fn add_image(&mut self, bytes: Bytes) -> Result<(), ApiError>;

    /// Checks the number of entries. `limit` is the number of images that a request may have.
    ///
    /// # Errors
    /// [`ApiError::TooManyImages`] or [`ApiError::TooManyItems`].
    fn check_count(&self, limit: usize) -> Result<(), ApiError>;

    /// Returns the most entries of a form.
    fn most_parts(limit: usize) -> usize;

    /// Returns the error of a list with more than [`Self::MOST`] entries.
    fn too_many(limit: usize) -> ApiError {
        ApiError::TooManyImages { limit }
    }
}

/// A body that has been read.
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
        let unknown = std::mem::take(&mut self.unknown);
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
///
/// # Errors
/// The error of a body that does not arrive, cannot be parsed or has too many entries.
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
        BodyFormat::Json => structured(request, state, reservation, true).await?,
        BodyFormat::Msgpack => structured(request, state, reservation, false).await?,
    };
    read.content.check_count(limit)?;
    Ok(read)
}

/// Reads the parts of a form.
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

/// Returns the error of a field that no body of this kind has.
fn unknown_field<C: Content>(name: String, shape: &Shape) -> FieldError {
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

impl<'de, C: Content> Deserialize<'de> for ReadBody<C> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(BodyVisitor(PhantomData))
    }
}

struct BodyVisitor<C>(PhantomData<C>);

impl<'de, C: Content> Visitor<'de> for BodyVisitor<C> {
    type Value = ReadBody<C>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ReadBody<C>, A::Error> {
        let mut body = ReadBody::new(C::default(), SentOptions::default());
        let mut options = None;
        let (mut head, fields) = (Map::new(), FieldReader::default());
        let mut seen: Vec<&str> = Vec::new();
        while let Some(name) = map.next_key::<String>()? {
            let field = C::FIELDS.iter().find(|field| field.name == name);
            match field {
                Some(field) if seen.contains(&field.name) => {
                    map.next_value::<IgnoredAny>()?;
                    body.refuse(FieldError::new(field.name, "is there twice; send it once"));
                }
                Some(field) => {
                    seen.push(field.name);
                    map.next_value_seed(FieldSeed {
                        field,
                        body: &mut body,
                    })?;
                }
                None if C::HAS_HEAD => {
                    let value = map.next_value_seed(fields.value(&name, head.len())?)?;
                    head.insert(name, value);
                }
                None if name == OPTIONS => options = map.next_value::<Option<Options>>()?,
                None => {
                    map.next_value::<IgnoredAny>()?;
                    if body.unknown.len() < MAX_ERRORS {
                        body.unknown.push(wording::beginning(&name, MAX_NAME_BYTES));
                    }
                }
            }
        }
        for field in C::FIELDS.iter().filter(|field| !seen.contains(&field.name)) {
            if let Some(wanted) = field.wanted {
                body.refuse(FieldError::new(
                    field.name,
                    format!("is missing; send {wanted}"),
                ));
            }
        }
        body.options = SentOptions::from_tree(if C::HAS_HEAD {
            Some(Value::Object(head))
        } else {
            options.map(|options| options.0)
        });
        Ok(body)
    }
}

impl<C: Content> ReadBody<C> {
    fn refuse(&mut self, error: FieldError) {
        if self.errors.len() < MAX_ERRORS {
            self.errors.push(error);
        }
    }

    /// Gives an entry to the content. `index` is its place in a list.
    fn add(&mut self, field: &'static EntryField, index: Option<usize>, entry: Entry) {
        let Err(errors) = self.content.add(field.name, entry) else {
            return;
        };
        let path = match index {
            Some(index) => format!("{}[{index}]", field.name),
            None => field.name.to_owned(),
        };
        for error in errors {
            self.refuse(error.inside(&path));
        }
    }
}

/// Reads the entries of a field into a body.
struct FieldSeed<'a, C> {
    field: &'static EntryField,
    body: &'a mut ReadBody<C>,
}

impl<'de, C: Content> DeserializeSeed<'de> for FieldSeed<'_, C> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        let Self { field, body } = self;
        if !field.is_list {
            let entry = EntrySeed(C::ENTRY).deserialize(deserializer)?;
            body.add(field, None, entry);
            return Ok(());
        }
        let seed = FieldSeed {
            field,
            body: &mut *body,
        };
        if !deserializer.deserialize_any(seed)? {
            let wanted = field.wanted.unwrap_or("a list of objects");
            body.refuse(FieldError::not_allowed(field.name, wanted));
        }
        Ok(())
    }
}

/// Visits a list. Returns whether the value is one.
impl<'de, C: Content> Visitor<'de> for FieldSeed<'_, C> {
    type Value = bool;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<bool, A::Error> {
        let mut index = 0;
        while let Some(entry) = list.next_element_seed(EntrySeed(C::ENTRY))? {
            if index == C::MOST {
                return Err(A::Error::custom(TOO_MANY));
            }
            self.body.add(self.field, Some(index), entry);
            index += 1;
        }
        Ok(true)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<bool, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(false)
    }

    skip_plain!(false);
}
