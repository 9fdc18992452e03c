//! The JSON of requests and responses, and numbers in it.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::{Value, json};

use super::app::image_file;

/// Returns a photo as an image of a request in JSON.
pub fn photo(name: &str) -> Value {
    json!({"data": BASE64_STANDARD.encode(image_file(name))})
}

/// Returns the values of a text with one in each line.
pub fn lines(text: &[u8]) -> Vec<Value> {
    let text = std::str::from_utf8(text).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {text}")))
        .collect()
}

/// Checks fields of an object, and of objects in it: `assert_fields!(batch, {"state": "done"})`. It may have others.
macro_rules! assert_fields {
    ($found:expr, $fields:tt) => {
        $crate::support::values::check_fields(&$found, &serde_json::json!($fields))
    };
}
pub(crate) use assert_fields;

#[track_caller]
pub fn check_fields(found: &Value, expected: &Value) {
    fn has(found: &Value, expected: &Value) -> bool {
        match expected {
            Value::Object(fields) if !fields.is_empty() => {
                let mut fields = fields.iter();
                fields.all(|(name, value)| has(&found[name], value))
            }
            expected => found == expected,
        }
    }
    assert!(has(found, expected), "{found} does not have {expected}");
}

/// Returns the 32-bit numbers of a tensor.
pub fn floats(values: &[u8]) -> Vec<f32> {
    let values = values.as_chunks::<4>().0.iter();
    values.map(|bytes| f32::from_le_bytes(*bytes)).collect()
}

/// Returns the largest difference of two numbers at the same place, or NaN if one of them is NaN.
pub fn difference(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    let differences = a.iter().zip(b).map(|(a, b)| (a - b).abs());
    differences.max_by(f32::total_cmp).unwrap_or(0.0)
}

/// Returns the cosine of two vectors of length 1.
pub fn cosine(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}
