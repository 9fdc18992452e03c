//! The `content-disposition` of a part.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

/// The names in a `content-disposition` header.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Disposition {
    pub name: Option<String>,
    pub file_name: Option<String>,
}

impl Disposition {
    /// Reads the header. What cannot be read is missing.
    pub fn from_headers(headers: &[httparse::Header<'_>]) -> Self {
        let header = headers
            .iter()
            .find(|header| header.name.eq_ignore_ascii_case("content-disposition"));
        let value = header.and_then(|header| std::str::from_utf8(header.value).ok());
        value.map(Self::from_value).unwrap_or_default()
    }

    fn from_value(value: &str) -> Self {
        let mut disposition = Self::default();
        let mut encoded_name = None;
        for (name, value) in parameters(value) {
            match name.to_ascii_lowercase().as_str() {
                "name" => disposition.name = Some(value.into_owned()),
                "filename" => disposition.file_name = Some(value.into_owned()),
                "filename*" => encoded_name = decoded(&value),
                _ => {}
            }
        }
        if encoded_name.is_some() {
            disposition.file_name = encoded_name;
        }
        disposition
    }
}

/// Returns the parameters of a header, with quotes removed.
fn parameters(value: &str) -> impl Iterator<Item = (&str, Cow<'_, str>)> {
    let mut rest = value.split_once(';').map_or("", |(_, rest)| rest);
    std::iter::from_fn(move || {
        loop {
            let (name, after) = rest.split_once('=')?;
            // A parameter without a value ends at its semicolon.
            if let Some((_, next)) = name.split_once(';') {
                rest = &rest[rest.len() - after.len() - 1 - next.len()..];
                continue;
            }
            let (value, next) = parameter_value(after.trim_start());
            rest = next;
            return Some((name.trim(), value));
        }
    })
}

/// Returns the value at the beginning of a text, and the text after its semicolon.
fn parameter_value(text: &str) -> (Cow<'_, str>, &str) {
    let Some(quoted) = text.strip_prefix('"') else {
        let (value, rest) = text.split_once(';').unwrap_or((text, ""));
        return (value.trim_end().into(), rest);
    };
    let mut is_escaped = false;
    let end = quoted.find(|ch| {
        let is_end = ch == '"' && !is_escaped;
        is_escaped = ch == '\\' && !is_escaped;
        is_end
    });
    let (value, rest) = quoted.split_at(end.unwrap_or(quoted.len()));
    let rest = rest.split_once(';').map_or("", |(_, rest)| rest);
    // Browsers and curl escape quotes only, so that a backslash in the name of a file of Windows stays.
    match value.contains("\\\"") {
        true => (value.replace("\\\"", "\"").into(), rest),
        false => (value.into(), rest),
    }
}

/// Decodes a value with its character set (RFC 8187).
fn decoded(value: &str) -> Option<String> {
    let (charset, rest) = value.split_once('\'')?;
    let (_, encoded) = rest.split_once('\'')?;
    if !charset.eq_ignore_ascii_case("utf-8") {
        return None;
    }
    Some(percent_decode_str(encoded).decode_utf8().ok()?.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(value: &str) -> (Option<String>, Option<String>) {
        let Disposition { name, file_name } = Disposition::from_value(value);
        (name, file_name)
    }

    #[test]
    fn names_are_read_as_clients_write_them() {
        let some = |text: &str| Some(text.to_owned());
        for (value, name, file_name) in [
            (r#"form-data; name="image""#, some("image"), None),
            (
                r#"form-data; name="image"; filename="a;b.jpg""#,
                some("image"),
                some("a;b.jpg"),
            ),
            (
                "form-data; name=image; filename=a.jpg",
                some("image"),
                some("a.jpg"),
            ),
            (
                r#"form-data; filename="C:\x\a\"b.jpg"; Name = "i""#,
                some("i"),
                some(r#"C:\x\a"b.jpg"#),
            ),
            (
                "form-data; name=\"i\"; filename=\"x\"; filename*=UTF-8''%E2%82%AC%20rates",
                some("i"),
                some("€ rates"),
            ),
            (r#"form-data; flag; name="i""#, some("i"), None),
            (r#"form-data; name="i"#, some("i"), None),
            ("form-data", None, None),
            ("", None, None),
            (";;==;;", None, None),
        ] {
            assert_eq!(names(value), (name, file_name), "{value}");
        }
    }
}
