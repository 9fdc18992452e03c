//! What a schema allows, in words.

use serde_json::Value;

use super::{Shape, shape::types};

/// The largest number that texts name. A larger one is that of the type and no limit that a caller knows.
const MAX_NAMED: f64 = 4_000_000_000.0;

/// Describes the values that a schema allows, such as `a whole number from 1 to 4096`.
pub(super) fn describe(shape: &Shape, schema: &Value) -> String {
    let schema = shape.resolve(schema);
    if let Some(choices) = shape.choices(schema) {
        let texts: Vec<String> = choices
            .iter()
            .map(|choice| describe(shape, choice))
            .collect();
        return texts.join(", or ");
    }
    if let Some(words) = schema["enum"].as_array() {
        let of: Vec<&str> = words.iter().filter_map(Value::as_str).collect();
        return self::words(&of);
    }
    match types(schema).find(|kind| *kind != "null") {
        Some("boolean") => "true or false".to_owned(),
        Some("integer") => format!("a whole number{}", range(schema)),
        Some("number") => format!("a number{}", range(schema)),
        Some("string") => text(schema),
        Some("array") => list(shape, schema),
        Some("object") => object(schema),
        _ => "another value".to_owned(),
    }
}

/// Lists words: `a`, `a` or `b`, or one of several.
pub(super) fn words(words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
    match quoted.as_slice() {
        [] => "nothing".to_owned(),
        [one] => one.clone(),
        [one, other] => format!("{one} or {other}"),
        several => format!("one of {}", several.join(", ")),
    }
}

fn range(schema: &Value) -> String {
    let bound = |name: &str| schema[name].as_f64();
    let most = bound("maximum").filter(|most| *most < MAX_NAMED);
    let range = match (bound("minimum"), bound("exclusiveMinimum"), most) {
        (Some(least), _, Some(most)) => format!(" from {least} to {most}"),
        (Some(least), _, None) => format!(" of at least {least}"),
        (None, Some(least), Some(most)) => format!(" above {least} and at most {most}"),
        (None, Some(least), None) => format!(" above {least}"),
        (None, None, Some(most)) => format!(" of at most {most}"),
        (None, None, None) => String::new(),
    };
    match bound("multipleOf") {
        Some(step) => format!("{range} that is a multiple of {step}"),
        None => range,
    }
}

fn text(schema: &Value) -> String {
    match schema["format"].as_str() {
        Some("uuid") => return "a UUID such as 0192f0c1-6c8e-7a43-9a0e-2f6c1f1e2b7d".to_owned(),
        Some("date-time") => return "a time such as 2026-01-31T12:00:00Z".to_owned(),
        _ => {}
    }
    let length = |name: &str| schema[name].as_u64();
    match (
        length("minLength").filter(|least| *least > 0),
        length("maxLength"),
    ) {
        (Some(least), Some(most)) => format!("text of {least} to {most} characters"),
        (None, Some(most)) => format!("text of at most {most} characters"),
        (Some(1), None) => "text that is not empty".to_owned(),
        (Some(least), None) => format!("text of at least {least} characters"),
        (None, None) => "text".to_owned(),
    }
}

fn list(shape: &Shape, schema: &Value) -> String {
    let items = shape.resolve(&schema["items"]);
    let what = match types(items).find(|kind| *kind != "null") {
        Some("integer") => format!("whole numbers{}", range(items)),
        Some("number") => format!("numbers{}", range(items)),
        Some("string") if items["format"] == "uuid" => "UUIDs".to_owned(),
        Some("string") if items["enum"].is_array() => {
            format!("words, each {}", describe(shape, items))
        }
        Some("string") => "texts".to_owned(),
        Some("array") => "lists".to_owned(),
        _ => "objects".to_owned(),
    };
    let count = |name: &str| schema[name].as_u64();
    match (count("minItems"), count("maxItems")) {
        (Some(least), Some(most)) if least == most => format!("a list of {most} {what}"),
        (Some(least), Some(most)) => format!("a list of {least} to {most} {what}"),
        (None, Some(most)) => format!("a list of at most {most} {what}"),
        (Some(least), None) => format!("a list of at least {least} {what}"),
        (None, None) => format!("a list of {what}"),
    }
}

fn object(schema: &Value) -> String {
    let required = schema["required"].as_array();
    let names: Vec<String> = required
        .into_iter()
        .flatten()
        .filter_map(|name| Some(format!("`{}`", name.as_str()?)))
        .collect();
    match names.as_slice() {
        [] => "an object".to_owned(),
        [one] => format!("an object with {one}"),
        [first @ .., last] => format!("an object with {} and {last}", first.join(", ")),
    }
}
