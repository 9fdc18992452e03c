//! Limits the texts of JSON and msgpack bodies before they are parsed.
//!
//! Only the bytes of images and vectors may be long. The errors of a parser quote every other text, several times its length of
//! memory.

use memchr::{memchr, memchr2};
use rmp::Marker;

/// The maximum length of a text, in bytes.
const MAX_TEXT_BYTES: usize = 64 << 10;

/// The fields whose value may have any length.
const LONG_FIELDS: [&[u8]; 2] = [b"data", b"embedding"];

/// The error of a body with a text that is too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a text or a name has more than {MAX_TEXT_BYTES} bytes; only `data` and `embedding` may be longer"
)]
pub(super) struct LongText;

/// Checks the texts of a JSON body. The rest of it may be malformed.
pub(super) fn check_json(body: &[u8]) -> Result<(), LongText> {
    let mut position = 0;
    let mut before: &[u8] = b"";
    while let Some(start) = memchr(b'"', &body[position..]) {
        let between = &body[position..position + start];
        let text = json_text(&body[position + start + 1..]);
        let is_value = between.trim_ascii() == b":";
        check(text, is_value && LONG_FIELDS.contains(&before))?;
        before = text;
        position = (position + start + text.len() + 2).min(body.len());
    }
    Ok(())
}

/// Returns the text up to its closing quote.
fn json_text(rest: &[u8]) -> &[u8] {
    let mut end = 0;
    while let Some(at) = memchr2(b'"', b'\\', &rest[end..]) {
        if rest[end + at] == b'"' {
            return &rest[..end + at];
        }
        end = (end + at + 2).min(rest.len());
    }
    rest
}

/// Checks the texts of a msgpack body. The rest of it may be malformed.
pub(super) fn check_msgpack(mut rest: &[u8]) -> Result<(), LongText> {
    let mut before: &[u8] = b"";
    while let Some((marker, after)) = rest.split_first() {
        let marker = Marker::from_u8(*marker);
        let (header, content) = lengths(marker, after);
        let Some((content, next)) = after
            .get(header..)
            .and_then(|after| after.split_at_checked(content))
        else {
            // The parser finds the end of the body too.
            return Ok(());
        };
        check(content, LONG_FIELDS.contains(&before))?;
        before = content;
        rest = next;
    }
    Ok(())
}

/// Returns the lengths of what follows a marker: of the header, and of the content. The content of lists and maps follows as
/// values of its own.
fn lengths(marker: Marker, after: &[u8]) -> (usize, usize) {
    let stated = |bytes: usize| {
        let stated = after.get(..bytes).unwrap_or_default();
        stated
            .iter()
            .fold(0, |length, byte| length << 8 | usize::from(*byte))
    };
    match marker {
        Marker::FixStr(length) => (0, usize::from(length)),
        Marker::Str8 | Marker::Bin8 => (1, stated(1)),
        Marker::Str16 | Marker::Bin16 => (2, stated(2)),
        Marker::Str32 | Marker::Bin32 => (4, stated(4)),
        // An extension has a type beside its length.
        Marker::Ext8 => (2, stated(1)),
        Marker::Ext16 => (3, stated(2)),
        Marker::Ext32 => (5, stated(4)),
        Marker::FixExt1 => (1, 1),
        Marker::FixExt2 => (1, 2),
        Marker::FixExt4 => (1, 4),
        Marker::FixExt8 => (1, 8),
        Marker::FixExt16 => (1, 16),
        Marker::Array16 | Marker::Map16 => (2, 0),
        Marker::Array32 | Marker::Map32 => (4, 0),
        Marker::U8 | Marker::I8 => (0, 1),
        Marker::U16 | Marker::I16 => (0, 2),
        Marker::U32 | Marker::I32 | Marker::F32 => (0, 4),
        Marker::U64 | Marker::I64 | Marker::F64 => (0, 8),
        Marker::FixPos(_)
        | Marker::FixNeg(_)
        | Marker::FixMap(_)
        | Marker::FixArray(_)
        | Marker::Null
        | Marker::True
        | Marker::False
        | Marker::Reserved => (0, 0),
    }
}

fn check(text: &[u8], may_be_long: bool) -> Result<(), LongText> {
    match text.len() <= MAX_TEXT_BYTES || may_be_long {
        true => Ok(()),
        false => Err(LongText),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn checked(body: &Value) -> bool {
        let json = check_json(body.to_string().as_bytes());
        let packed = rmp_serde::to_vec_named(body).unwrap();
        assert_eq!(check_msgpack(&packed), json);
        json.is_ok()
    }

    #[test]
    fn only_images_and_vectors_are_long() {
        let long = "x".repeat(MAX_TEXT_BYTES + 1);
        for (body, expected) in [
            (json!({"images": [{"id": "a", "data": long}]}), true),
            (
                json!({"faces": [{"embedding": long, "contract": "a"}]}),
                true,
            ),
            (json!({"images": [{"id": long}]}), false),
            (json!({"images": long}), false),
            (json!({ long.clone(): 1 }), false),
            (json!(["data", long]), false),
            (json!({"data": {"a": long}}), false),
            (
                json!({"data": 1.5, "b": [null, true, -7, 70_000, "\\\"\n", {}], "c": long}),
                false,
            ),
            (json!({"a": &long[1..]}), true),
        ] {
            // msgpack has no sign between a name and its value.
            let is_list = body.is_array();
            match is_list {
                true => assert!(check_json(body.to_string().as_bytes()).is_err()),
                false => assert_eq!(checked(&body), expected, "{body:.80}"),
            }
        }
    }

    #[test]
    fn escapes_and_ends_do_not_mislead() {
        let long = "x".repeat(MAX_TEXT_BYTES + 1);
        for (json, expected) in [
            (format!(r#"{{"data" :  "{long}"#), true),
            (format!(r#"{{"a\"data":"{long}"}}"#), false),
            (format!(r#"{{"data":"\\","{long}"#), false),
            (r#"{"a":"\"#.to_owned(), true),
            (r#"""""#.to_owned(), true),
        ] {
            assert_eq!(check_json(json.as_bytes()).is_ok(), expected, "{json:.20}");
        }
        assert_eq!(check_msgpack(b"\xDB\xFF\xFF\xFF\xFF"), Ok(()));
        assert_eq!(check_msgpack(b"\xC7"), Ok(()));
    }
}
