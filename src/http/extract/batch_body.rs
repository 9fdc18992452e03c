//! Reads the bodies of submissions. The entries of NDJSON are read one after another, so that its body can have any length.

mod items;
mod lines;

use axum::{
    extract::Request,
    http::{HeaderMap, header::CONTENT_TYPE},
};
use facescan_batches::{
    submission::{BatchHead, EntryError, ItemEntry},
    webhooks::WebhookUrl,
};
use facescan_fields::{self as fields, FieldError, FieldErrors, Shape};
use facescan_pipeline::{admission::Priority, operation::BatchOperation};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use self::{items::Items, lines::Lines};
use super::{
    BodyFormat,
    arriving::{self, SharedReservation, stated_length},
    content::{ReadBody, read_body},
    options::SentOptions,
};
use crate::http::{AppState, error::ApiError};

/// The bytes that are held at a time of a body that is read in lines.
const STREAMED_BYTES: usize = 32 << 20;

/// Entries with more bytes are parsed on the CPU pool.
const SMALL_BODY: usize = 64 << 10;

/// The number of entries of a parsed body that are taken at a time.
const ENTRIES_PER_STEP: usize = 64;

/// The description of a batch in a body, or in the query.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HeadFields {
    /// The operation.
    pub operation: Option<BatchOperation>,
    /// Its options.
    #[schema(value_type = Option<Object>)]
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
    #[schema(value_type = WebhookUrl)]
    pub url: String,
    /// The secret that signs the message, `whsec_` and the base64 of 24 to 64 bytes. Without it the server makes one.
    #[serde(default)]
    #[schema(pattern = "^whsec_([A-Za-z0-9+/]{4}){8,21}$")]
    pub secret: Option<String>,
}

impl HeadFields {
    /// Returns the head of a batch.
    ///
    /// # Errors
    /// [`ApiError::Pipeline`] if the operation is missing.
    pub fn into_head(self, idempotency_key: Option<String>) -> Result<BatchHead, ApiError> {
        let missing = || FieldErrors::from_options(vec![missing_operation()]);
        let operation = self.operation.ok_or_else(missing)?;
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

enum SubmissionFormat {
    /// One of the formats of every route.
    Body(BodyFormat),
    /// One JSON value a line.
    Ndjson,
}

impl SubmissionFormat {
    fn from_headers(headers: &HeaderMap) -> Result<Self, ApiError> {
        let value = headers
            .get(CONTENT_TYPE)
            .and_then(|value| value.to_str().ok());
        let essence = value.map(|text| text.split(';').next().unwrap_or_default().trim());
        match essence {
            Some("application/x-ndjson" | "application/ndjson" | "application/jsonl") => {
                Ok(Self::Ndjson)
            }
            _ => BodyFormat::from_headers(headers).map(Self::Body),
        }
    }

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

/// A submission: its head, and its entries to be read.
pub struct BatchBody {
    /// The head. Empty if the body adds items to a batch.
    pub head: HeadFields,
    /// The entries.
    pub entries: Entries,
    /// The reservation of the body. Hold it until all entries are read.
    pub reservation: SharedReservation,
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
        let format = SubmissionFormat::from_headers(request.headers())?;
        let query = SentOptions::from_query(request.uri().query().unwrap_or_default())?;
        let reservation = format.reserve(&mut request, state)?;
        let (entries, head, errors) = match format {
            SubmissionFormat::Ndjson => {
                let mut lines = Lines::new(request, state)?;
                let head = match has_head {
                    true => Some(Value::Object(lines.head().await?)),
                    false => None,
                };
                let entries = Entries::Lines(Box::new(lines));
                (entries, SentOptions::from_tree(head), Vec::new())
            }
            SubmissionFormat::Body(format) => {
                let body = read_body::<Items>(format, request, state, &reservation).await?;
                let ReadBody {
                    content,
                    options,
                    errors,
                    ..
                } = body;
                (Entries::Read(content.into_entries()), options, errors)
            }
        };
        Ok(Self {
            head: head_of(query.overridden_by(head), errors, has_head)?,
            entries,
            reservation,
        })
    }
}

/// Reads the description of a batch. A body that adds items to a batch has none.
fn head_of(
    sent: SentOptions,
    mut errors: Vec<FieldError>,
    has_head: bool,
) -> Result<HeadFields, ApiError> {
    let mut tree = match sent.into_tree(&Shape::from_schema::<HeadFields>()) {
        Ok(tree) => tree,
        Err(wrong) => {
            errors.extend(wrong);
            Map::new()
        }
    };
    if has_head {
        errors.extend(IMAGES.into_iter().filter_map(|name| {
            tree.shift_remove(name).map(|_| FieldError {
                did_you_mean: Some("items".to_owned()),
                ..FieldError::new(name, "is unknown; did you mean `items`?")
            })
        }));
        if errors.is_empty() && !tree.contains_key("operation") {
            errors.push(missing_operation());
        }
    } else {
        let detail = "is unknown: items are added with the options of their batch";
        let names = tree.keys().map(|name| FieldError::new(name, detail));
        errors.extend(names);
    }
    let head = fields::read(&Value::Object(tree), "option");
    match (head, errors.is_empty()) {
        (Ok(head), true) => Ok(head),
        (head, _) => {
            if has_head {
                errors.extend(head.err().map_or_else(Vec::new, |head| head.errors));
            }
            errors.truncate(fields::MAX_ERRORS);
            Err(FieldErrors::from_options(errors).into())
        }
    }
}

/// The fields of other routes that are `items` here.
const IMAGES: [&str; 4] = ["images", "image", "files", "faces"];

fn missing_operation() -> FieldError {
    let names = BatchOperation::ALL.map(BatchOperation::name).join(", ");
    FieldError {
        allowed: Some(names.clone()),
        ..FieldError::new("operation", format!("is missing; send one of {names}"))
    }
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
