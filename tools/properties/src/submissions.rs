//! The bodies of submissions of batches.

use std::io;

use axum::body::Body;
use bytes::Bytes;
use facescan::http::{
    AppState,
    extract::batch_body::{BatchBody, HeadFields},
};
use facescan_batches::submission::{EntryError, ItemEntry};
use facescan_pipeline::ingest::source;
use facescan_store::JsonText;
use futures::stream;
use serde_json::Value;

use crate::{
    bodies::submission,
    server::{in_pieces, refused, request, whole, with_server},
};

const NDJSON: &str = "application/x-ndjson";

/// The deepest tree that every format reads.
const MAX_DEPTH: usize = 100;

/// The longest text of the error of an entry, in bytes.
const MAX_TEXT: usize = 700;

/// The lines that are also read alone.
const LINES_ALONE: usize = 8;

/// The head and the entries of a submission. An entry is its content, or the code of its error.
pub(crate) type Submission = (String, Vec<Result<String, &'static str>>);

/// Each line that is not blank is one entry, and means the same among other lines as alone. A body that breaks off gives
/// the entries before the break.
pub fn ndjson(body: &[u8]) {
    check(NDJSON, body);
    let (_, entries) = read(NDJSON, body, false).expect("without a head, every line is an entry");
    let lines = body.split(|byte| *byte == b'\n');
    let lines: Vec<&[u8]> = lines.filter(|line| !line.trim_ascii().is_empty()).collect();
    assert_eq!(entries.len(), lines.len(), "each line is one entry");
    for (line, entry) in lines.iter().zip(&entries).take(LINES_ALONE) {
        let (_, alone) = read(NDJSON, line, false).expect("a line is an entry");
        assert_eq!(
            alone.as_slice(),
            std::slice::from_ref(entry),
            "a line depends on others"
        );
    }
    let before = with_server(async |state| broken_off(state, &body[..body.len() / 2]).await);
    assert!(entries.starts_with(&before), "{before:?} before the break");
}

/// Reads a submission of a batch and items for a batch. Neither depends on how the body arrives.
pub(crate) fn check(content_type: &str, body: &[u8]) {
    for has_head in [true, false] {
        with_server(async |state| {
            let at_once = read_body(state, content_type, whole(body), has_head).await;
            let piecewise = read_body(state, content_type, in_pieces(body), has_head).await;
            assert_eq!(
                at_once, piecewise,
                "the entries depend on how the body arrives"
            );
            if let Ok((_, entries)) = at_once {
                assert!(
                    entries.len() <= body.len().max(1),
                    "{} entries",
                    entries.len()
                );
            }
        });
    }
}

/// The same submission has the same entries in JSON, in msgpack and as lines.
pub(crate) fn check_formats(tree: &Value, packed: &[u8]) {
    let text = tree.to_string();
    let Ok((head, entries)) = submission(false, text.as_bytes()) else {
        return;
    };
    assert_eq!(
        submission(true, packed),
        Ok((head.clone(), entries.clone())),
        "{text}"
    );
    let Some(Value::Array(items)) = tree.get("items") else {
        return;
    };
    let mut first = tree.clone();
    if let Value::Object(fields) = &mut first {
        fields.remove("items");
    }
    let lines: String = std::iter::once(&first)
        .chain(items)
        .map(|line| format!("{line}\n"))
        .collect();
    assert_eq!(
        read(NDJSON, lines.as_bytes(), true),
        Ok((head, entries)),
        "{lines}"
    );
}

/// Returns whether a tree is shallow enough for every format.
pub(crate) fn is_shallow(tree: &Value) -> bool {
    fn depth(tree: &Value) -> usize {
        match tree {
            Value::Array(list) => 1 + list.iter().map(depth).max().unwrap_or(0),
            Value::Object(fields) => 1 + fields.values().map(depth).max().unwrap_or(0),
            _ => 0,
        }
    }
    depth(tree) <= MAX_DEPTH
}

/// Reads a whole submission.
pub(crate) fn read(
    content_type: &str,
    body: &[u8],
    has_head: bool,
) -> Result<Submission, &'static str> {
    with_server(async |state| read_body(state, content_type, whole(body), has_head).await)
}

async fn read_body(
    state: &AppState,
    content_type: &str,
    body: Body,
    has_head: bool,
) -> Result<Submission, &'static str> {
    let request = request(content_type, body);
    let read = BatchBody::read(request, state, has_head).await;
    let mut read = read.map_err(|error| refused(&error))?;
    let mut entries = Vec::new();
    loop {
        let next = read.entries.next(state).await;
        let next = next.map_err(|error| refused(&error))?;
        if next.is_empty() {
            return Ok((described(read.head), entries));
        }
        entries.extend(next.iter().map(entry));
    }
}

/// Reads the entries of a body whose connection breaks off after `arrived`. Returns those before the error.
async fn broken_off(state: &AppState, arrived: &[u8]) -> Vec<Result<String, &'static str>> {
    let parts = [
        Ok(Bytes::copy_from_slice(arrived)),
        Err(io::Error::other("the connection broke off")),
    ];
    let request = request(NDJSON, Body::from_stream(stream::iter(parts)));
    let read = BatchBody::read(request, state, false).await;
    let mut read = read.unwrap_or_else(|error| panic!("lines are read later: {error}"));
    let mut entries = Vec::new();
    loop {
        match read.entries.next(state).await {
            Ok(next) => {
                assert!(!next.is_empty(), "a body that breaks off has no end");
                entries.extend(next.iter().map(entry));
            }
            Err(error) => {
                refused(&error);
                return entries;
            }
        }
    }
}

/// Returns the head as text, or the code of its error.
fn described(head: HeadFields) -> String {
    match head.into_head(None) {
        Ok(head) => format!("{head:?}"),
        Err(error) => refused(&error).to_owned(),
    }
}

/// Checks an entry, and returns what it means.
fn entry(entry: &Result<ItemEntry, EntryError>) -> Result<String, &'static str> {
    match entry {
        Ok(item) => {
            if let Some(text) = item.metadata.as_ref().and_then(JsonText::get) {
                check_metadata(text);
            }
            let content = match &item.content {
                Some(source::Content::Bytes(bytes)) => format!("{} bytes {bytes:?}", bytes.len()),
                content => format!("{content:?}"),
            };
            Ok(format!(
                "{:?} {content} {:?} {:?} {:?}",
                item.id, item.source, item.source_url, item.metadata
            ))
        }
        Err(error) => {
            let text = error.to_string();
            assert!(text.len() <= MAX_TEXT, "{} bytes: {text}", text.len());
            Err(error.code())
        }
    }
}

/// The database keeps metadata as JSON, so JSON must be able to hold it.
fn check_metadata(text: &str) {
    assert!(text.len() <= JsonText::MAX_BYTES);
    let read = serde_json::from_str::<Value>(text);
    assert!(
        read.is_ok(),
        "metadata that cannot be read again: {text:.200}"
    );
}
