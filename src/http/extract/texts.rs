//! Limits the texts of JSON and msgpack bodies before they are parsed.
//!
//! Only the bytes of images may be long. A parser copies every other text when it quotes it in an error, several times its length.

use std::{mem, ops::Range};

use bytes::{Bytes, BytesMut};
use facescan_fields::{MAX_NAME_BYTES, wording};
use memchr::{memchr, memchr2};
use rmp::Marker;

use super::body::MAX_NESTING;

/// The maximum length of a text, in bytes.
const MAX_TEXT_BYTES: usize = 64 << 10;

/// The field whose value may have any length.
const LONG_FIELD: &[u8] = b"data";

/// The error of a body with a text that is too long.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a text or a name has more than {MAX_TEXT_BYTES} bytes; only `data` may be longer")]
pub(super) struct LongText {
    /// The field whose value it is, if it is the value of one.
    pub field: Option<String>,
}

impl LongText {
    fn from_field(name: &[u8]) -> Self {
        let name = String::from_utf8_lossy(name);
        Self {
            field: (!name.is_empty()).then(|| wording::beginning(&name, MAX_NAME_BYTES)),
        }
    }
}

/// Checks the texts of a JSON body, and prepares the long ones for the parser as [`prepare_json`]. Does not copy a body that
/// nobody else holds.
pub(super) fn prepared_json(body: Bytes) -> Result<Bytes, LongText> {
    let escaped = check_json(&body)?;
    if escaped.is_empty() {
        return Ok(body);
    }
    let mut body = BytesMut::from(body);
    for text in escaped {
        replace_escapes(&mut body[text]);
    }
    Ok(body.freeze())
}

/// Checks the texts of a JSON body, and replaces the escapes of the long ones: the parser would copy a text that has any, and the
/// image that is decoded from it would be a third copy.
pub(super) fn prepare_json(body: &mut [u8]) -> Result<(), LongText> {
    for text in check_json(body)? {
        replace_escapes(&mut body[text]);
    }
    Ok(())
}

/// Checks the texts of a JSON body. The rest of it may be malformed. Returns where long texts are that have escapes.
fn check_json(body: &[u8]) -> Result<Vec<Range<usize>>, LongText> {
    let mut escaped = Vec::new();
    let mut position = 0;
    let mut before: &[u8] = b"";
    while let Some(start) = memchr(b'"', &body[position..]) {
        let between = &body[position..position + start];
        let from = position + start + 1;
        let (text, has_escapes) = json_text(&body[from..]);
        let is_value = between.trim_ascii() == b":";
        // The first text of a list comes behind the name of the list.
        let is_of_field =
            is_value || between.starts_with(b":") && between.trim_ascii_end().ends_with(b"[");
        if text.len() > MAX_TEXT_BYTES && !(is_value && before == LONG_FIELD) {
            return Err(LongText::from_field(if is_of_field { before } else { b"" }));
        }
        if has_escapes && text.len() > MAX_TEXT_BYTES {
            escaped.push(from..from + text.len());
        }
        before = text;
        position = (from + text.len() + 1).min(body.len());
    }
    Ok(escaped)
}

/// Returns the text up to its closing quote, and whether it has escapes.
fn json_text(rest: &[u8]) -> (&[u8], bool) {
    let mut end = 0;
    let mut has_escapes = false;
    while let Some(at) = memchr2(b'"', b'\\', &rest[end..]) {
        if rest[end + at] == b'"' {
            return (&rest[..end + at], has_escapes);
        }
        has_escapes = true;
        end = (end + at + 2).min(rest.len());
    }
    (rest, has_escapes)
}

/// Replaces the escapes in the base64 of an image by the character and as many spaces as fill the place, which base64 may have
/// anywhere. A character that base64 cannot have becomes `!`, which it cannot have either.
fn replace_escapes(text: &mut [u8]) {
    let mut position = 0;
    while let Some(at) = memchr(b'\\', &text[position..]) {
        let start = position + at;
        let Some((byte, length)) = escape(&text[start..]) else {
            // The parser refuses it.
            return;
        };
        let byte = match byte {
            b'"' | b'\\' => b'!',
            byte if byte.is_ascii_graphic() => byte,
            byte if byte.is_ascii_whitespace() => b' ',
            _ => b'!',
        };
        text[start..start + length].fill(b' ');
        text[start] = byte;
        position = start + length;
    }
}

/// Returns the character of an escape, or zero if it is not ASCII, and the length of the escape.
fn escape(text: &[u8]) -> Option<(u8, usize)> {
    match text.get(1)? {
        b'n' | b'r' | b't' | b'f' => Some((b' ', 2)),
        b'b' => Some((0, 2)),
        byte @ (b'"' | b'\\' | b'/') => Some((*byte, 2)),
        b'u' => {
            let digits = std::str::from_utf8(text.get(2..6)?).ok()?;
            let is_hexadecimal = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
            let code = u16::from_str_radix(digits, 16).ok()?;
            is_hexadecimal.then_some((u8::try_from(code).unwrap_or(0), 6))
        }
        _ => None,
    }
}

/// A list or a map of msgpack that has values left.
struct Open<'a> {
    /// The number of values that are still to come, with the keys of a map.
    left: u64,
    is_map: bool,
    /// The last key of the map.
    key: &'a [u8],
}

impl<'a> Open<'a> {
    /// Counts a value. Returns its key. A key has none, and neither has an entry of a list.
    fn count(&mut self, content: &'a [u8]) -> &'a [u8] {
        let is_key = self.is_map && self.left.is_multiple_of(2);
        self.left -= 1;
        let key = mem::replace(&mut self.key, if is_key { content } else { b"" });
        if is_key { b"" } else { key }
    }
}

/// Checks the texts of a msgpack body. The rest of it may be malformed.
pub(super) fn check_msgpack(mut rest: &[u8]) -> Result<(), LongText> {
    let mut open: Vec<Open> = Vec::new();
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
        let key = open
            .last_mut()
            .map_or(&b""[..], |outer| outer.count(content));
        if content.len() > MAX_TEXT_BYTES && key != LONG_FIELD {
            return Err(LongText::from_field(key));
        }
        if let Some((left, is_map)) = values(marker, after) {
            open.push(Open {
                left,
                is_map,
                key: b"",
            });
        }
        while open.last().is_some_and(|inner| inner.left == 0) {
            open.pop();
        }
        // The parser reads nothing behind the first value, and nothing that is deeper.
        if open.is_empty() || open.len() > MAX_NESTING {
            return Ok(());
        }
        rest = next;
    }
    Ok(())
}

/// Returns the number that the bytes behind a marker state.
fn stated(after: &[u8], bytes: usize) -> usize {
    let stated = after.get(..bytes).unwrap_or_default();
    stated
        .iter()
        .fold(0, |length, byte| length << 8 | usize::from(*byte))
}

/// Returns the number of values of a list or a map, and whether it is a map.
fn values(marker: Marker, after: &[u8]) -> Option<(u64, bool)> {
    let (count, is_map) = match marker {
        Marker::FixArray(count) => (usize::from(count), false),
        Marker::Array16 => (stated(after, 2), false),
        Marker::Array32 => (stated(after, 4), false),
        Marker::FixMap(count) => (usize::from(count), true),
        Marker::Map16 => (stated(after, 2), true),
        Marker::Map32 => (stated(after, 4), true),
        _ => return None,
    };
    Some((count as u64 * if is_map { 2 } else { 1 }, is_map))
}

/// Returns the lengths of what follows a marker: of the header, and of the content. The content of lists and maps follows as
/// values of its own.
fn lengths(marker: Marker, after: &[u8]) -> (usize, usize) {
    let stated = |bytes| stated(after, bytes);
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn long() -> String {
        "x".repeat(MAX_TEXT_BYTES + 1)
    }

    fn packed(body: &Value) -> Vec<u8> {
        rmp_serde::to_vec_named(body).unwrap()
    }

    #[test]
    fn only_the_bytes_of_images_are_long() {
        let long = long();
        for (body, expected) in [
            (json!({"images": [{"id": "a", "data": long}]}), true),
            (
                json!({"images": [{"data": long, "id": "data"}, {"data": long}]}),
                true,
            ),
            (
                json!({"faces": [{"embedding": long, "vector_space": "a"}]}),
                false,
            ),
            (json!({"images": [{"id": long}]}), false),
            (json!({"images": long}), false),
            (json!({ long.clone(): 1 }), false),
            (json!({"data": {"a": long}}), false),
            (json!({"data": [long]}), false),
            // A value with the text of the key is no key.
            (json!(["data", long]), false),
            (json!({"images": [{"id": "data"}, long]}), false),
            (json!({"images": ["data", {"id": long}]}), false),
            (json!({"a": "data", "b": long}), false),
            (json!({"data": "data", "id": long}), false),
            (json!({"data": 1, "id": long}), false),
            (json!({"data": {"data": {}}, "id": long}), false),
            (json!({"a": {"data": "data"}, "b": long}), false),
            (
                json!({"data": 1.5, "b": [null, true, -7, 70_000, "\\\"\n", {}], "c": long}),
                false,
            ),
            (json!({"a": &long[1..]}), true),
        ] {
            let json = check_json(body.to_string().as_bytes());
            assert_eq!(json.is_ok(), expected, "{body:.80}");
            assert_eq!(
                check_msgpack(&packed(&body)).is_ok(),
                expected,
                "{body:.80}"
            );
        }
    }

    #[test]
    fn maps_whose_keys_are_maps_do_not_mislead() {
        let long = packed(&long().into());
        let map =
            |values: &[&[u8]]| [&[0x80 | (values.len() / 2) as u8], &*values.concat()].concat();
        let (data, nil) = (b"\xA4data".as_slice(), b"\xC0".as_slice());
        for (body, expected) in [
            (map(&[data, &long]), true),
            (map(&[&map(&[nil, data]), &long]), false),
            (map(&[&map(&[data, nil]), &long]), false),
            (map(&[nil, data, nil, &long]), false),
            (map(&[nil, data, data, &long]), true),
            (map(&[&long, data]), false),
            // The parser reads nothing behind the first value.
            ([nil, &long].concat(), true),
        ] {
            assert_eq!(check_msgpack(&body).is_ok(), expected, "{:?}", &body[..9]);
        }
        let named = check_msgpack(&map(&[b"\xA5image", &long])).unwrap_err();
        assert_eq!(named.field.as_deref(), Some("image"));
        let deep = [vec![0x91; MAX_NESTING - 1], long.clone()].concat();
        assert!(check_msgpack(&deep).is_err());
    }

    #[test]
    fn the_field_of_a_long_text_is_named() {
        let long = long();
        for (body, field) in [
            (json!({"image": long}), Some("image")),
            (json!({"images": [long]}), Some("images")),
            (json!({"images": [{"dta": long}]}), Some("dta")),
            (json!({ long.clone(): 1 }), None),
        ] {
            let error = check_json(body.to_string().as_bytes()).unwrap_err();
            assert_eq!(error.field.as_deref(), field, "{body:.80}");
        }
    }

    #[test]
    fn escapes_and_ends_do_not_mislead() {
        let long = long();
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
        assert_eq!(check_msgpack(b"\xDF\xFF\xFF\xFF\xFF\xA0"), Ok(()));
    }

    #[test]
    fn the_escapes_of_long_texts_are_replaced_in_place() {
        let long = long();
        for (escaped, replaced) in [
            (r"a\/b\r\nc", "a/ b    c"),
            (r"\u002b\u000A\u003d", "+           =     "),
            (r#"\"\\\b\u00e9\u2028"#, "! ! ! !     !     "),
            // The parser refuses these.
            (r"a\qb", r"a\qb"),
            (r"\u+123", r"\u+123"),
        ] {
            let json = format!(r#"{{"id":"\/","data":"{long}{escaped}"}}"#);
            let read = prepared_json(Bytes::from(json)).unwrap();
            let expected = format!(r#"{{"id":"\/","data":"{long}{replaced}"}}"#);
            assert_eq!(read, expected, "{escaped}");
        }
        let short = r#"{"data":"\/"}"#;
        assert_eq!(prepared_json(Bytes::from(short)).unwrap(), short);
    }
}
