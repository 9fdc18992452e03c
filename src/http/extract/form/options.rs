//! The parts of a form that are not images.

use facescan_fields::{FieldError, FieldErrors, MAX_ERRORS};
use facescan_imaging::format::{Sniffed, sniff};

use super::{
    super::{
        body::{MAX_OPTIONS, MAX_OPTIONS_BYTES},
        options::{SentOptions, tree},
    },
    Part,
};
use crate::http::error::ApiError;

/// The name of the part with options as JSON.
const OPTIONS: &str = "options";

/// The parts with JSON. Browsers send one as a file if it has a content type.
const JSON_PARTS: [&str; 3] = [OPTIONS, "operations", "webhook"];

/// The options of a form, before they are parsed.
pub(in crate::http::extract) struct FormOptions {
    parts: Vec<Part>,
    /// The length of all parts.
    bytes: usize,
    /// The names of the parts that have images.
    images: &'static str,
    /// The parts that are files under another name.
    misnamed: Vec<FieldError>,
}

impl FormOptions {
    /// Creates the options of a form whose parts with images are named `images`.
    pub fn new(images: &'static str) -> Self {
        Self {
            parts: Vec::new(),
            bytes: 0,
            images,
            misnamed: Vec::new(),
        }
    }

    /// Adds a part. What it costs to read is limited before anything is parsed.
    ///
    /// # Errors
    /// An error if there are too many parts, if they are too long, if one is not text, or if a second one is named `options`.
    pub fn add(&mut self, part: Part) -> Result<(), ApiError> {
        if is_file(&part) {
            if self.misnamed.len() < MAX_ERRORS {
                let detail = format!("is a file; images go in parts named {}", self.images);
                self.misnamed.push(FieldError {
                    allowed: Some(self.images.to_owned()),
                    ..FieldError::new(part.name, detail)
                });
            }
            return Ok(());
        }
        if self.parts.len() == MAX_OPTIONS {
            return Err(ApiError::invalid_body(format!(
                "the form has more than {MAX_OPTIONS} parts beside its images"
            )));
        }
        let is_second = part.name == OPTIONS && self.parts.iter().any(|part| part.name == OPTIONS);
        if is_second {
            return Err(ApiError::invalid_option(
                OPTIONS,
                "is sent twice; send one part with all of them",
            ));
        }
        part.text()?;
        self.bytes += part.content.len();
        if self.bytes > MAX_OPTIONS_BYTES {
            return Err(ApiError::invalid_option(
                part.name,
                format!("is too long: all options of a form may have {MAX_OPTIONS_BYTES} bytes"),
            ));
        }
        self.parts.push(part);
        Ok(())
    }

    /// Returns the options, and what is wrong with them. The part `options` overrides the others, unless it is one field of
    /// several that describe a batch (`has_head`).
    pub fn finish(self, has_head: bool) -> Result<(SentOptions, Vec<FieldError>), ApiError> {
        if !self.misnamed.is_empty() {
            let misnamed = FieldErrors {
                noun: "part",
                errors: self.misnamed,
            };
            return Err(misnamed.into());
        }
        let (mut texts, mut options, mut errors) = (Vec::new(), None, Vec::new());
        for part in self.parts {
            let text = part.text()?.to_owned();
            if part.name != OPTIONS || has_head {
                texts.push((part.name, text));
                continue;
            }
            match tree(OPTIONS, &text) {
                Ok(tree) => options = Some(tree),
                Err(error) => errors.push(error),
            }
        }
        Ok((SentOptions::from_parts(texts, options), errors))
    }
}

/// Returns whether a part is a file and no option: it has the name of a file, or its bytes are an image.
fn is_file(part: &Part) -> bool {
    let has_file_name = part.file_name.is_some() && !JSON_PARTS.contains(&part.name.as_str());
    // Texts can begin like an image, as `BMW` does.
    let is_image =
        || std::str::from_utf8(&part.content).is_err() && sniff(&part.content) != Sniffed::Unknown;
    has_file_name || is_image()
}

#[cfg(test)]
mod tests {
    use super::*;
    use facescan_fields::Shape;
    use facescan_pipeline::operations::scan::request::ScanRequest;

    fn part(name: &str, content: &str) -> Part {
        Part {
            name: name.to_owned(),
            file_name: None,
            content: content.to_owned().into(),
        }
    }

    /// Returns the error of a form that has these parts, which are refused before one is parsed.
    fn refused(parts: impl IntoIterator<Item = Part>) -> String {
        let mut options = FormOptions::new("`image`");
        let refused = parts.into_iter().find_map(|part| options.add(part).err());
        refused.unwrap().to_string()
    }

    #[test]
    fn a_form_has_one_part_of_options_and_few_others() {
        let error = refused([part("options", "no JSON"), part("options", "{}")]);
        assert!(error.contains("is sent twice"), "{error}");
        let error = refused((0..=MAX_OPTIONS).map(|_| part("x", "[no JSON")));
        assert!(error.contains("more than 64 parts"), "{error}");
        let long = "[".repeat(60 << 10);
        let error = refused((0..5).map(|_| part("x", &long)));
        assert!(error.contains("262144 bytes"), "{error}");
    }

    #[test]
    fn parts_and_the_part_of_options_are_merged() {
        let mut options = FormOptions::new("`image`");
        for (name, text) in [
            ("store", "false"),
            ("options", r#"{"quality":true,"store":true}"#),
            ("min_score", "0.5"),
        ] {
            options.add(part(name, text)).unwrap();
        }
        let (options, errors) = options.finish(false).unwrap();
        assert!(errors.is_empty());
        let tree = options
            .into_tree(&Shape::from_schema::<ScanRequest>())
            .unwrap();
        let expected = serde_json::json!({"store": true, "min_score": 0.5, "quality": true});
        assert_eq!(serde_json::Value::Object(tree), expected);
    }

    #[test]
    fn a_file_is_never_an_option() {
        let jpeg = [b"\xFF\xD8\xFF", vec![0; 100_000].as_slice()].concat();
        let file = |name: &str, file_name: Option<&str>, content: &[u8]| Part {
            name: name.to_owned(),
            file_name: file_name.map(str::to_owned),
            content: content.to_vec().into(),
        };
        for (part, is_misnamed) in [
            (file("photo", Some("a.jpg"), &jpeg), true),
            (file("photo", None, &jpeg), true),
            (file("img1", Some("a.txt"), b"text"), true),
            (file("options", Some("blob"), b"{}"), false),
            (file("source", None, b"BMW"), false),
        ] {
            let mut options = FormOptions::new("`image`");
            let name = part.name.clone();
            options.add(part).unwrap();
            let error = options.finish(false).err().map(|error| error.to_string());
            let expected = format!("part `{name}`: is a file; images go in parts named `image`");
            assert_eq!(error, is_misnamed.then_some(expected), "{name}");
        }
    }
}
