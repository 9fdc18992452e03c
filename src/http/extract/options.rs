//! The options of a request: the query, the parts of a form, and the options of a body.

use facescan_fields::{self as fields, FieldError, FieldErrors, Reading, Shape, flag, wording};
use serde::de::DeserializeOwned;
use serde_json::{Map, Number, Value, error::Category};
use utoipa::IntoParams;

use super::body::{MAX_OPTIONS, Options, number};
use crate::http::error::ApiError;

/// The options of a request as they were sent.
#[derive(Clone, Debug, Default)]
pub(super) struct SentOptions {
    /// The options of the query, then those in parts of a form.
    texts: Vec<(String, String)>,
    /// The options of a body.
    tree: Option<Value>,
}

impl SentOptions {
    pub(super) fn from_query(query: &str) -> Result<Self, ApiError> {
        let texts: Vec<(String, String)> = serde_html_form::from_str(query)
            .map_err(|_| ApiError::invalid_option("query", "is not written as name=value&…"))?;
        if texts.len() > MAX_OPTIONS {
            let detail = format!("has more than {MAX_OPTIONS} options");
            return Err(ApiError::invalid_option("query", detail));
        }
        Ok(Self { texts, tree: None })
    }

    /// Creates the options of a form, in parts of their own and in one part with a tree.
    pub(super) fn from_parts(texts: Vec<(String, String)>, tree: Option<Value>) -> Self {
        Self { texts, tree }
    }

    /// Creates the options of a JSON or msgpack body.
    pub(super) fn from_tree(tree: Option<Value>) -> Self {
        Self::from_parts(Vec::new(), tree)
    }

    /// Adds options that override these.
    #[must_use]
    pub(super) fn overridden_by(mut self, others: Self) -> Self {
        self.texts.extend(others.texts);
        Self {
            texts: self.texts,
            tree: others.tree.or(self.tree),
        }
    }

    /// Returns the options as one object. Texts become what the fields of `shape` take.
    pub(super) fn into_tree(self, shape: &Shape) -> Result<Map<String, Value>, Vec<FieldError>> {
        let (mut tree, mut errors) = (Map::new(), Vec::new());
        for (name, text) in self.texts {
            match value(shape.reading(&name), &name, text) {
                Ok(value) => errors.extend(add(&mut tree, shape, name, value)),
                Err(error) => errors.push(error),
            }
        }
        match self.tree {
            Some(Value::Object(options)) => {
                for (name, value) in options {
                    errors.extend(add(&mut tree, shape, name, value));
                }
            }
            None | Some(Value::Null) => {}
            Some(_) => errors.push(FieldError::not_allowed("options", "an object")),
        }
        errors.truncate(fields::MAX_ERRORS);
        if errors.is_empty() {
            Ok(tree)
        } else {
            Err(errors)
        }
    }

    pub(super) fn read<O: fields::groups::Options>(self) -> Result<O, FieldErrors> {
        let tree = self.into_tree(&Shape::from_schema::<O>());
        let tree = tree.map_err(FieldErrors::from_options)?;
        fields::groups::read_options(&Value::Object(tree))
    }
}

/// Adds an option. Returns what is wrong with the value that it overrides: nothing hides a mistake, and nobody else sees it.
fn add(
    tree: &mut Map<String, Value>,
    shape: &Shape,
    name: String,
    value: Value,
) -> Vec<FieldError> {
    let checked = name.clone();
    let overridden = tree.insert(name, value);
    overridden.map_or_else(Vec::new, |value| shape.check_field(&checked, &value))
}

/// Reads the options of a query string.
///
/// # Errors
/// An error with every invalid option.
pub(super) fn read_query<O>(query: &str) -> Result<O, ApiError>
where
    O: DeserializeOwned + IntoParams + 'static,
{
    let sent = SentOptions::from_query(query)?;
    let tree = sent.into_tree(&Shape::from_params::<O>());
    let tree = Value::Object(tree.map_err(FieldErrors::from_options)?);
    Ok(fields::read_params(&tree)?)
}

/// Checks the number of entries that a request asks for on one page.
///
/// # Errors
/// [`ApiError`] for the option `limit` if the number is not from 1 to `most`.
pub fn page_size(requested: Option<u32>, default: u32, most: u32) -> Result<u32, ApiError> {
    match requested.unwrap_or(default) {
        limit if (1..=most).contains(&limit) => Ok(limit),
        _ => {
            let allowed = format!("a whole number from 1 to {most}");
            Err(FieldErrors::from_options(vec![FieldError::not_allowed("limit", allowed)]).into())
        }
    }
}

/// Converts the text of an option. What cannot be converted stays text, and is refused later.
fn value(reading: Reading, name: &str, text: String) -> Result<Value, FieldError> {
    let converted = match reading {
        Reading::Flag => flag(&text).map(Value::Bool),
        Reading::Number => number_of(&text),
        Reading::Tree => {
            return match tree(name, &text)? {
                Value::Null => Err(FieldError::new(
                    name,
                    "must not be null; leave it out for the default",
                )),
                tree => Ok(tree),
            };
        }
        // Some options are read only to be refused with a reason. They are booleans.
        Reading::Unknown => flag(&text).map(Value::Bool),
        Reading::Text => None,
    };
    Ok(converted.unwrap_or(Value::String(text)))
}

/// Parses the JSON of an option.
///
/// # Errors
/// The error of a text that is no JSON, or has too many values.
pub(super) fn tree(name: &str, text: &str) -> Result<Value, FieldError> {
    let parsed: Result<Options, _> = serde_json::from_str(text);
    parsed
        .map(|options| options.0)
        .map_err(|error| match error.classify() {
            Category::Data => wording::reworded(name.to_owned(), &wording::data_message(&error)),
            Category::Io | Category::Syntax | Category::Eof => {
                let detail = format!("is not valid JSON: {}", wording::json_error(&error));
                FieldError::new(name, detail)
            }
        })
}

/// Reads a JSON number. Other JSON stays text, so it is not parsed.
fn number_of(text: &str) -> Option<Value> {
    match text.trim_ascii_start().bytes().next()? {
        b'-' | b'0'..=b'9' => match serde_json::from_str::<Number>(text).ok()? {
            value if value.is_f64() => value.as_f64().map(number),
            value => Some(Value::Number(value)),
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use facescan_config::DetSize;
    use facescan_pipeline::operations::{
        process::request::ProcessRequest, scan::request::ScanRequest,
    };

    fn read(query: &str) -> Result<ScanRequest, FieldErrors> {
        SentOptions::from_query(query).unwrap().read()
    }

    #[test]
    fn text_options_read_as_their_types() {
        let options =
            read("det_size=320&min_score=0.5&quality=true&embedding_format=base64-f16&source=42")
                .unwrap();
        assert_eq!(options.detection.det_size, Some(DetSize::Side(320)));
        assert_eq!(options.detection.min_score, Some(0.5));
        assert_eq!(options.quality, Some(true));
        assert_eq!(options.storage.source.as_deref(), Some("42"));
        let size = |query| read(query).unwrap().detection.det_size.unwrap();
        assert_eq!(size("det_size=320.0"), DetSize::Side(320));
        assert!(!size("det_size=fit").enlarges());
        assert!(read("det_size=fat").is_err());
        assert!(read("det_size=320.5").is_err());
    }

    #[test]
    fn only_numbers_are_read_as_json() {
        for (text, value) in [
            ("1", Some(Value::from(1))),
            (" -2 ", Some(Value::from(-2))),
            ("320.0", Some(Value::from(320))),
            ("0.5", Some(Value::from(0.5))),
            ("18446744073709551615", Some(Value::from(u64::MAX))),
            ("1e999", None),
            ("1 2", None),
            ("+1", None),
            ("\"1\"", None),
            ("[1]", None),
            ("null", None),
            ("", None),
        ] {
            assert_eq!(number_of(text), value, "{text:?}");
        }
    }

    #[test]
    fn an_option_that_is_overridden_is_checked_too() {
        let errors = |query: &str, others: SentOptions| {
            let query = SentOptions::from_query(query).unwrap();
            let options = query.overridden_by(others).read::<ProcessRequest>();
            options.err().map(|error| error.to_string())
        };
        let operations = json!([{"op": "flip"}]);
        for (query, name, value, expected) in [
            (
                "jpeg_quality=101",
                "jpeg_quality",
                json!(90),
                "must be a whole number from 1 to 100",
            ),
            (
                "strict_device=maybe",
                "strict_device",
                json!(true),
                "must be true or false",
            ),
            (
                "priority=high",
                "priority",
                json!("bulk"),
                "must be `interactive` or `bulk`",
            ),
            (
                "operations=[7]",
                "operations",
                operations,
                "must be an object with `op`",
            ),
        ] {
            let text = match &value {
                Value::String(text) => text.clone(),
                value => value.to_string(),
            };
            let form = SentOptions::from_parts(vec![(name.to_owned(), text)], None);
            let body = SentOptions::from_tree(Some(json!({ name: value })));
            for others in [form, body] {
                let error = errors(query, others).unwrap();
                assert!(error.starts_with(&format!("option `{name}")), "{error}");
                assert!(error.ends_with(expected), "{error}");
            }
        }
        let body = SentOptions::from_tree(Some(json!({"jpeg_quality": 90})));
        assert_eq!(errors("jpeg_quality=80", body), None);
    }

    #[test]
    fn an_option_that_is_repeated_does_not_repeat_the_list_of_mistakes() {
        let steps = vec!["7"; 16].join(",");
        let query = vec![format!("operations=[{steps}]"); 60].join("&");
        let query = SentOptions::from_query(&query).unwrap();
        let error = query.read::<ProcessRequest>().unwrap_err();
        assert_eq!(error.errors.len(), fields::MAX_ERRORS);
    }

    #[test]
    fn the_body_overrides_the_query() {
        let query = SentOptions::from_query("det_size=320&crops=true").unwrap();
        let body = SentOptions::from_tree(Some(json!({"det_size": 640})));
        let merged: ScanRequest = query.overridden_by(body).read().unwrap();
        assert_eq!(
            (merged.detection.det_size, merged.crops),
            (Some(DetSize::Side(640)), Some(true))
        );
        let list = SentOptions::from_tree(Some(json!([1])));
        assert!(list.read::<ScanRequest>().is_err());
    }
}
