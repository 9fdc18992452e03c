//! Reads the bodies of submissions. The entries of NDJSON are read one after another, so that its body can have any length.

mod entry;
mod lines;
mod whole;

use axum::{
    extract::Request,
    http::{HeaderMap, header::CONTENT_TYPE},
};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use self::{lines::Lines, whole::MAX_ITEMS};
use super::{
    BodyFormat,
    admitted::stated_length,
    arriving::{self, SharedReservation},
    body::MAX_OPTIONS,
    body_reader::body,
    form::{self, FormOptions, Part},
    options_from_texts, pairs, parse_options,
};
use crate::{
    admission::Priority,
    batches::{
        operation::BatchOperation,
        submission::{BatchHead, EntryContent, EntryError, ItemEntry},
    },
    http::{AppState, error::ApiError},
    pipeline::core::options::from_tree,
};

/// The bytes that are held at a time of a body that is read in lines.
const STREAMED_BYTES: usize = 32 << 20;

/// Entries with more bytes are parsed on the CPU pool.
const SMALL_BODY: usize = 64 << 10;

/// The number of entries of a parsed body that are taken at a time.
const ENTRIES_PER_STEP: usize = 64;

/// The description of a batch in a body, or in the query.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeadFields {
    /// The operation.
    pub operation: Option<BatchOperation>,
    /// Its options.
    pub options: Option<Value>,
    /// The caller's name for the batch.
    pub name: Option<String>,
    /// The priority.
    pub priority: Option<Priority>,
    /// Whether the batch accepts more items later.
    pub open: Option<bool>,
    /// The webhook of the batch.
    pub webhook: Option<WebhookFields>,
}

/// A webhook that a batch brings.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = BatchWebhook)]
pub struct WebhookFields {
    /// The address that is told when the batch ends.
    pub url: String,
    /// The secret that signs the message, `whsec_` and base64. Without it the server makes one.
    #[serde(default)]
    pub secret: Option<String>,
}

impl HeadFields {
    /// Returns the head of a batch.
    ///
    /// # Errors
    /// [`ApiError::Pipeline`] if the operation is missing.
    pub fn into_head(self, idempotency_key: Option<String>) -> Result<BatchHead, ApiError> {
        let operation = self.operation.ok_or_else(|| {
            let names = BatchOperation::ALL.map(BatchOperation::name).join(", ");
            ApiError::invalid_option("operation", format!("is missing; send one of {names}"))
        })?;
        Ok(BatchHead {
            operation,
            options: self.options.unwrap_or_else(|| Value::Object(Map::new())),
            name: self.name,
            priority: self.priority,
            open: self.open.unwrap_or(false),
            idempotency_key,
            webhook: self.webhook.map(|webhook| (webhook.url, webhook.secret)),
        })
    }
}

/// The formats of a submission.
enum SubmissionFormat {
    /// One of the formats of every route.
    Body(BodyFormat),
    /// One JSON value a line.
    Ndjson,
}

impl SubmissionFormat {
    fn of(headers: &HeaderMap) -> Result<Self, ApiError> {
        let value = headers
            .get(CONTENT_TYPE)
            .and_then(|value| value.to_str().ok());
        let essence = value.map(|text| text.split(';').next().unwrap_or_default().trim());
        match essence {
            Some("application/x-ndjson" | "application/ndjson" | "application/jsonl") => {
                Ok(Self::Ndjson)
            }
            _ => BodyFormat::of(headers).map(Self::Body),
        }
    }
}

/// A submission: its head, and its entries to be read.
pub struct BatchBody {
    /// The head. Empty if the body adds items to a batch.
    pub head: HeadFields,
    /// The entries.
    pub entries: Entries,
    /// The reservation of the body. Hold it until all entries are read.
    pub reservation: SharedReservation,
}

impl SubmissionFormat {
    /// Reserves the bytes of a body that are held at a time.
    fn reserve(
        &self,
        request: &mut Request,
        state: &AppState,
    ) -> Result<SharedReservation, ApiError> {
        let limit = state.config.server.max_body_bytes;
        let most = match self {
            Self::Ndjson => STREAMED_BYTES.min(limit),
            Self::Body(_) => {
                if stated_length(request.headers()).is_some_and(|stated| stated > limit) {
                    return Err(ApiError::BodyTooLarge { limit });
                }
                limit
            }
        };
        arriving::reserve(request, &state.admission, most)
    }
}

/// The entries of a submission.
pub enum Entries {
    /// Entries that are read already.
    Read(std::vec::IntoIter<Result<ItemEntry, EntryError>>),
    /// The lines of an NDJSON body.
    Lines(Box<Lines>),
}

impl BatchBody {
    /// Begins to read a body. `has_head` is whether it describes a batch.
    ///
    /// # Errors
    /// Returns an error if the format is not accepted, if the head is not valid, or if the byte budget is used up.
    pub async fn read(
        mut request: Request,
        state: &AppState,
        has_head: bool,
    ) -> Result<Self, ApiError> {
        let format = SubmissionFormat::of(request.headers())?;
        let query = options_from_texts(pairs(request.uri().query().unwrap_or_default())?);
        let mut tree = match query {
            Some(Value::Object(tree)) => tree,
            _ => Map::new(),
        };
        parse_texts(&mut tree)?;
        let reservation = format.reserve(&mut request, state)?;
        let entries = match format {
            SubmissionFormat::Ndjson => {
                let mut lines = Lines::new(request, state)?;
                if has_head {
                    tree.extend(lines.head().await?);
                }
                Entries::Lines(Box::new(lines))
            }
            SubmissionFormat::Body(BodyFormat::Raw) => {
                let bytes = body(request, state.config.server.max_body_bytes).await?;
                Entries::Read(vec![Ok(item(None, bytes))].into_iter())
            }
            SubmissionFormat::Body(BodyFormat::Multipart) => {
                let most = MAX_ITEMS + MAX_OPTIONS;
                let (items, fields) = form::read(request, state, most, form).await?;
                tree.extend(fields);
                Entries::Read(items.into_iter())
            }
            SubmissionFormat::Body(format @ (BodyFormat::Json | BodyFormat::Msgpack)) => {
                let is_json = matches!(format, BodyFormat::Json);
                let body = whole::read(request, state, &reservation, is_json).await?;
                tree.extend(body.head);
                Entries::Read(body.items.into_iter())
            }
        };
        Ok(Self {
            head: head_of(tree, has_head)?,
            entries,
            reservation,
        })
    }
}

fn head_of(tree: Map<String, Value>, has_head: bool) -> Result<HeadFields, ApiError> {
    if !has_head && let Some(name) = tree.keys().next() {
        let detail = "is unknown: items are added with the options of their batch";
        return Err(ApiError::invalid_option(name, detail));
    }
    Ok(from_tree(&Value::Object(tree))?)
}

/// The items of a body, and the fields of its head.
type FormContent = (Vec<Result<ItemEntry, EntryError>>, Map<String, Value>);

/// Reads the parts of a form: the fields of the head, then the images.
fn form(parts: Vec<Part>) -> Result<FormContent, ApiError> {
    let count = parts.len();
    let mut items = Vec::new();
    let mut fields = FormOptions::default();
    for part in parts {
        match part.name == "image" {
            true => items.push(Ok(item(part.file_name, part.content))),
            false => fields.add(part)?,
        }
    }
    if items.len() > MAX_ITEMS {
        return Err(ApiError::TooManyItems { limit: MAX_ITEMS });
    }
    form::check_count(count, MAX_ITEMS + MAX_OPTIONS)?;
    let mut tree = Map::new();
    for (name, text) in fields.into_texts()? {
        let value = match text.as_str() {
            "true" => Value::Bool(true),
            "false" => Value::Bool(false),
            _ => Value::String(text),
        };
        tree.insert(name, value);
    }
    parse_texts(&mut tree)?;
    Ok((items, tree))
}

/// Returns the item of an image.
fn item(id: Option<String>, bytes: Bytes) -> ItemEntry {
    ItemEntry {
        id,
        content: Some(EntryContent::Bytes(bytes)),
        ..ItemEntry::default()
    }
}

/// Parses the fields that are JSON text in a query and in the parts of a form.
fn parse_texts(tree: &mut Map<String, Value>) -> Result<(), ApiError> {
    for name in ["options", "webhook"] {
        if let Some(Value::String(text)) = tree.get(name) {
            let parsed = parse_options(name, text)?;
            tree.insert(name.to_owned(), parsed);
        }
    }
    Ok(())
}

impl Entries {
    /// Returns the next entries, each with the reason if it cannot be read. Returns an empty list after the last one.
    ///
    /// # Errors
    /// Returns an error if the body ends early or is too large.
    pub async fn next(
        &mut self,
        state: &AppState,
    ) -> Result<Vec<Result<ItemEntry, EntryError>>, ApiError> {
        match self {
            Self::Read(entries) => Ok(entries.by_ref().take(ENTRIES_PER_STEP).collect()),
            Self::Lines(lines) => lines.entries(state).await,
        }
    }
}
