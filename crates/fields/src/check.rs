//! Checks a tree against a schema, and collects what is wrong.

use serde_json::{Map, Number, Value};
use time::{OffsetDateTime, format_description::well_known::Rfc3339};
use uuid::Uuid;

use super::{FieldError, MAX_ERRORS, Shape, describe::describe, shape::types};

/// Options by which other servers choose a model.
const MODEL_OPTIONS: [&str; 5] = [
    "model",
    "model_name",
    "detector",
    "detector_backend",
    "embedder",
];

/// What to do here instead.
const MODELS: &str =
    "is unknown; the settings of the server choose the models, and GET /models lists them";

/// Returns what is wrong with an object. The fields of `hidden` are known, although the schema does not have them.
pub(super) fn check(shape: &Shape, tree: &Value, hidden: &[&str]) -> Vec<FieldError> {
    errors_of((shape, hidden), shape.root(), (tree, ""))
}

impl Shape {
    /// Returns what is wrong with the value of one field, whatever the others are. A field that does not exist allows every
    /// value.
    pub fn check_field(&self, name: &str, value: &Value) -> Vec<FieldError> {
        let property = self.property(name);
        property.map_or_else(Vec::new, |property| {
            errors_of((self, &[]), property, (value, name))
        })
    }
}

/// Returns what is wrong with the value at a path.
fn errors_of(
    (shape, hidden): (&Shape, &[&str]),
    schema: &Value,
    (value, path): (&Value, &str),
) -> Vec<FieldError> {
    let mut check = Check {
        shape,
        hidden,
        errors: Vec::new(),
    };
    check.value(schema, value, path);
    check.errors
}

struct Check<'a> {
    shape: &'a Shape,
    hidden: &'a [&'a str],
    errors: Vec<FieldError>,
}

impl<'a> Check<'a> {
    fn add(&mut self, error: FieldError) {
        if self.errors.len() < MAX_ERRORS {
            self.errors.push(error);
        }
    }

    /// Adds the error of a value that its schema does not allow.
    fn refuse(&mut self, schema: &Value, path: &str) {
        self.add(FieldError::not_allowed(path, describe(self.shape, schema)));
    }

    fn value(&mut self, schema: &'a Value, value: &Value, path: &str) {
        let schema = self.shape.resolve(schema);
        if let Some(choices) = self.shape.choices(schema) {
            return self.choice(schema, &choices, value, path);
        }
        let has = |kind: &str| types(schema).any(|of| of == kind);
        let is_allowed = match value {
            // A reference to nothing, or metadata of any form.
            _ if types(schema).next().is_none() => true,
            Value::Null => has("null"),
            Value::Bool(_) => has("boolean"),
            Value::Number(number) => is_in_range(schema, number, has("integer"), has("number")),
            Value::String(text) if has("string") => return self.text(schema, text, path),
            // Lists and objects may be JSON text. Their type reads it.
            Value::String(_) => (has("array") || has("object")) && !path.is_empty(),
            Value::Array(list) if has("array") => return self.list(schema, list, path),
            Value::Object(fields) if has("object") => return self.object(schema, fields, path),
            Value::Array(_) | Value::Object(_) => false,
        };
        if !is_allowed {
            self.refuse(schema, path);
        }
    }

    fn object(&mut self, schema: &'a Value, fields: &Map<String, Value>, path: &str) {
        let Some(properties) = schema["properties"].as_object() else {
            return;
        };
        let is_closed = schema["additionalProperties"] == false;
        let required: Vec<&str> = schema["required"]
            .as_array()
            .map_or_else(Vec::new, |names| {
                names.iter().filter_map(Value::as_str).collect()
            });
        for (name, value) in fields {
            let inner = joined(path, name);
            match properties.get(name) {
                // An optional field may be null, whatever the schema says.
                Some(_) if value.is_null() && !required.contains(&name.as_str()) => {}
                Some(property) => self.value(property, value, &inner),
                None if !is_closed || (path.is_empty() && self.hidden.contains(&name.as_str())) => {
                }
                None => {
                    let known = properties.keys().map(String::as_str);
                    let error = FieldError::unknown(&inner, name, known);
                    self.add(match MODEL_OPTIONS.contains(&name.as_str()) {
                        true => FieldError {
                            detail: MODELS.to_owned(),
                            did_you_mean: None,
                            ..error
                        },
                        false => error,
                    });
                }
            }
        }
        for name in required {
            if !fields.contains_key(name) {
                let wanted = describe(self.shape, &properties[name]);
                self.add(FieldError {
                    allowed: Some(wanted.clone()),
                    ..FieldError::new(joined(path, name), format!("is missing; send {wanted}"))
                });
            }
        }
    }

    fn list(&mut self, schema: &'a Value, list: &[Value], path: &str) {
        let count = list.len() as u64;
        if is_outside((&schema["minItems"], &schema["maxItems"]), count) {
            return self.refuse(schema, path);
        }
        for (index, item) in list.iter().enumerate() {
            self.value(&schema["items"], item, &format!("{path}[{index}]"));
        }
    }

    fn text(&mut self, schema: &Value, text: &str, path: &str) {
        if let Some(words) = schema["enum"].as_array() {
            let words: Vec<&str> = words.iter().filter_map(Value::as_str).collect();
            if !words.contains(&text) {
                self.add(FieldError::not_one_of(path, Some(text), words));
            }
            return;
        }
        let count = text.chars().count() as u64;
        let is_malformed = match schema["format"].as_str() {
            Some("uuid") => Uuid::try_parse(text).is_err(),
            Some("date-time") => OffsetDateTime::parse(text, &Rfc3339).is_err(),
            _ => false,
        };
        if is_malformed || is_outside((&schema["minLength"], &schema["maxLength"]), count) {
            self.refuse(schema, path);
        }
    }

    /// Checks a value that matches one of several schemas.
    fn choice(&mut self, schema: &'a Value, choices: &[&'a Value], value: &Value, path: &str) {
        if value.is_null() && choices.len() < schema["oneOf"].as_array().map_or(0, Vec::len) {
            return;
        }
        if let &[only] = choices {
            return self.value(only, value, path);
        }
        let of = (self.shape, self.hidden);
        let mut wrong = choices
            .iter()
            .map(|choice| errors_of(of, choice, (value, path)));
        if wrong.any(|errors| errors.is_empty()) {
            return;
        }
        let Some((tag, words)) = tag(choices) else {
            return match value.as_str().map(|word| (word, single_words(choices))) {
                Some((word, words)) if !words.is_empty() => {
                    let error = FieldError::not_allowed(path, describe(self.shape, schema));
                    self.add(error.meaning(super::nearest(word, words)));
                }
                _ => self.refuse(schema, path),
            };
        };
        let Some(fields) = value.as_object() else {
            return self.add(FieldError::not_allowed(
                path,
                format!("an object with `{tag}`"),
            ));
        };
        let word = fields.get(tag).and_then(Value::as_str);
        match words.iter().position(|of| Some(*of) == word) {
            Some(index) => self.value(choices[index], value, path),
            None => self.add(FieldError::not_one_of(joined(path, tag), word, words)),
        }
    }
}

/// Returns the field whose word tells apart objects of several forms, and the word of each.
fn tag<'a>(choices: &[&'a Value]) -> Option<(&'a str, Vec<&'a str>)> {
    let (first, _) = choices
        .first()?
        .get("properties")?
        .as_object()?
        .iter()
        .find(|(_, property)| only_word(property).is_some())?;
    let words = choices
        .iter()
        .map(|choice| only_word(&choice["properties"][first.as_str()]));
    Some((first.as_str(), words.collect::<Option<_>>()?))
}

/// Returns the word of a schema that allows a single one.
fn only_word(schema: &Value) -> Option<&str> {
    match schema["enum"].as_array()?.as_slice() {
        [word] => word.as_str(),
        _ => None,
    }
}

/// Returns the words among choices that are words or something else.
fn single_words<'a>(choices: &[&'a Value]) -> Vec<&'a str> {
    choices
        .iter()
        .filter_map(|choice| only_word(choice))
        .collect()
}

fn joined(path: &str, name: &str) -> String {
    match path {
        "" => name.to_owned(),
        path => format!("{path}.{name}"),
    }
}

/// Returns whether a count is not between two bounds, each of which can be absent.
fn is_outside((least, most): (&Value, &Value), count: u64) -> bool {
    least.as_u64().is_some_and(|least| count < least)
        || most.as_u64().is_some_and(|most| count > most)
}

fn is_in_range(schema: &Value, number: &Number, is_integer: bool, is_float: bool) -> bool {
    let Some(value) = number.as_f64() else {
        return false;
    };
    let bound = |name: &str| schema[name].as_f64();
    let is_whole = value.fract() == 0.0;
    (is_float || (is_integer && is_whole))
        && bound("minimum").is_none_or(|least| value >= least)
        && bound("maximum").is_none_or(|most| value <= most)
        && bound("exclusiveMinimum").is_none_or(|least| value > least)
        && bound("exclusiveMaximum").is_none_or(|most| value < most)
        && bound("multipleOf").is_none_or(|step| value % step == 0.0)
}
