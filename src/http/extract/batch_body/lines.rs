//! The lines of an NDJSON body.

use std::sync::Arc;

use axum::{body::BodyDataStream, extract::Request};
use bytes::BytesMut;
use facescan_batches::submission::{EntryError, ItemEntry};
use facescan_fields::{FieldErrors, wording};
use futures::StreamExt;
use serde::de::DeserializeSeed as _;
use serde_json::{Map, Value, error::Category};
use tokio::task::coop::consume_budget;

use super::{
    super::{
        arriving::incomplete,
        body::Fields,
        entry::{Entry, EntrySeed},
        parsing::{ParseError, from_json, parse},
        texts,
    },
    SMALL_BODY,
    items::{ITEM_FIELDS, item},
};
use crate::http::{AppState, error::ApiError, middleware::context};

/// One job of the CPU pool parses several lines, because it waits for a thread as long as the job of an image does.
const LINES_PER_JOB: usize = 64;
/// The number of bytes after which a job has enough lines.
const BYTES_PER_JOB: usize = 4 << 20;

/// The bytes of a line besides the image in base64.
const OTHER_FIELDS: u64 = 64 << 10;

/// A longer line is a large part of the memory of its request.
const LONG_LINE: usize = 1 << 20;

/// The number of refused lines after which a body is not read further. Millions of them take as long as a batch.
const MAX_REFUSED: usize = 100_000;

/// The longest first line in bytes.
const MAX_HEAD_BYTES: usize = 256 << 10;

/// The lines of a body, read one at a time.
pub struct Lines {
    tenant: Arc<str>,
    body: BodyDataStream,
    buffer: BytesMut,
    /// The bytes of the buffer that have no line feed.
    searched: usize,
    /// The longest line in bytes. Longer lines are skipped.
    limit: usize,
    is_at_end: bool,
    /// The number of lines that were refused.
    refused: usize,
    /// An error of the body that follows whole lines.
    failure: Option<ApiError>,
}

/// A line, or a note that it was too long.
enum Line {
    Whole(BytesMut),
    TooLong,
}

impl Lines {
    /// Reads the lines of a request. The whole body can have any length.
    pub(super) fn new(request: Request, state: &AppState) -> Result<Self, ApiError> {
        // Base64 takes four bytes for three.
        let image = state.config.limits.max_image_bytes;
        let limit = image
            .div_ceil(3)
            .saturating_mul(4)
            .saturating_add(OTHER_FIELDS);
        Ok(Self {
            tenant: context::from_request(&request)?.principal.tenant,
            body: request.into_body().into_data_stream(),
            buffer: BytesMut::new(),
            searched: 0,
            limit: usize::try_from(limit).unwrap_or(usize::MAX),
            is_at_end: false,
            refused: 0,
            failure: None,
        })
    }

    /// Reads the head of a batch from the first line.
    pub(super) async fn head(&mut self) -> Result<Map<String, Value>, ApiError> {
        match self.next().await? {
            Some(Line::Whole(line)) if line.len() <= MAX_HEAD_BYTES => {
                let wrong = |detail: &str| {
                    ApiError::invalid_body(format!(
                        "the first line must describe the batch: {detail}"
                    ))
                };
                if line.trim_ascii_start().first() != Some(&b'{') {
                    return Err(wrong("it is not a JSON object"));
                }
                let head: Result<Fields, _> = from_json(&line);
                head.map(|head| head.0).map_err(|error| match error {
                    ParseError::Syntax(detail) => wrong(&detail),
                    ParseError::Field(error) => FieldErrors::from_options(vec![error]).into(),
                })
            }
            Some(_) => Err(ApiError::invalid_body(format!(
                "the first line is longer than {MAX_HEAD_BYTES} bytes"
            ))),
            None => Err(ApiError::invalid_body(
                "the first line must describe the batch, but the body is empty",
            )),
        }
    }

    /// Reads the entries of the next lines. Returns an empty list after the last one.
    pub(super) async fn entries(
        &mut self,
        state: &AppState,
    ) -> Result<Vec<Result<ItemEntry, EntryError>>, ApiError> {
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        let (mut lines, mut bytes) = (Vec::new(), 0);
        while lines.len() < LINES_PER_JOB && bytes < BYTES_PER_JOB {
            let line = match self.next().await {
                Ok(Some(line)) => line,
                Ok(None) => break,
                Err(error) if lines.is_empty() => return Err(error),
                // The lines before are written first, so that the next request continues after them.
                Err(error) => {
                    self.failure = Some(error);
                    break;
                }
            };
            bytes += match &line {
                Line::Whole(line) => line.len(),
                Line::TooLong => 0,
            };
            lines.push(line);
        }
        let limit = state.config.limits.max_image_bytes;
        let read = move || Ok(lines.into_iter().map(|line| entry(line, limit)).collect());
        let entries: Vec<Result<ItemEntry, EntryError>> = if bytes <= SMALL_BODY {
            read()?
        } else {
            parse(state, Arc::clone(&self.tenant), bytes, read).await?
        };
        self.refused += entries.iter().filter(|entry| entry.is_err()).count();
        if self.refused > MAX_REFUSED {
            let detail =
                format!("more than {MAX_REFUSED} lines are no items; the rest was not read");
            self.failure.get_or_insert(ApiError::invalid_body(detail));
        }
        Ok(entries)
    }

    /// Returns the next line that is not blank, without its end.
    async fn next(&mut self) -> Result<Option<Line>, ApiError> {
        loop {
            // Many short lines arrive at once, and other requests of this thread wait meanwhile.
            consume_budget().await;
            let line = self.read_line().await?;
            let is_blank = matches!(&line, Some(Line::Whole(line)) if line.trim_ascii().is_empty());
            if !is_blank {
                return Ok(line);
            }
        }
    }

    /// Adds bytes to the buffer. One with a long line grows by a quarter, because by itself it would double.
    fn add(&mut self, part: &[u8]) {
        let length = self.buffer.len() + part.len();
        if length > self.buffer.capacity().max(LONG_LINE) {
            let mut larger = BytesMut::with_capacity(length + length / 4);
            larger.extend_from_slice(&self.buffer);
            self.buffer = larger;
        }
        self.buffer.extend_from_slice(part);
    }

    async fn read_line(&mut self) -> Result<Option<Line>, ApiError> {
        let mut is_too_long = false;
        loop {
            let rest = &self.buffer[self.searched..];
            if let Some(at) = memchr::memchr(b'\n', rest) {
                let line = self.buffer.split_to(self.searched + at + 1);
                self.searched = 0;
                return Ok(Some(match is_too_long || line.len() > self.limit {
                    true => Line::TooLong,
                    false => Line::Whole(line),
                }));
            }
            self.searched = self.buffer.len();
            if self.buffer.len() > self.limit {
                // The rest of the line is read and forgotten.
                is_too_long = true;
                self.buffer.clear();
                self.searched = 0;
            }
            if self.is_at_end {
                let line = self.buffer.split();
                self.searched = 0;
                return Ok(match (is_too_long, line.is_empty()) {
                    (true, _) => Some(Line::TooLong),
                    (false, true) => None,
                    (false, false) => Some(Line::Whole(line)),
                });
            }
            match self.body.next().await {
                None => self.is_at_end = true,
                Some(Ok(part)) => self.add(&part),
                Some(Err(error)) => return Err(incomplete(&error)),
            }
        }
    }
}

/// Parses a line. This is CPU work.
fn entry(line: Line, limit: u64) -> Result<ItemEntry, EntryError> {
    match line {
        Line::TooLong => Err(EntryError::TooLarge { limit }),
        Line::Whole(mut line) => {
            texts::prepare_json(&mut line)
                .map_err(|error| EntryError::Malformed(error.to_string().into()))?;
            item(read_entry(&line).map_err(|error| malformed(&error))?)
        }
    }
}

fn read_entry(line: &[u8]) -> Result<Entry, serde_json::Error> {
    let mut parser = serde_json::Deserializer::from_slice(line);
    let entry = EntrySeed(ITEM_FIELDS).deserialize(&mut parser)?;
    parser.end()?;
    Ok(entry)
}

fn malformed(error: &serde_json::Error) -> EntryError {
    let detail = match error.classify() {
        Category::Data => wording::reworded(String::new(), &wording::data_message(error)).detail,
        Category::Io | Category::Syntax | Category::Eof => {
            format!("it is not valid JSON: {}", wording::json_error(error))
        }
    };
    EntryError::Malformed(detail.into())
}
