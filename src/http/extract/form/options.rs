//! The parts of a form that are not images.

use serde_json::Value;

use super::{
    super::{
        body::{MAX_OPTIONS, MAX_OPTIONS_BYTES},
        merge, options_from_texts, parse_options,
    },
    Part,
};
use crate::http::error::ApiError;

/// The name of the part with options as JSON.
const OPTIONS: &str = "options";

/// The options of a form, before they are parsed.
#[derive(Default)]
pub(in crate::http::extract) struct FormOptions {
    parts: Vec<Part>,
    /// The length of all parts.
    bytes: usize,
}

impl FormOptions {
    /// Adds a part. What it costs to read is limited before anything is parsed.
    ///
    /// # Errors
    /// An error if there are too many parts, if they are too long, if one is not text, or if a second one is named `options`.
    pub fn add(&mut self, part: Part) -> Result<(), ApiError> {
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

    /// Returns the name and the text of each part.
    pub fn into_texts(self) -> Result<Vec<(String, String)>, ApiError> {
        let texts = self.parts.into_iter().map(|part| {
            let text = part.text()?.to_owned();
            Ok((part.name, text))
        });
        texts.collect()
    }

    /// Parses the options. The part `options` overrides the others.
    pub fn merged(self) -> Result<Option<Value>, ApiError> {
        let (mut texts, mut options) = (Vec::new(), None);
        for (name, text) in self.into_texts()? {
            match name == OPTIONS {
                true => options = Some(parse_options(OPTIONS, &text)?),
                false => texts.push((name, text)),
            }
        }
        merge(options_from_texts(texts), options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(name: &str, content: &str) -> Part {
        Part {
            name: name.to_owned(),
            file_name: None,
            content: content.to_owned().into(),
        }
    }

    /// Returns the error of a form that has these parts, which are refused before one is parsed.
    fn refused(parts: impl IntoIterator<Item = Part>) -> String {
        let mut options = FormOptions::default();
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
        let mut options = FormOptions::default();
        for (name, text) in [
            ("store", "false"),
            ("options", r#"{"quality":true,"store":true}"#),
            ("min_score", "0.5"),
        ] {
            options.add(part(name, text)).unwrap();
        }
        let merged = options.merged().unwrap().unwrap();
        let expected = serde_json::json!({"store": true, "min_score": 0.5, "quality": true});
        assert_eq!(merged, expected);
    }
}
