//! Reads multipart forms (RFC 7578).
//!
//! A form is read whole and then divided, so its parts share its memory. The time is linear in its length, whatever it contains,
//! and the number of its parts and the length of their heads are limited.

mod disposition;
mod options;
#[cfg(test)]
mod tests;

use axum::{extract::Request, http::HeaderMap};
use bytes::Bytes;
use facescan_pipeline::ingest::text::NUL;
use memchr::memmem::Finder;
use mime::BOUNDARY;

pub(super) use self::options::FormOptions;

use self::disposition::Disposition;
use super::{
    arriving::{body, content_type},
    body::MAX_OPTIONS_BYTES,
    parsing::parse,
};
use crate::http::{AppState, error::ApiError, middleware::context};

/// The maximum length of an option in its own part, in bytes.
const MAX_TEXT_BYTES: usize = 64 << 10;

/// The maximum length of the head of a part, in bytes.
const MAX_HEAD_BYTES: usize = 8 << 10;

const MAX_HEADERS: usize = 16;

/// Forms of up to this length are read on the thread of the request, because a job of the CPU pool takes longer.
const SMALL_FORM: usize = 1 << 20;

#[derive(Debug, PartialEq)]
pub(super) struct Part {
    /// The name. Empty if the part has none.
    pub name: String,
    /// The name of the file.
    pub file_name: Option<String>,
    /// The content.
    pub content: Bytes,
}

impl Part {
    /// Returns the text of an option.
    ///
    /// # Errors
    /// [`ApiError::Pipeline`] if the option is too long or is not text.
    pub fn text(&self) -> Result<&str, ApiError> {
        let limit = match self.name.as_str() {
            "options" => MAX_OPTIONS_BYTES,
            _ => MAX_TEXT_BYTES,
        };
        let invalid = |detail: &str| ApiError::invalid_option(&self.name, detail);
        if self.content.len() > limit {
            return Err(invalid(&format!("is longer than {limit} bytes")));
        }
        match std::str::from_utf8(&self.content) {
            Ok(text) if text.contains('\0') => Err(invalid(NUL)),
            Ok(text) => Ok(text),
            Err(_) => Err(invalid("is not UTF-8 text")),
        }
    }
}

/// Divides a form into its parts and reads them with `read`, where that holds nobody up. One part more than `most` means any
/// larger number.
///
/// # Errors
/// [`ApiError::InvalidBody`] if the body is not a form, or the errors of [`body`] and of `read`.
pub(super) async fn read<T, F>(
    request: Request,
    state: &AppState,
    most: usize,
    read: F,
) -> Result<T, ApiError>
where
    T: Send + 'static,
    F: FnOnce(Vec<Part>) -> Result<T, ApiError> + Send + 'static,
{
    let boundary = boundary(request.headers())?;
    let tenant = context::from_request(&request)?.principal.tenant;
    let form = body(request, state.config.server.max_body_bytes).await?;
    let length = form.len();
    let job = move || read(divide(&form, &boundary, most)?);
    match length <= SMALL_FORM {
        true => job(),
        false => parse(state, tenant, length, job).await,
    }
}

fn boundary(headers: &HeaderMap) -> Result<String, ApiError> {
    let boundary = content_type(headers)
        .and_then(|parsed| Some(parsed.get_param(BOUNDARY)?.as_str().to_owned()))
        .filter(|boundary| !boundary.is_empty());
    boundary.ok_or_else(|| {
        ApiError::invalid_body("the content-type of a form needs a `boundary`; see RFC 7578")
    })
}

/// The names of the parts with images. Clients use all of them.
const IMAGE_NAMES: [&str; 8] = [
    "image", "images", "image[]", "images[]", "file", "files", "file[]", "files[]",
];

/// Returns whether a part with this name has an image.
pub(super) fn is_image(name: &str) -> bool {
    IMAGE_NAMES.contains(&name)
}

/// Checks the number of parts of a form.
pub(super) fn check_count(parts: usize, most: usize) -> Result<(), ApiError> {
    match parts > most {
        true => Err(ApiError::invalid_body(format!(
            "the form has more than {most} parts"
        ))),
        false => Ok(()),
    }
}

/// Divides a form into its parts, up to one more than `most`.
fn divide(form: &Bytes, boundary: &str, most: usize) -> Result<Vec<Part>, ApiError> {
    let delimiter = format!("\r\n--{boundary}");
    let delimiter = Delimiter {
        // The first one may be at the beginning, without a line break.
        first: form.starts_with(&delimiter.as_bytes()[2..]),
        finder: Finder::new(&delimiter),
    };
    let mut parts = Vec::new();
    let mut position = delimiter.after_first(form)?;
    while parts.len() <= most
        && let Some(head) = after_delimiter(form, position)?
    {
        let (disposition, content) = read_head(form, head)?;
        // The content of an empty part may share its line break with the head.
        let searched = content - 2;
        let end = delimiter
            .find(&form[searched..])
            .map(|at| searched + at)
            .ok_or_else(|| ended("its last boundary"))?;
        parts.push(Part {
            name: disposition.name.unwrap_or_default(),
            file_name: disposition.file_name,
            content: form.slice(content..end.max(content)),
        });
        position = end + delimiter.finder.needle().len();
    }
    Ok(parts)
}

/// A line break and the boundary.
struct Delimiter<'a> {
    /// Whether the form begins with the boundary.
    first: bool,
    finder: Finder<'a>,
}

impl Delimiter<'_> {
    fn find(&self, bytes: &[u8]) -> Option<usize> {
        self.finder.find(bytes)
    }

    /// Returns the position after the first boundary. What is before it is ignored.
    fn after_first(&self, form: &[u8]) -> Result<usize, ApiError> {
        let length = self.finder.needle().len();
        if self.first {
            return Ok(length - 2);
        }
        self.find(form)
            .map(|at| at + length)
            .ok_or_else(|| ended("its first boundary"))
    }
}

/// Returns the position of the next head, or `None` if the boundary before `position` is the last one.
fn after_delimiter(form: &[u8], position: usize) -> Result<Option<usize>, ApiError> {
    let rest = &form[position..];
    if rest.starts_with(b"--") {
        return Ok(None);
    }
    let padding = rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t'));
    let padding = padding.count();
    match rest[padding..].starts_with(b"\r\n") {
        true => Ok(Some(position + padding + 2)),
        false => Err(ended("the line of a boundary")),
    }
}

/// Reads the head of a part at `position`. Returns the position of the content.
fn read_head(form: &[u8], position: usize) -> Result<(Disposition, usize), ApiError> {
    let end = form.len().min(position + MAX_HEAD_BYTES);
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    match httparse::parse_headers(&form[position..end], &mut headers) {
        Ok(httparse::Status::Complete((length, headers))) => {
            Ok((Disposition::from_headers(headers), position + length))
        }
        Ok(httparse::Status::Partial) if end < form.len() => Err(ApiError::invalid_body(format!(
            "the head of a part is longer than {MAX_HEAD_BYTES} bytes"
        ))),
        Ok(httparse::Status::Partial) => Err(ended("the head of a part")),
        Err(error) => Err(ApiError::invalid_body(format!(
            "the head of a part cannot be read: {error}"
        ))),
    }
}

fn ended(missing: &str) -> ApiError {
    ApiError::invalid_body(format!("the form ends before {missing}"))
}
