//! What each operation returns for an image, and how the document describes a response with it.

use std::borrow::Cow;

use facescan_inference::device::DeviceState;
use serde::Serialize;
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{
        ArrayBuilder, ObjectBuilder, OneOfBuilder, Ref, RefOr,
        schema::{Schema, Type},
    },
};

use super::{
    ImageEmbeddingResult, ScanResult,
    response::{Failure, Outcome, Response, Success},
};
use crate::{
    models::ModelsUsed,
    operations::{enhance::result::EnhanceResult, process::result::ProcessResult},
};

/// The schemas of a document, by their names.
type NamedSchemas = Vec<(String, RefOr<Schema>)>;

/// What an operation returns for one image. A response has its fields beside those of [`Success`].
pub trait ImageResult: ToSchema + Sized {
    /// The first word of the names of the schemas, such as `Scan` of `ScanResponse`.
    const NAME: &'static str;

    /// The name of the schema of an image with this result.
    const IMAGE: &'static str;

    /// Adds the schema of an image with this result. Returns a reference to it, or one for each form of the result, because
    /// generators lose a schema that combines an object with a choice of objects.
    fn add_images(schemas: &mut NamedSchemas) -> Vec<Ref> {
        vec![add_image::<Self>(Self::IMAGE, schemas)]
    }
}

/// Adds the schema of an image with a result `T`. Returns a reference to it.
fn add_image<T: ToSchema>(name: &str, schemas: &mut NamedSchemas) -> Ref {
    add::<T>(schemas);
    schemas.push((name.to_owned(), Success::<T>::schema()));
    Success::<T>::schemas(schemas);
    Ref::from_schema_name(name)
}

/// The name of the schema of an image with the vector of the whole image.
pub const ENCODED_IMAGE: &str = "EncodedImage";

/// The result of `/embed` for one image.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub enum EmbedResult {
    /// The faces and their vectors.
    Faces(ScanResult),
    /// The vector of the whole image, with `kind=image`.
    Image(ImageEmbeddingResult),
}

impl From<ScanResult> for EmbedResult {
    fn from(result: ScanResult) -> Self {
        Self::Faces(result)
    }
}

impl ImageResult for ScanResult {
    const NAME: &'static str = "Scan";
    const IMAGE: &'static str = "ScannedImage";
}

impl ImageResult for EmbedResult {
    const NAME: &'static str = "Embed";
    const IMAGE: &'static str = ENCODED_IMAGE;

    fn add_images(schemas: &mut NamedSchemas) -> Vec<Ref> {
        let mut images = ScanResult::add_images(schemas);
        images.push(add_image::<ImageEmbeddingResult>(Self::IMAGE, schemas));
        images
    }
}

impl ImageResult for EnhanceResult {
    const NAME: &'static str = "Enhance";
    const IMAGE: &'static str = "EnhancedImage";
}

impl ImageResult for ProcessResult {
    const NAME: &'static str = "Process";
    const IMAGE: &'static str = "ProcessedImage";
}

impl<T: ImageResult> PartialSchema for Response<T> {
    fn schema() -> RefOr<Schema> {
        let text = |text: &'static str| {
            ObjectBuilder::new()
                .schema_type(Type::String)
                .description(Some(text))
        };
        let devices = ObjectBuilder::new()
            .additional_properties(Some(Ref::from_schema_name(DeviceState::name())))
            .description(Some(
                "The device of each operation. A result that another device made has its own `devices`.",
            ));
        let results = ArrayBuilder::new()
            .items(Ref::from_schema_name(Outcome::<T>::name()))
            .description(Some("One entry for each image."));
        let id = "The id of the request, as in the `x-request-id` header and in the log.";
        let operation = text("The name of the operation.").examples(["embed"]);
        let response = ObjectBuilder::new()
            .description(Some(
                "One result for each image, in the order of the request.",
            ))
            .property("request_id", text(id))
            .property("operation", operation)
            .property("models", Ref::from_schema_name(ModelsUsed::name()))
            .property("devices", devices)
            .property("results", results);
        let required = ["request_id", "operation", "models", "devices", "results"];
        let response = required.into_iter().fold(response, ObjectBuilder::required);
        RefOr::T(Schema::Object(response.build()))
    }
}

impl<T: ImageResult> ToSchema for Response<T> {
    fn name() -> Cow<'static, str> {
        format!("{}Response", T::NAME).into()
    }

    fn schemas(schemas: &mut NamedSchemas) {
        add::<ModelsUsed>(schemas);
        add::<DeviceState>(schemas);
        add::<Outcome<T>>(schemas);
    }
}

impl<T: ImageResult> PartialSchema for Outcome<T> {
    fn schema() -> RefOr<Schema> {
        let images = T::add_images(&mut Vec::new());
        let entry = OneOfBuilder::new().description(Some("The result or the error of one image."));
        let entry = images.into_iter().fold(entry, OneOfBuilder::item);
        let entry = entry.item(Ref::from_schema_name(Failure::name()));
        RefOr::T(Schema::OneOf(entry.build()))
    }
}

impl<T: ImageResult> ToSchema for Outcome<T> {
    fn name() -> Cow<'static, str> {
        format!("{}Outcome", T::NAME).into()
    }

    fn schemas(schemas: &mut NamedSchemas) {
        T::add_images(schemas);
        add::<Failure>(schemas);
    }
}

/// Adds the schema of a type, and those that it refers to.
fn add<T: ToSchema>(schemas: &mut NamedSchemas) {
    schemas.push((T::name().into_owned(), T::schema()));
    T::schemas(schemas);
}
