//! Schemas of options that the type alone does not describe.

use facescan_config::DEVIATIONS;
use utoipa::openapi::{
    Array, ArrayBuilder, ObjectBuilder, OneOfBuilder, Schema, Type,
    schema::{KnownFormat, SchemaFormat, SchemaType},
};

/// Returns whether a standard deviation is in the allowed range.
pub fn is_deviation(value: f32) -> bool {
    (*DEVIATIONS.start() as f32..=*DEVIATIONS.end() as f32).contains(&value)
}

fn or_null(kind: Type) -> SchemaType {
    SchemaType::from_iter([kind, Type::Null])
}

fn number() -> ObjectBuilder {
    ObjectBuilder::new()
        .schema_type(Type::Number)
        .format(Some(SchemaFormat::KnownFormat(KnownFormat::Float)))
}

fn three(item: ObjectBuilder) -> ArrayBuilder {
    ArrayBuilder::new()
        .items(item)
        .min_items(Some(3))
        .max_items(Some(3))
}

/// Returns the schema of the means of red, green and blue.
pub fn means() -> Array {
    three(number().minimum(Some(0)).maximum(Some(1)))
        .schema_type(or_null(Type::Array))
        .description(Some("Means of red, green and blue, 0 to 1."))
        .build()
}

/// Returns the schema of the standard deviations of red, green and blue.
pub(crate) fn deviations() -> Array {
    let value = number()
        .minimum(Some(*DEVIATIONS.start()))
        .maximum(Some(*DEVIATIONS.end()));
    three(value)
        .schema_type(or_null(Type::Array))
        .description(Some(
            "Standard deviations of red, green and blue, 0.000001 to 1000000.",
        ))
        .build()
}

/// Returns the schema of a color.
pub fn color() -> Array {
    let level = ObjectBuilder::new().schema_type(Type::Integer);
    three(level.minimum(Some(0)).maximum(Some(255)))
        .description(Some("A color: red, green and blue, 0 to 255."))
        .build()
}

/// Returns the schema of the exponent that brightens or darkens an image.
pub fn gamma() -> Schema {
    let auto = ObjectBuilder::new()
        .schema_type(Type::String)
        .enum_values(Some(["auto"]))
        .description(Some("Brighten only dark images."));
    let value = number()
        .minimum(Some(0.1))
        .maximum(Some(10))
        .description(Some("A value below 1 brightens, a value above 1 darkens."));
    let choice = OneOfBuilder::new()
        .item(auto)
        .item(value)
        .item(ObjectBuilder::new().schema_type(Type::Null))
        .description(Some("The exponent of the brightness, or `auto`."))
        .build();
    Schema::OneOf(choice)
}
