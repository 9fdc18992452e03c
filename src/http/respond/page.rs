//! Pages of lists.

use std::borrow::Cow;

use serde::Serialize;
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{
        ArrayBuilder, KnownFormat, ObjectBuilder, Ref, RefOr, SchemaFormat,
        schema::{Schema, SchemaType, Type},
    },
};
use uuid::Uuid;

/// An entry of a list that has pages.
pub trait Listed: Serialize + ToSchema {
    /// What a page is, with the order of its entries.
    const DESCRIPTION: &'static str;

    /// Returns the name of the schema of a page.
    fn page_name() -> String {
        format!("{}Page", Self::name())
    }
}

/// A page of a list.
#[derive(Debug, Serialize)]
pub struct Page<T> {
    /// The entries.
    pub results: Vec<T>,
    /// The value of `after` for the next page. `None` on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<Uuid>,
}

impl<T: Listed> PartialSchema for Page<T> {
    fn schema() -> RefOr<Schema> {
        let results = ArrayBuilder::new().items(Ref::from_schema_name(T::name()));
        let next = ObjectBuilder::new()
            .schema_type(SchemaType::from_iter([Type::String, Type::Null]))
            .format(Some(SchemaFormat::KnownFormat(KnownFormat::Uuid)))
            .description(Some(
                "The value of `after` for the next page. Absent on the last page.",
            ));
        let page = ObjectBuilder::new()
            .description(Some(T::DESCRIPTION))
            .property("results", results)
            .required("results")
            .property("next", next);
        RefOr::T(Schema::Object(page.build()))
    }
}

impl<T: Listed> ToSchema for Page<T> {
    fn name() -> Cow<'static, str> {
        T::page_name().into()
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        schemas.push((T::name().into_owned(), T::schema()));
        T::schemas(schemas);
    }
}
