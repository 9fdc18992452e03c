//! Results of operations that make files. A stored result has the hashes of its files, and a response the files in base64.

use std::slice;

use base64::{display::Base64Display, prelude::BASE64_STANDARD};
use bytes::Bytes;
use facescan_pipeline::core::image_file::{ContentHash, hash_from_hex};
use serde::{Serialize, Serializer, ser::SerializeMap};
use serde_json::{Map, Value};

/// The field with the only file of an enhancement.
const ENHANCED: &str = "enhanced";
/// The field with the files of other operations.
const PROCESSED: &str = "processed";
/// The field of a file with its bytes.
const DATA: &str = "data";

/// A stored result and its files. It is written without a copy of the files.
#[derive(Debug)]
pub struct FilesResult {
    fields: Map<String, Value>,
    /// The bytes of each file. `None` if they are left out, or were erased.
    files: Vec<Option<Bytes>>,
}

/// Returns the hash of each file of a stored result.
pub fn file_hashes(fields: &Map<String, Value>) -> impl Iterator<Item = Option<ContentHash>> {
    described(fields).iter().map(|file| {
        let text = file.get(DATA)?.as_str()?;
        hash_from_hex(text).ok()
    })
}

/// Returns what a stored result says about each file.
fn described(fields: &Map<String, Value>) -> &[Value] {
    match (fields.get(ENHANCED), fields.get(PROCESSED)) {
        (Some(file), _) => slice::from_ref(file),
        (None, Some(Value::Array(files))) => files,
        (None, _) => &[],
    }
}

impl FilesResult {
    pub(super) fn new(fields: Map<String, Value>, files: Vec<Option<Bytes>>) -> Self {
        Self { fields, files }
    }

    /// Returns the number of bytes of the files.
    pub(super) fn bytes(&self) -> u64 {
        let files = self.files.iter().flatten();
        files.map(|file| file.len() as u64).sum()
    }
}

impl Serialize for FilesResult {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let files = described(&self.fields).iter().zip(&self.files);
        let mut files = files.map(|(fields, data)| File {
            fields,
            data: data.as_ref(),
        });
        let mut map = serializer.serialize_map(Some(self.fields.len()))?;
        for (name, value) in &self.fields {
            match (name.as_str(), value) {
                (ENHANCED, _) => map.serialize_entry(name, &files.next())?,
                (PROCESSED, Value::Array(_)) if !self.fields.contains_key(ENHANCED) => {
                    map.serialize_entry(name, &files.by_ref().collect::<Vec<_>>())?;
                }
                _ => map.serialize_entry(name, value)?,
            }
        }
        map.end()
    }
}

/// One file, with its bytes in the place of their hash.
struct File<'a> {
    fields: &'a Value,
    data: Option<&'a Bytes>,
}

impl Serialize for File<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Value::Object(fields) = self.fields else {
            return self.fields.serialize(serializer);
        };
        let count = fields.iter().filter(|(name, _)| self.has(name)).count();
        let mut map = serializer.serialize_map(Some(count))?;
        for (name, value) in fields.iter().filter(|(name, _)| self.has(name)) {
            match self.data.filter(|_| name == DATA) {
                Some(data) => map.serialize_entry(name, &Base64(data))?,
                None => map.serialize_entry(name, value)?,
            }
        }
        map.end()
    }
}

impl File<'_> {
    fn has(&self, field: &str) -> bool {
        field != DATA || self.data.is_some()
    }
}

struct Base64<'a>(&'a [u8]);

impl Serialize for Base64<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&Base64Display::new(self.0, &BASE64_STANDARD))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn result(stored: Value, files: Vec<Option<Bytes>>) -> FilesResult {
        let Value::Object(fields) = stored else {
            panic!("{stored} is no object");
        };
        FilesResult::new(fields, files)
    }

    #[test]
    fn files_take_the_places_of_their_hashes() {
        let (png, jpeg) = (Bytes::from_static(b"png"), Bytes::from_static(b"jpeg"));
        for (stored, files, expected) in [
            (
                json!({"faces": 1, "enhanced": {"format": "png", "data": "ab", "width": 2}}),
                vec![Some(png.clone())],
                r#"{"faces":1,"enhanced":{"format":"png","data":"cG5n","width":2}}"#,
            ),
            (
                json!({"processed": [{"data": "ab", "format": "png"}, {"data": "cd"}, {"data": "ef"}]}),
                vec![Some(png), None, Some(jpeg)],
                r#"{"processed":[{"data":"cG5n","format":"png"},{},{"data":"anBlZw=="}]}"#,
            ),
            (
                json!({"processed": [1], "x": {"data": "ab"}}),
                vec![None],
                r#"{"processed":[1],"x":{"data":"ab"}}"#,
            ),
        ] {
            let result = result(stored, files);
            let json = serde_json::to_string(&result).unwrap();
            assert_eq!(json, expected);
            let msgpack = rmp_serde::to_vec_named(&result).unwrap();
            let read: Value = rmp_serde::from_slice(&msgpack).unwrap();
            assert_eq!(read.to_string(), expected);
        }
    }

    #[test]
    fn the_files_of_a_stored_result_are_found_by_their_hashes() {
        let hash = "ab".repeat(32);
        for (stored, expected) in [
            (json!({"enhanced": {"data": hash}}), &[true][..]),
            (
                json!({"processed": [{"data": hash}, {"data": "other"}, {}]}),
                &[true, false, false],
            ),
            (json!({"faces": []}), &[]),
        ] {
            let result = result(stored, Vec::new());
            let found: Vec<_> = file_hashes(&result.fields)
                .map(|hash| hash.is_some())
                .collect();
            assert_eq!(found, expected);
        }
    }
}
