//! Reads the bodies of submissions. Entries are read one after another, so the body of a long request is never in memory
//! as a whole if it is NDJSON or a multipart form.

mod entry;
mod lines;

use axum::{
    extract::{FromRequest, Multipart, Request, multipart::Field},
    http::{HeaderMap, header::CONTENT_TYPE},
};
use facescan_inference::pool::Stage;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use self::{entry::LooseEntry, lines::Lines};
use super::{
    BodyFormat,
    admitted::stated_length,
    arriving::{self, SharedReservation},
    body::from_msgpack,
    body_reader::body,
    options_from_pairs, pairs, unreadable,
};
use crate::{
    admission::Priority,
    batches::{
        operation::BatchOperation,
        submission::{BatchHead, EntryContent, EntryError, ItemEntry},
    },
    http::{AppState, error::ApiError},
    pipeline::options::from_tree,
};

/// The bytes that are held at a time of a body that is read in pieces.
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
            Self::Ndjson | Self::Body(BodyFormat::Multipart) => STREAMED_BYTES.min(limit),
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
    /// The parts of a form, and the first image if it is read already.
    Parts(Box<(Multipart, Option<ItemEntry>)>),
}

/// A JSON or msgpack body.
#[derive(Deserialize)]
struct WholeBody {
    #[serde(default)]
    items: Vec<LooseEntry>,
    #[serde(flatten)]
    head: Map<String, Value>,
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
        let query = options_from_pairs(&pairs(request.uri().query().unwrap_or_default())?);
        let mut tree = match query {
            Some(Value::Object(tree)) => tree,
            _ => Map::new(),
        };
        parse_texts(&mut tree)?;
        let reservation = format.reserve(&mut request, state)?;
        let entries = match format {
            SubmissionFormat::Ndjson => {
                let mut lines = Lines::of(request, state);
                if has_head {
                    tree.extend(lines.head().await?);
                }
                Entries::Lines(Box::new(lines))
            }
            SubmissionFormat::Body(BodyFormat::Raw) => {
                let bytes = body(request, state).await?;
                let entry = ItemEntry {
                    content: Some(EntryContent::Bytes(bytes)),
                    ..ItemEntry::default()
                };
                Entries::Read(vec![Ok(entry)].into_iter())
            }
            SubmissionFormat::Body(BodyFormat::Json) => {
                let bytes = body(request, state).await?;
                whole(state, &mut tree, move || {
                    serde_json::from_slice(&bytes).map_err(|error| error.to_string())
                })
                .await?
            }
            SubmissionFormat::Body(BodyFormat::Msgpack) => {
                let bytes = body(request, state).await?;
                whole(state, &mut tree, move || {
                    from_msgpack(&bytes).map_err(|error| error.to_string())
                })
                .await?
            }
            SubmissionFormat::Body(BodyFormat::Multipart) => {
                form(request, state, &mut tree).await?
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

/// Parses a whole body on the CPU pool.
async fn whole(
    state: &AppState,
    tree: &mut Map<String, Value>,
    parse: impl FnOnce() -> Result<WholeBody, String> + Send + 'static,
) -> Result<Entries, ApiError> {
    let pool = &state.pipeline.pool;
    let (head, entries) = pool
        .run(Stage::Begin, move || {
            let body = parse().map_err(ApiError::invalid_body)?;
            let entries: Vec<_> = body.items.into_iter().map(LooseEntry::into_entry).collect();
            Ok::<_, ApiError>((body.head, entries))
        })
        .await??;
    tree.extend(head);
    Ok(Entries::Read(entries.into_iter()))
}

/// Reads the parts of a form up to the first image.
async fn form(
    request: Request,
    state: &AppState,
    tree: &mut Map<String, Value>,
) -> Result<Entries, ApiError> {
    let mut form = Multipart::from_request(request, state)
        .await
        .map_err(|rejection| ApiError::invalid_body(rejection.body_text()))?;
    let server = &state.config.server;
    loop {
        let part = form.next_field().await;
        let Some(part) = part.map_err(|error| unreadable(&error, server))? else {
            return Ok(Entries::Parts(Box::new((form, None))));
        };
        let name = part.name().unwrap_or_default().to_owned();
        if name == "image" {
            let first = image(part, state).await?;
            return Ok(Entries::Parts(Box::new((form, Some(first)))));
        }
        let text = part
            .text()
            .await
            .map_err(|error| unreadable(&error, server))?;
        let value = match text.as_str() {
            "true" => Value::Bool(true),
            "false" => Value::Bool(false),
            _ => Value::String(text),
        };
        tree.insert(name, value);
        parse_texts(tree)?;
    }
}

/// Parses the fields that are JSON text in a query and in the parts of a form.
fn parse_texts(tree: &mut Map<String, Value>) -> Result<(), ApiError> {
    for name in ["options", "webhook"] {
        if let Some(Value::String(text)) = tree.get(name) {
            let parsed = serde_json::from_str(text)
                .map_err(|error| ApiError::invalid_option(name, format!("is not JSON: {error}")))?;
            tree.insert(name.to_owned(), parsed);
        }
    }
    Ok(())
}

/// Reads the part of an image. Its filename is the id.
async fn image(part: Field<'_>, state: &AppState) -> Result<ItemEntry, ApiError> {
    let id = part.file_name().map(str::to_owned);
    let bytes = part.bytes().await;
    let bytes = bytes.map_err(|error| unreadable(&error, &state.config.server))?;
    Ok(ItemEntry {
        id,
        content: Some(EntryContent::Bytes(bytes)),
        ..ItemEntry::default()
    })
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
            Self::Parts(parts) => {
                let (form, first) = parts.as_mut();
                if let Some(first) = first.take() {
                    return Ok(vec![Ok(first)]);
                }
                let part = form.next_field().await;
                let Some(part) = part.map_err(|error| unreadable(&error, &state.config.server))?
                else {
                    return Ok(Vec::new());
                };
                match part.name() {
                    Some("image") => Ok(vec![Ok(image(part, state).await?)]),
                    name => Err(ApiError::invalid_option(
                        name.unwrap_or_default(),
                        "follows an image; send the other parts before the images",
                    )),
                }
            }
        }
    }
}
