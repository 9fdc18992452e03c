//! Bodies that are cheap to send and dear to hold.

use crate::LARGE;

/// The length of most bodies, in bytes.
const LENGTH: usize = 1 << 20;

/// A body of about [`LENGTH`] bytes: a beginning, as many copies of a middle as fit, and an end.
fn filled(beginning: impl AsRef<[u8]>, middle: impl AsRef<[u8]>, end: impl AsRef<[u8]>) -> Vec<u8> {
    let (beginning, middle, end) = (beginning.as_ref(), middle.as_ref(), end.as_ref());
    let copies = (LENGTH - beginning.len() - end.len()) / middle.len();
    [beginning, &middle.repeat(copies), end].concat()
}

/// JSON bodies, most of which no route takes.
pub fn json() -> Vec<Vec<u8>> {
    let mut bodies = Vec::new();
    for field in ["images", "items", "faces", "options", "x"] {
        for value in ["0", "{}", "{\"\":0}", "[[[[0]]]]"] {
            let beginning = format!("{{\"operation\":\"detect\",\"{field}\":[");
            bodies.push(filled(beginning, format!("{value},"), "0]}"));
        }
    }
    for (beginning, middle, end) in [
        ("", "[", ""),
        ("", "{\"a\":", ""),
        ("{\"name\":\"", "x", "\"}"),
        ("{\"name\":\"", "\\u0041", "\"}"),
        ("{\"name\":\"", "\\u0000", "\"}"),
        ("{\"metadata\":[", "0,", "0]}"),
        ("{\"", "k", "\":0}"),
        ("", " ", "0"),
        ("", "1", ""),
        ("{", "\"\":0,", "\"a\":0}"),
        ("{\"images\":[{\"data\":\"", "AAAA", "\"}]}"),
        ("{\"images\":[{\"data\":\"", "AAA\\n", "\"}]}"),
        ("{\"images\":[{\"data\":\"", "\\/", "\"}]}"),
        (
            "{\"operation\":\"detect\",\"items\":[",
            "{\"data\":\"AAAA\"},",
            "0]}",
        ),
        (
            "{\"operation\":\"detect\",\"items\":[{\"metadata\":[",
            "[],",
            "0]}]}",
        ),
        (
            "{\"operation\":\"detect\",\"items\":[{\"id\":[",
            "[],",
            "0]}]}",
        ),
        (
            "{\"faces\":[{\"vector_space\":\"a\",\"embedding\":[",
            "0,",
            "0]}]}",
        ),
        ("{\"a\":{\"embedding\":\"", "AAAA", "\"},\"b\":{}}"),
    ] {
        bodies.push(filled(beginning, middle, end));
    }
    bodies
}

/// A msgpack map with `field`, and a list of as many copies of a value as fit.
fn packed_list(field: &str, value: &[u8]) -> Vec<u8> {
    let name = [&[0xA0 | field.len() as u8], field.as_bytes()].concat();
    let head = [b"\x82\xa9operation\xa6detect".as_slice(), &name].concat();
    let count = (LENGTH - head.len() - 5) / value.len();
    let count = u32::try_from(count).expect("a small list").to_be_bytes();
    filled([head, vec![0xDD], count.into()].concat(), value, "")
}

pub fn msgpack() -> Vec<Vec<u8>> {
    let mut bodies = Vec::new();
    for field in ["images", "items", "faces", "options", "a", "x"] {
        for value in [
            b"\xC0".as_slice(),
            b"\x90",
            b"\x80",
            b"\xA0",
            b"\x81\xA0\xC0",
            b"\x91\x91\x91\xC0",
            // A binary without bytes, and an extension.
            b"\xC4\0",
            b"\xD4\x01\0",
        ] {
            bodies.push(packed_list(field, value));
        }
    }
    bodies.push(filled("", b"\x91", ""));
    bodies.push(filled("", b"\x81\xA1a", ""));
    bodies.push(long_text_behind_a_value());
    bodies
}

/// A text that is long behind a value with the name of the field that may be long. An error that quoted it would take six times
/// its length.
fn long_text_behind_a_value() -> Vec<u8> {
    let beginning = b"\x81\xA6images\x92\x81\xA2id\xA4data\xDB".as_slice();
    let length = LARGE - beginning.len() - 4;
    let stated = u32::try_from(length).expect("a short text").to_be_bytes();
    [beginning, &stated, &vec![0x7F; length]].concat()
}

/// The head of a part of a form.
fn head(name: &str) -> String {
    format!("--edge\r\ncontent-disposition: form-data; name={name}\r\n\r\n")
}

/// A form with an image, and parts that are dear to parse: each is an object whose values are skipped, because they are too deep.
fn dear_parts(name: &str, parts: usize, length: usize) -> Vec<u8> {
    let image = head("image") + "x\r\n";
    let (beginning, end) = ("{\"x\":[[[[[[", "0]]]]]]}\r\n");
    let values = "0,".repeat((length - beginning.len() - end.len()) / 2);
    let part = [&head(name), beginning, &values, end].concat();
    [&image, part.repeat(parts).as_str(), "--edge--"]
        .concat()
        .into_bytes()
}

pub fn forms() -> Vec<Vec<u8>> {
    [
        filled("", "\r\n--", ""),
        filled("--edge\r\n", "a: b\r\n", ""),
        filled("--edge\r\na: ", "b", ""),
        filled("", "--edge\r\n\r\n\r\n", "--edge--"),
        filled("", head("image") + "\r\n", "--edge--"),
        filled("", head("options") + "\r\n", "--edge--"),
        filled(head("image"), "\r\n--edg", "\r\n--edge--"),
        filled(head("options") + "[", "0,", "0]\r\n--edge--"),
        dear_parts("options", 190, 256 << 10),
        dear_parts("x", 190, 64 << 10),
    ]
    .into()
}

pub fn lines() -> Vec<Vec<u8>> {
    let head = "{\"operation\":\"detect\"}\n";
    [
        filled(head, "0\n", ""),
        filled(head, "{}\n", ""),
        filled(head, "\n", ""),
        filled([head, "{\"metadata\":["].concat(), "[],", "0]}\n"),
        filled("{\"options\":[", "0,", "0]}\n"),
    ]
    .into()
}
