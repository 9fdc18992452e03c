//! The schemas of types, as JSON.

use std::{
    any::TypeId,
    collections::HashMap,
    sync::{Arc, LazyLock, Mutex, PoisonError},
};

use serde_json::{Map, Value, json};
use utoipa::{IntoParams, ToSchema, openapi::Required};

/// The shapes that were asked for before, by type. A type can have one for bodies and one for queries.
static SHAPES: LazyLock<Mutex<Shapes>> = LazyLock::new(Mutex::default);

type Shapes = HashMap<(TypeId, Source), Arc<Shape>>;

/// Where a shape comes from.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Source {
    Schema,
    Params,
}

/// The schema of an object, and those that it refers to.
#[derive(Debug)]
pub struct Shape {
    root: Value,
    definitions: HashMap<String, Value>,
}

impl Shape {
    /// Returns the schema of a type.
    pub fn from_schema<T: ToSchema + 'static>() -> Arc<Self> {
        known((TypeId::of::<T>(), Source::Schema), || {
            let mut definitions = Vec::new();
            T::schemas(&mut definitions);
            let definitions = definitions.into_iter().map(|(name, schema)| {
                let schema = serde_json::to_value(schema).unwrap_or_default();
                (name, schema)
            });
            Self {
                root: serde_json::to_value(T::schema()).unwrap_or_default(),
                definitions: definitions.collect(),
            }
        })
    }

    /// Returns the schema of the options that a query has.
    pub fn from_params<T: IntoParams + 'static>() -> Arc<Self> {
        known((TypeId::of::<T>(), Source::Params), || {
            let (mut properties, mut required) = (Map::new(), Vec::new());
            for parameter in T::into_params(|| None) {
                if matches!(parameter.required, Required::True) {
                    required.push(parameter.name.clone());
                }
                let schema = serde_json::to_value(parameter.schema).unwrap_or_default();
                properties.insert(parameter.name, schema);
            }
            Self {
                root: json!({
                    "type": "object",
                    "properties": properties,
                    "required": required,
                    "additionalProperties": false,
                }),
                definitions: HashMap::new(),
            }
        })
    }

    /// Returns the schema of the object itself.
    pub(super) fn root(&self) -> &Value {
        self.resolve(&self.root)
    }

    /// Returns whether there is a field with this name.
    pub fn has(&self, name: &str) -> bool {
        self.property(name).is_some()
    }

    pub(super) fn property(&self, name: &str) -> Option<&Value> {
        self.root()["properties"].get(name)
    }

    /// Follows a reference. A reference to nothing allows every value.
    pub(super) fn resolve<'a>(&'a self, schema: &'a Value) -> &'a Value {
        let Some(reference) = schema["$ref"].as_str() else {
            return schema;
        };
        let name = reference.rsplit('/').next().unwrap_or_default();
        self.definitions.get(name).unwrap_or(&Value::Null)
    }

    /// Returns the schemas of which a value matches one, without null.
    pub(super) fn choices<'a>(&'a self, schema: &'a Value) -> Option<Vec<&'a Value>> {
        let choices = schema["oneOf"].as_array()?;
        let choices = choices.iter().map(|choice| self.resolve(choice));
        Some(choices.filter(|choice| choice["type"] != "null").collect())
    }

    /// Returns how the text of a query or of a part of a form is read.
    pub fn reading(&self, name: &str) -> Reading {
        let Some(property) = self.property(name) else {
            return Reading::Unknown;
        };
        let schema = self.resolve(property);
        let choices = self.choices(schema).unwrap_or_else(|| vec![schema]);
        let is = |kind: &str| {
            choices
                .iter()
                .flat_map(|choice| types(choice))
                .any(|of| of == kind)
        };
        if is("boolean") {
            Reading::Flag
        } else if is("integer") || is("number") {
            Reading::Number
        } else if is("array") || is("object") {
            Reading::Tree
        } else {
            Reading::Text
        }
    }
}

/// How the text of an option is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// A word for true or false.
    Flag,
    /// A number, or a word.
    Number,
    /// The JSON of a list or of an object.
    Tree,
    /// Text, whatever it looks like.
    Text,
    /// The schema does not have the option.
    Unknown,
}

/// Returns the names of the types of a schema.
pub(super) fn types(schema: &Value) -> impl Iterator<Item = &str> {
    let list = match &schema["type"] {
        Value::Array(list) => list.as_slice(),
        one => std::slice::from_ref(one),
    };
    list.iter().filter_map(Value::as_str)
}

/// Returns the boolean that a text means, in settings and in requests.
pub fn flag(text: &str) -> Option<bool> {
    match text.trim().to_ascii_lowercase().as_str() {
        "true" | "1" | "yes" | "on" => Some(true),
        "false" | "0" | "no" | "off" => Some(false),
        _ => None,
    }
}

/// Returns the shape of a type, and makes it the first time.
fn known(key: (TypeId, Source), make: impl FnOnce() -> Shape) -> Arc<Shape> {
    let mut shapes = SHAPES.lock().unwrap_or_else(PoisonError::into_inner);
    let shape = shapes.entry(key).or_insert_with(|| Arc::new(make()));
    Arc::clone(shape)
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Deserialize, ToSchema, IntoParams)]
    #[expect(dead_code, reason = "only its schema is read")]
    struct Query {
        name: Option<String>,
        limit: Option<u32>,
        full: Option<bool>,
        sides: Option<Vec<u32>>,
    }

    #[test]
    fn a_text_is_read_as_what_the_field_takes() {
        for shape in [Shape::from_schema::<Query>(), Shape::from_params::<Query>()] {
            for (name, expected) in [
                ("name", Reading::Text),
                ("limit", Reading::Number),
                ("full", Reading::Flag),
                ("sides", Reading::Tree),
                ("other", Reading::Unknown),
            ] {
                assert_eq!(shape.reading(name), expected, "{name}");
            }
        }
    }
}
