//! Reads images and options: the bodies of the operations on images.

use bytes::Bytes;
use facescan_fields::FieldError;
use facescan_pipeline::ingest::source::ImageInput;

use super::{
    content::{Content, EntryField},
    entry::Entry,
    form::{self, Part},
    request::{AdmittedContent, AdmittedRequest},
};
use crate::http::error::ApiError;

/// A request with images.
pub type ImageRequest<O> = AdmittedRequest<Images, O>;

/// The images of a body, in any format.
#[derive(Default)]
pub struct Images {
    /// The images.
    pub images: Vec<ImageInput>,
    /// Their masks, where the options take some.
    pub masks: Vec<ImageInput>,
    /// The names of the parts of a form that are no images, for the error of one without an image.
    other_parts: Vec<String>,
}

const MASKS: &str = "masks";

/// The most names of parts that an error has.
const MAX_NAMES: usize = 5;

impl Content for Images {
    const FIELDS: &'static [EntryField] = &[
        EntryField {
            name: "images",
            is_list: true,
            wanted: Some(r#"a list of images such as [{"data": "<base64>"}]"#),
        },
        EntryField {
            name: MASKS,
            is_list: true,
            wanted: None,
        },
    ];
    const ENTRY: &'static [&'static str] = &["id", "data", "url", "source", "source_url"];
    const PARTS: &'static str = "`image`";

    fn add(&mut self, field: &'static str, entry: Entry) -> Result<(), Vec<FieldError>> {
        if !entry.errors.is_empty() {
            return Err(entry.errors);
        }
        let image = ImageInput {
            id: entry.id,
            source: entry.source,
            source_url: entry.source_url,
            ..ImageInput::from_sources(entry.data, entry.url)
        };
        let images = if field == MASKS {
            &mut self.masks
        } else {
            &mut self.images
        };
        images.push(image);
        Ok(())
    }

    fn add_part(&mut self, part: Part) -> Result<Option<Part>, ApiError> {
        match part.name.as_str() {
            name if form::is_image(name) => self.images.push(image(part)),
            "mask" | "mask[]" | MASKS => self.masks.push(image(part)),
            _ => {
                if self.other_parts.len() < MAX_NAMES {
                    self.other_parts.push(part.name.clone());
                }
                return Ok(Some(part));
            }
        }
        Ok(None)
    }

    fn add_image(&mut self, bytes: Bytes) -> Result<(), ApiError> {
        if bytes.is_empty() {
            return Err(ApiError::missing_image(
                "the body is empty; send the bytes of an image",
            ));
        }
        self.images.push(ImageInput::from_bytes(bytes));
        Ok(())
    }

    fn count(&self) -> usize {
        self.images.len().max(self.masks.len())
    }

    fn most_parts(limit: usize) -> usize {
        2 * limit
    }
}

impl AdmittedContent for Images {
    type Body = Self;

    fn from_body(body: Self, takes_masks: bool) -> Result<Self, ApiError> {
        if body.images.is_empty() {
            return Err(match body.other_parts.as_slice() {
                [] => ApiError::missing_image("send at least one"),
                names => {
                    let names = names.join("`, `");
                    ApiError::missing_image(format!(
                        "no part is named `image`; the form has `{names:.200}`"
                    ))
                }
            });
        }
        if !takes_masks && !body.masks.is_empty() {
            return Err(ApiError::invalid_option(
                "mask",
                "is unknown: only /process takes masks",
            ));
        }
        Ok(body)
    }

    fn images(&self) -> impl Iterator<Item = &ImageInput> {
        self.images.iter().chain(&self.masks)
    }

    fn count(&self) -> usize {
        self.images.len() + self.masks.len()
    }
}

/// Returns the image of a part. The name of its file is the id.
pub(super) fn image(part: Part) -> ImageInput {
    ImageInput {
        id: part.file_name,
        ..ImageInput::from_bytes(part.content)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::extract::{
        content::ReadBody,
        parsing::{ParseError, from_json},
    };
    use facescan_fields::Shape;
    use facescan_pipeline::{ingest::text::NUL, operations::scan::request::ScanRequest};

    fn errors(json: &str) -> Vec<String> {
        let mut body: ReadBody<Images> = from_json(json.as_bytes()).unwrap();
        let errors = body.field_errors(&Shape::from_schema::<ScanRequest>());
        let text = |error: FieldError| format!("{} {}", error.field, error.detail);
        errors.into_iter().map(text).collect()
    }

    /// Other mistakes are in `tests/it/mistakes`.
    #[test]
    fn every_mistake_of_a_body_is_found() {
        for (json, expected) in [
            (r#"{"images":[{"data":"aGk="}]}"#, vec![]),
            (
                r#"{"images":[{"id":7}],"masks":7,"max_faces":1}"#,
                vec![
                    "max_faces is an option; put it under `options`",
                    "images[0].id must be text",
                    "masks must be a list of objects",
                ],
            ),
            (
                r#"{"images":[],"images":[]}"#,
                vec!["images is there twice; send it once"],
            ),
        ] {
            assert_eq!(errors(json), expected, "{json}");
        }
    }

    #[test]
    fn a_nul_character_is_an_error_in_every_text() {
        for json in [
            r#"{"images":[{"id":"a\u0000"}]}"#,
            r#"{"images":[{"source":"\u0000"}]}"#,
            r#"{"images":[],"options":{"source":"\u0000"}}"#,
            r#"{"images":[],"options":{"operations":[{"op":"\u0000"}]}}"#,
        ] {
            let details: Vec<_> = match from_json::<ReadBody<Images>>(json.as_bytes()) {
                Ok(body) => body.errors.into_iter().map(|error| error.detail).collect(),
                Err(ParseError::Field(error)) => vec![error.detail],
                Err(ParseError::Syntax(error)) => vec![error],
            };
            assert_eq!(details, [NUL], "{json}");
        }
    }
}
