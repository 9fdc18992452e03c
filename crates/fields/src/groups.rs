//! Options that several requests share, declared once.
//!
//! `#[serde(flatten)]` does not work together with `deny_unknown_fields`, and loses the path of an error. So a request is
//! checked against its whole schema first, and then each group takes the options that it knows from the tree.

use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};
use utoipa::{
    ToSchema,
    openapi::{RefOr, Schema, schema::AdditionalProperties},
};

use super::{FieldError, FieldErrors, Reading, Shape, check, read_unless, wording};

/// The longest JSON text of a list or an object, in bytes.
const MAX_TEXT_BYTES: usize = 1 << 16;

/// The options of a request: its own, and groups that it shares with other requests. `request_options!` declares them.
pub trait Options: Serialize + ToSchema + Sized + 'static {
    /// The options that are read only to be refused with a reason. No schema has them.
    const HIDDEN: &'static [&'static str];

    /// Reads the options from an object, whose other fields it ignores.
    ///
    /// # Errors
    /// The first mistake.
    fn from_tree(tree: &Value) -> Result<Self, FieldError>;
}

/// Reads the options of a request. A list or an object can be sent as JSON text.
///
/// # Errors
/// [`FieldErrors`] with every option that is unknown, malformed or out of range.
pub fn read_options<O: Options>(tree: &Value) -> Result<O, FieldErrors> {
    let shape = Shape::from_schema::<O>();
    let (tree, mut errors) = match tree {
        Value::Object(options) => parse_texts(&shape, options.clone()),
        tree => (tree.clone(), Vec::new()),
    };
    errors.extend(check::check(&shape, &tree, O::HIDDEN));
    read_unless(errors, "option", || O::from_tree(&tree))
}

/// Checks the ranges of options that were not read with [`read_options`], such as those of a command line.
///
/// # Errors
/// [`FieldErrors`] with every option that is out of range.
pub fn checked<O: Options>(options: O) -> Result<O, FieldErrors> {
    let shape = Shape::from_schema::<O>();
    // A direct conversion turns each `f32` into an `f64`, so 0.000001 would be less than that.
    let text = serde_json::to_vec(&options).unwrap_or_default();
    let tree = serde_json::from_slice(&text).unwrap_or_default();
    let mut errors = check::check(&shape, &tree, O::HIDDEN);
    // Options that are absent are not written, so only a number that is not finite becomes null.
    let fields = tree.as_object().into_iter().flatten();
    errors.extend(
        fields
            .filter(|(_, value)| value.is_null())
            .map(|(name, _)| FieldError::not_allowed(name, "a finite number")),
    );
    read_unless(errors, "option", || Ok(options))
}

/// Parses the texts of lists and objects.
fn parse_texts(shape: &Shape, mut options: Map<String, Value>) -> (Value, Vec<FieldError>) {
    let mut errors = Vec::new();
    options.retain(|name, value| {
        let Value::String(text) = &*value else {
            return true;
        };
        if shape.reading(name) != Reading::Tree {
            return true;
        }
        match parse_text(name, text) {
            Ok(parsed) => {
                *value = parsed;
                true
            }
            Err(error) => {
                errors.push(error);
                false
            }
        }
    });
    (Value::Object(options), errors)
}

fn parse_text(name: &str, text: &str) -> Result<Value, FieldError> {
    if text.len() > MAX_TEXT_BYTES {
        let detail = format!("is longer than {MAX_TEXT_BYTES} bytes");
        return Err(FieldError::new(name, detail));
    }
    serde_json::from_str(text).map_err(|error| {
        let detail = format!("is not valid JSON: {}", wording::json_error(&error));
        FieldError::new(name, detail)
    })
}

/// Reads a group from the options of a request.
///
/// # Errors
/// The first mistake.
pub fn read_group<G: DeserializeOwned>(tree: &Value) -> Result<G, FieldError> {
    serde_path_to_error::deserialize(tree)
        .map_err(|error| wording::field_error(error.path(), error.inner()))
}

/// Adds the options of a group to the schema of a request. `takes` says which ones the request has.
pub fn add_group(schema: &mut RefOr<Schema>, group: RefOr<Schema>, takes: fn(&str) -> bool) {
    let (RefOr::T(Schema::Object(request)), RefOr::T(Schema::Object(group))) = (schema, group)
    else {
        return;
    };
    request.additional_properties = Some(Box::new(AdditionalProperties::FreeForm(false)));
    let options = group.properties.into_iter();
    request
        .properties
        .extend(options.filter(|(name, _)| takes(name)));
}

/// Returns whether an option has its default, so that it is not written.
pub fn is_default<T: Default + PartialEq>(option: &T) -> bool {
    *option == T::default()
}

/// Declares the options of a request: its own, and the groups that it shares with others.
///
/// A request can take `only` some options of a group, or a group `without` some. `hidden` names those that no schema has. The
/// struct has its own options as fields, and a field for each group.
#[macro_export]
macro_rules! request_options {
    (
        $(#[$about:meta])+
        $vis:vis struct $name:ident {
            $($(#[$attribute:meta])+ pub $option:ident: $type:ty,)*
        }
        with {
            $($group:ident: $of:ident $($rule:ident [$($named:ident),+])?,)+
        }
        $(hidden [$($hidden:ident),+])?
    ) => {
        #[doc = concat!("The options of [`", stringify!($name), "`], as its schema describes them.")]
        #[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
        $vis struct $name {
            $(
                #[doc = concat!("The option `", stringify!($option), "`.")]
                #[serde(skip_serializing_if = "facescan_fields::groups::is_default")]
                pub $option: $type,
            )*
            $(
                #[doc = concat!("The options of [`", stringify!($of), "`].")]
                #[serde(flatten)]
                pub $group: $of,
            )+
        }

        const _: () = {
            use $crate::{FieldError, groups};

            #[derive(serde::Deserialize, utoipa::ToSchema, utoipa::IntoParams)]
            #[into_params(parameter_in = Query)]
            $(#[$about])+
            struct Own {
                $($(#[$attribute])+ $option: $type,)*
            }

            impl groups::Options for $name {
                const HIDDEN: &'static [&'static str] = &[$($(stringify!($hidden)),+)?];

                fn from_tree(tree: &serde_json::Value) -> Result<Self, FieldError> {
                    let own: Own = groups::read_group(tree)?;
                    Ok(Self {
                        $($option: own.$option,)*
                        $($group: groups::read_group(tree)?,)+
                    })
                }
            }

            impl utoipa::PartialSchema for $name {
                fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
                    let mut schema = <Own as utoipa::PartialSchema>::schema();
                    $(groups::add_group(
                        &mut schema,
                        <$of as utoipa::PartialSchema>::schema(),
                        $crate::request_options!(@takes $($rule [$($named),+])?),
                    );)+
                    schema
                }
            }

            impl utoipa::ToSchema for $name {
                fn name() -> std::borrow::Cow<'static, str> {
                    <Own as utoipa::ToSchema>::name()
                }

                fn schemas(
                    schemas: &mut Vec<(String, utoipa::openapi::RefOr<utoipa::openapi::Schema>)>,
                ) {
                    <Own as utoipa::ToSchema>::schemas(schemas);
                    $(<$of as utoipa::ToSchema>::schemas(schemas);)+
                }
            }

            impl utoipa::IntoParams for $name {
                fn into_params(
                    place: impl Fn() -> Option<utoipa::openapi::path::ParameterIn>,
                ) -> Vec<utoipa::openapi::path::Parameter> {
                    let mut parameters = <Own as utoipa::IntoParams>::into_params(&place);
                    $({
                        let takes: fn(&str) -> bool =
                            $crate::request_options!(@takes $($rule [$($named),+])?);
                        let group = <$of as utoipa::IntoParams>::into_params(&place).into_iter();
                        parameters.extend(group.filter(|option| takes(&option.name)));
                    })+
                    parameters
                }
            }
        };
    };
    (@takes) => { |_| true };
    (@takes only [$($named:ident),+]) => { |name| [$(stringify!($named)),+].contains(&name) };
    (@takes without [$($named:ident),+]) => { |name| ![$(stringify!($named)),+].contains(&name) };
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;
    use utoipa::{IntoParams, PartialSchema};

    use super::*;

    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema, IntoParams)]
    #[into_params(parameter_in = Query)]
    pub(super) struct Shared {
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schema(minimum = 0, maximum = 0.6)]
        score: Option<f32>,
        #[serde(skip_serializing_if = "Option::is_none")]
        side: Option<u32>,
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schema(ignore)]
        #[param(ignore)]
        store: Option<bool>,
    }

    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
    #[serde(deny_unknown_fields)]
    pub(super) struct Step {
        #[schema(maximum = 9)]
        width: u32,
    }

    request_options! {
        /// Options of a test.
        #[schema(as = TestOptions)]
        pub(super) struct TestRequest {
            /// The steps.
            #[serde(default)]
            #[param(value_type = String)]
            #[schema(max_items = 2)]
            pub steps: Vec<Step>,
        }
        with {
            shared: Shared without [side],
        }
        hidden [store]
    }

    fn errors(tree: &Value) -> Vec<String> {
        let errors = read_options::<TestRequest>(tree).unwrap_err().errors;
        let text = |error: FieldError| format!("{} {}", error.field, error.detail);
        errors.into_iter().map(text).collect()
    }

    #[test]
    fn a_group_is_read_and_written_as_options_of_the_request() {
        let tree = json!({"steps": [{"width": 7}], "score": 0.5, "store": false});
        let read: TestRequest = read_options(&tree).unwrap();
        assert_eq!(read.steps, [Step { width: 7 }]);
        assert_eq!(
            (read.shared.score, read.shared.store),
            (Some(0.5), Some(false))
        );
        assert_eq!(serde_json::to_value(&read).unwrap(), tree);
        assert_eq!(
            serde_json::to_value(TestRequest::default()).unwrap(),
            json!({})
        );
    }

    #[test]
    fn every_mistake_is_found_and_an_option_that_is_left_out_is_unknown() {
        assert_eq!(
            errors(&json!({"side": 7, "score": 2, "scor": 1})),
            [
                "side is unknown; known are steps, score",
                "score must be a number from 0 to 0.6",
                "scor is unknown; did you mean `score`?",
            ]
        );
        assert_eq!(
            errors(&json!({"store": "a"})),
            ["store must be true or false"]
        );
    }

    #[test]
    fn a_mistake_in_json_text_has_its_place() {
        let steps = |text: &str| errors(&json!({ "steps": text }));
        assert_eq!(
            steps(r#"[{"width": 1}, {"widht": 2}]"#),
            [
                "steps[1].widht is unknown; did you mean `width`?",
                "steps[1].width is missing; send a whole number from 0 to 9",
            ]
        );
        assert!(steps("[").concat().starts_with("steps is not valid JSON: "));
        let long = " ".repeat(MAX_TEXT_BYTES + 1);
        assert_eq!(steps(&long), ["steps is longer than 65536 bytes"]);
    }

    #[test]
    fn options_that_were_not_read_are_checked_too() {
        let with = |score| TestRequest {
            shared: Shared {
                score: Some(score),
                ..Shared::default()
            },
            ..TestRequest::default()
        };
        // The nearest `f32` is above the maximum.
        assert!(checked(with(0.6)).is_ok());
        for score in [1.5, f32::NAN, f32::INFINITY] {
            assert!(checked(with(score)).is_err(), "{score}");
        }
    }

    #[test]
    fn the_schema_and_the_parameters_have_the_options_of_the_groups() {
        let schema = serde_json::to_value(TestRequest::schema()).unwrap();
        let names: Vec<_> = schema["properties"].as_object().unwrap().keys().collect();
        assert_eq!(names, ["steps", "score"]);
        assert_eq!(schema["additionalProperties"], false);
        assert_eq!(schema["properties"]["score"]["maximum"], 0.6);
        assert_eq!(TestRequest::name(), "TestOptions");
        let parameters = TestRequest::into_params(|| None);
        let names: Vec<_> = parameters.iter().map(|option| &option.name).collect();
        assert_eq!(names, ["steps", "score"]);
    }
}
