//! Puts the errors of parsers into plain words.
//!
//! The messages of serde name Rust types and quote what was sent. Here they become what must be sent, without a byte of the
//! request but the names of its fields.

use std::fmt::{self, Display, Write as _};

use serde_path_to_error::Path;

use super::FieldError;

/// The most bytes that are read of a message. It can quote a text of any length.
const MAX_MESSAGE_BYTES: usize = 1000;

/// The words of a message that nobody outside the program knows.
const FOREIGN: [&str; 8] = [
    "struct",
    "enum",
    "variant",
    "usize",
    "tuple",
    "deserializ",
    "serde",
    "newtype",
];

/// The beginnings of the messages that quote a value.
const QUOTING: [&str; 3] = ["invalid type: ", "invalid value: ", "invalid length "];

/// What is said if nothing better is known.
const OTHER: &str = "a value of another form";

/// Puts the error of a value at `path` into words.
pub fn field_error(path: &Path, error: &impl Display) -> FieldError {
    let path = match beginning(path, MAX_MESSAGE_BYTES) {
        path if path == "." => String::new(),
        path => path,
    };
    reworded(path, &beginning(error, MAX_MESSAGE_BYTES))
}

/// Puts the message of a parser about the field `path` into words.
pub fn reworded(path: String, message: &str) -> FieldError {
    let (text, position) = without_position(message);
    if let Some((name, rest)) = quoted(text, "unknown field `") {
        return FieldError::unknown(of_name(&path, name), name, backticked(rest));
    }
    if let Some((name, _)) = quoted(text, "missing field `") {
        return FieldError::new(of_name(&path, name), "is missing");
    }
    if let Some((name, _)) = quoted(text, "duplicate field `") {
        return FieldError::new(of_name(&path, name), "is there twice; send it once");
    }
    if let Some((word, rest)) = quoted(text, "unknown variant `") {
        return FieldError::not_one_of(path, Some(word), backticked(rest));
    }
    if QUOTING.iter().any(|prefix| text.starts_with(prefix)) {
        // A message that is cut ends before what is expected.
        let expected = text
            .rsplit_once(", expected ")
            .map_or(OTHER, |(_, expected)| plain(expected));
        return FieldError::not_allowed(path, expected);
    }
    if let Some(expected) = text.strip_prefix("expected ")
        && position.is_none()
    {
        return FieldError::not_allowed(path, expected);
    }
    if text.starts_with("UUID parsing failed") {
        let uuid = "a UUID such as 0192f0c1-6c8e-7a43-9a0e-2f6c1f1e2b7d";
        return FieldError::not_allowed(path, uuid);
    }
    if let Some(position) = position {
        return FieldError::new(
            path,
            format!("is not valid JSON: {}", syntax(text, position)),
        );
    }
    if FOREIGN.iter().any(|word| text.contains(word)) {
        FieldError::not_allowed(path, OTHER)
    } else {
        FieldError::new(path, text)
    }
}

/// Returns the message of JSON whose values are wrong, without its position.
pub fn data_message(error: &serde_json::Error) -> String {
    let message = beginning(error, MAX_MESSAGE_BYTES);
    without_position(&message).0.to_owned()
}

/// Says what is wrong with a text that is not JSON.
pub fn json_error(error: &serde_json::Error) -> String {
    let message = beginning(error, MAX_MESSAGE_BYTES);
    match without_position(&message) {
        (text, Some(position)) => syntax(text, position),
        (text, None) => text.to_owned(),
    }
}

/// The line and the column of an error, counted from 1.
type Position<'a> = (&'a str, &'a str);

fn syntax(text: &str, (line, column): Position<'_>) -> String {
    let place = format!("at line {line}, column {column}");
    match text {
        text if text.starts_with("EOF while parsing") => {
            format!("it ends too early, {place}; send all of it")
        }
        "expected value" => format!("there is no value {place}; texts need double quotes"),
        "key must be a string" => {
            format!("there is no name in double quotes {place}")
        }
        "trailing characters" => format!("there is more behind its end, {place}"),
        "trailing comma" => format!("there is a comma before the end of a list or object, {place}"),
        "recursion limit exceeded" => format!("it is nested too deeply, {place}"),
        text => format!("{text} {place}"),
    }
}

/// Splits a message of a parser into its text and its position.
fn without_position(message: &str) -> (&str, Option<Position<'_>>) {
    let split = message.rsplit_once(" at line ").and_then(|(text, rest)| {
        let position = rest.split_once(" column ")?;
        let is_number = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit());
        (is_number(position.0) && is_number(position.1)).then_some((text, Some(position)))
    });
    split.unwrap_or((message, None))
}

/// Returns the name in backticks behind a prefix, and the text behind it.
fn quoted<'a>(text: &'a str, prefix: &str) -> Option<(&'a str, &'a str)> {
    text.strip_prefix(prefix)?.split_once('`')
}

/// Returns the names in backticks.
fn backticked(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Returns the path of a field. The path of an unknown field ends with its name, and that of a missing one before it.
fn of_name(path: &str, name: &str) -> String {
    match path {
        "" => name.to_owned(),
        path if path == name || path.ends_with(&format!(".{name}")) => path.to_owned(),
        path => format!("{path}.{name}"),
    }
}

/// Puts what serde expected into words.
fn plain(expected: &str) -> &str {
    match expected {
        "u8" => "a whole number from 0 to 255",
        "u16" => "a whole number from 0 to 65535",
        "u32" | "u64" | "usize" => "a whole number of at least 0",
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number",
        "f32" | "f64" => "a number",
        "a boolean" => "true or false",
        "a string" | "string" | "a borrowed string" | "a character" => "text",
        "a sequence" => "a list",
        "a map" => "an object",
        "unit" => "null",
        "an array of length 2" => "a list of 2 values",
        "an array of length 3" => "a list of 3 values",
        "an array of length 4" => "a list of 4 values",
        other if other.contains("UUID") => "a UUID such as 0192f0c1-6c8e-7a43-9a0e-2f6c1f1e2b7d",
        other if other.contains("RFC3339") => "a time such as 2026-01-31T12:00:00Z",
        other if other.starts_with("struct") || other.starts_with("internally tagged") => {
            "an object"
        }
        other if FOREIGN.iter().any(|word| other.contains(word)) => OTHER,
        other => other,
    }
}

/// Writes at most `most` bytes of a text that quotes a caller. What is beyond them is never written.
pub fn beginning(text: &impl Display, most: usize) -> String {
    let mut beginning = Beginning {
        text: String::new(),
        most,
        is_cut: false,
    };
    // The only error is that of a text which has its most bytes.
    write!(beginning, "{text}").ok();
    if beginning.is_cut {
        beginning.text.push('…');
    }
    beginning.text
}

/// A text of at most `most` bytes. It refuses to be written further, which ends the writing.
struct Beginning {
    text: String,
    most: usize,
    is_cut: bool,
}

impl fmt::Write for Beginning {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        let left = self.most - self.text.len();
        let end = part.floor_char_boundary(left);
        self.text.push_str(&part[..end]);
        self.is_cut = end < part.len();
        if self.is_cut { Err(fmt::Error) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(message: &str) -> String {
        let FieldError { field, detail, .. } = reworded("a".to_owned(), message);
        format!("{field} {detail}")
    }

    #[test]
    fn messages_of_serde_become_plain_words() {
        for (message, expected) in [
            (
                "unknown field `ulr`, expected one of `id`, `url` at line 1 column 27",
                "a.ulr is unknown; did you mean `url`?",
            ),
            (
                "unknown field `x`, expected `id` or `url`",
                "a.x is unknown; known are id, url",
            ),
            (
                "unknown field `x`, there are no fields",
                "a.x is unknown; leave it out",
            ),
            ("missing field `b`", "a.b is missing"),
            ("duplicate field `b`", "a.b is there twice; send it once"),
            (
                "unknown variant `rde`, expected one of `red`, `green`, `blue`",
                "a must be one of `red`, `green`, `blue`; did you mean `red`?",
            ),
            (
                "invalid type: string \"/9j/4AA, expected usize, …\", expected struct ImageEntry at line 1 column 9",
                "a must be an object",
            ),
            (
                "invalid value: integer `-1`, expected u32",
                "a must be a whole number of at least 0",
            ),
            (
                "invalid length 2, expected an array of length 3",
                "a must be a list of 3 values",
            ),
            (
                "expected a multiple of 32, or fit",
                "a must be a multiple of 32, or fit",
            ),
            (
                "UUID parsing failed: invalid character: found `x` at 0",
                "a must be a UUID such as 0192f0c1-6c8e-7a43-9a0e-2f6c1f1e2b7d",
            ),
            (
                "expected value at line 1 column 1",
                "a is not valid JSON: there is no value at line 1, column 1; texts need double quotes",
            ),
            (
                "trailing comma at line 1 column 4",
                "a is not valid JSON: there is a comma before the end of a list or object, at line 1, column 4",
            ),
            (
                "data did not match any variant of untagged enum Sent",
                "a must be a value of another form",
            ),
            ("is longer than 9 bytes", "a is longer than 9 bytes"),
        ] {
            assert_eq!(words(message), expected, "{message}");
        }
    }
}
