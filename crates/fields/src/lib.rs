//! The fields of requests: what their schemas allow, and in plain words what is wrong.
//!
//! A small tree is checked against the schema of its type before it is read, so that one response has every mistake. What a schema
//! cannot say is left to the type, whose error is put into the same words.

#![warn(unreachable_pub)]

// For `request_options!`, whose attributes name this crate by a path.
#[cfg(test)]
extern crate self as facescan_fields;

mod check;
mod describe;
pub mod groups;
mod nearest;
mod shape;
pub mod wording;

use std::fmt;

use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use thiserror::Error;
use utoipa::{IntoParams, ToSchema};

pub use self::{
    nearest::nearest,
    shape::{Reading, Shape, flag},
};

/// The most mistakes that one response lists.
pub const MAX_ERRORS: usize = 16;

/// The most mistakes that the text of an error names.
const MAX_NAMED: usize = 4;

/// The length up to which the text of an error names more than one mistake, in bytes.
const MAX_TEXT_BYTES: usize = 800;

/// The longest name of a field in an error, in bytes.
pub const MAX_NAME_BYTES: usize = 80;

/// The longest text about one field, in bytes.
const MAX_DETAIL_BYTES: usize = 500;

/// What is wrong with one field, option or part of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct FieldError {
    /// The field: the name of an option or of a part of a form, or a path such as `images[0].data`.
    #[schema(example = "max_face")]
    pub field: String,
    /// What is wrong and what to do.
    #[schema(example = "is unknown; did you mean `max_faces`?")]
    pub detail: String,
    /// The values or names that are allowed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub allowed: Option<String>,
    /// The name or word that was probably meant.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = "max_faces")]
    pub did_you_mean: Option<String>,
}

/// Everything that is wrong with the fields of a request. There is at least one mistake.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub struct FieldErrors {
    /// What the fields are called: `option` or `field`.
    pub noun: &'static str,
    /// The mistakes, at most [`MAX_ERRORS`].
    pub errors: Vec<FieldError>,
}

impl FieldError {
    /// Creates an error.
    pub fn new(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self {
            field: shortened(field.into(), MAX_NAME_BYTES),
            detail: shortened(detail.into(), MAX_DETAIL_BYTES),
            ..Self::default()
        }
    }

    /// Creates the error of a value that is not among the allowed ones, such as `a number from 0 to 1`.
    pub fn not_allowed(field: impl Into<String>, allowed: impl Into<String>) -> Self {
        let allowed = allowed.into();
        Self {
            allowed: Some(allowed.clone()),
            ..Self::new(field, format!("must be {allowed}"))
        }
    }

    /// Creates the error of a name that nobody knows.
    pub fn unknown<'a>(
        field: impl Into<String>,
        name: &str,
        known: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let known: Vec<&str> = known.into_iter().collect();
        let meant = nearest(name, known.iter().copied());
        let detail = match meant {
            _ if known.is_empty() => "is unknown; leave it out".to_owned(),
            Some(meant) => format!("is unknown; did you mean `{meant}`?"),
            None => format!("is unknown; known are {}", known.join(", ")),
        };
        Self {
            allowed: (!known.is_empty()).then(|| known.join(", ")),
            did_you_mean: meant.map(str::to_owned),
            ..Self::new(field, detail)
        }
    }

    /// Creates the error of a word that is not one of `words`.
    pub(crate) fn not_one_of<'a>(
        field: impl Into<String>,
        word: Option<&str>,
        words: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let words: Vec<&str> = words.into_iter().collect();
        let meant = word.and_then(|word| nearest(word, words.iter().copied()));
        Self::not_allowed(field, describe::words(&words)).meaning(meant)
    }

    /// Adds what was probably meant.
    fn meaning(mut self, meant: Option<&str>) -> Self {
        if let Some(meant) = meant {
            self.detail += &format!("; did you mean `{meant}`?");
            self.did_you_mean = Some(meant.to_owned());
        }
        self
    }

    /// Returns the error of the same field inside `outer`.
    #[must_use]
    pub fn inside(self, outer: &str) -> Self {
        let field = match self.field.as_str() {
            "" => outer.to_owned(),
            inner if inner.starts_with('[') => format!("{outer}{inner}"),
            inner => format!("{outer}.{inner}"),
        };
        Self { field, ..self }
    }
}

impl FieldErrors {
    /// Creates the errors of options.
    pub fn from_options(errors: Vec<FieldError>) -> Self {
        Self {
            noun: "option",
            errors,
        }
    }

    /// Creates the errors of the fields of a body.
    pub fn from_fields(errors: Vec<FieldError>) -> Self {
        Self {
            noun: "field",
            errors,
        }
    }
}

impl From<FieldError> for FieldErrors {
    fn from(error: FieldError) -> Self {
        Self::from_fields(vec![error])
    }
}

impl fmt::Display for FieldErrors {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        let mut named = 0;
        for FieldError { field, detail, .. } in self.errors.iter().take(MAX_NAMED) {
            let separator = if named == 0 { "" } else { "; " };
            let mistake = match field.as_str() {
                "" => format!("{separator}{detail}"),
                field => format!("{separator}{} `{field}`: {detail}", self.noun),
            };
            if named > 0 && text.len() + mistake.len() > MAX_TEXT_BYTES {
                break;
            }
            text += &mistake;
            named += 1;
        }
        formatter.write_str(&text)?;
        match self.errors.len() - named {
            0 => Ok(()),
            more => write!(formatter, "; and {more} more, which `errors` lists"),
        }
    }
}

/// Shortens a text of a caller.
fn shortened(text: String, most: usize) -> String {
    if text.len() > most {
        wording::beginning(&text, most)
    } else {
        text
    }
}

/// Reads the fields of a body, or options that no other request has.
///
/// # Errors
/// [`FieldErrors`] with every mistake.
pub fn read<T>(tree: &Value, noun: &'static str) -> Result<T, FieldErrors>
where
    T: DeserializeOwned + ToSchema + 'static,
{
    read_as(&Shape::from_schema::<T>(), tree, noun)
}

/// Reads the options of a type that only queries have.
///
/// # Errors
/// [`FieldErrors`] with every mistake.
pub fn read_params<T>(tree: &Value) -> Result<T, FieldErrors>
where
    T: DeserializeOwned + IntoParams + 'static,
{
    read_as(&Shape::from_params::<T>(), tree, "option")
}

fn read_as<T: DeserializeOwned>(
    shape: &Shape,
    tree: &Value,
    noun: &'static str,
) -> Result<T, FieldErrors> {
    let errors = check::check(shape, tree, &[]);
    read_unless(errors, noun, || groups::read_group(tree))
}

/// Reads what has no mistakes so far.
fn read_unless<T>(
    mut errors: Vec<FieldError>,
    noun: &'static str,
    read: impl FnOnce() -> Result<T, FieldError>,
) -> Result<T, FieldErrors> {
    if errors.is_empty() {
        match read() {
            Ok(read) => return Ok(read),
            Err(error) => errors.push(error),
        }
    }
    errors.truncate(MAX_ERRORS);
    Err(FieldErrors { noun, errors })
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[derive(Debug, Deserialize, ToSchema)]
    #[serde(rename_all = "lowercase")]
    enum Color {
        Red,
        Green,
    }

    #[derive(Debug, Deserialize, ToSchema)]
    #[serde(deny_unknown_fields)]
    struct Inner {
        #[schema(min_length = 1, max_length = 20)]
        #[expect(dead_code, reason = "only its errors are read")]
        name: String,
    }

    #[derive(Debug, Deserialize, ToSchema)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only its errors are read")]
    struct Options {
        #[schema(minimum = 1, maximum = 4096)]
        width: u32,
        #[schema(minimum = 0, maximum = 1)]
        score: Option<f32>,
        color: Option<Color>,
        #[serde(default)]
        is_fast: bool,
        inner: Option<Inner>,
        #[serde(default)]
        #[schema(max_items = 2)]
        sides: Vec<u8>,
    }

    fn errors(tree: &Value) -> Vec<(String, String)> {
        let errors = read::<Options>(tree, "option").unwrap_err().errors;
        let pair = |error: FieldError| (error.field, error.detail);
        errors.into_iter().map(pair).collect()
    }

    fn error(tree: &Value) -> String {
        match errors(tree).as_slice() {
            [(field, detail)] => format!("{field} {detail}"),
            errors => panic!("{tree}: {errors:?}"),
        }
    }

    #[test]
    fn every_mistake_is_in_one_error() {
        let tree = json!({"witdh": 7, "score": 2, "color": "rde", "inner": {"nmae": "a"}, "sides": [1, 2, 3]});
        let expected = [
            ("witdh", "is unknown; did you mean `width`?"),
            ("score", "must be a number from 0 to 1"),
            ("color", "must be `red` or `green`; did you mean `red`?"),
            ("inner.nmae", "is unknown; did you mean `name`?"),
            ("inner.name", "is missing; send text of 1 to 20 characters"),
            (
                "sides",
                "must be a list of at most 2 whole numbers of at least 0",
            ),
            ("width", "is missing; send a whole number from 1 to 4096"),
        ];
        let expected = expected.map(|(field, detail)| (field.to_owned(), detail.to_owned()));
        assert_eq!(errors(&tree), expected);
    }

    #[test]
    fn messages_have_no_words_of_a_programming_language_and_no_value() {
        for (field, value) in [
            ("width", json!("secret")),
            ("width", json!(-1)),
            ("width", json!([])),
            ("score", json!({"secret": 1})),
            ("color", json!(7)),
            ("is_fast", json!("secret")),
            ("inner", json!(true)),
            ("inner", json!({"name": 7})),
            ("sides", json!("secret")),
            ("sides", json!([300])),
        ] {
            let mut tree = json!({"width": 1});
            tree[field] = value.clone();
            let error = error(&tree);
            for word in ["u8", "u32", "struct", "variant", "invalid type", "secret"] {
                assert!(!error.contains(word), "{tree}: {error}");
            }
            assert!(error.contains("must be "), "{tree}: {error}");
        }
    }

    #[test]
    fn an_absent_field_may_be_null() {
        let tree =
            json!({"width": 1, "score": null, "color": null, "is_fast": false, "inner": null});
        assert!(read::<Options>(&tree, "option").is_ok());
    }

    #[test]
    fn a_long_list_of_mistakes_is_cut() {
        let tree: serde_json::Map<_, _> = (0..64).map(|n| (format!("{n}"), json!(1))).collect();
        let found = read::<Options>(&Value::Object(tree), "option").unwrap_err();
        assert_eq!(found.errors.len(), MAX_ERRORS);
        let text = found.to_string();
        assert!(
            text.ends_with("and 12 more, which `errors` lists"),
            "{text}"
        );
    }
}
