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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[derive(Serialize, ToSchema)]
    struct Shelf {
        books: u32,
    }

    impl Listed for Shelf {
        const DESCRIPTION: &'static str = "A page of shelves, lowest first.";
    }

    #[test]
    fn the_schema_is_that_of_the_page_and_the_last_page_has_no_next() {
        let mut page = Page {
            results: vec![Shelf { books: 3 }],
            next: Some(Uuid::nil()),
        };
        let expected = json!({"results": [{"books": 3}], "next": Uuid::nil()});
        assert_eq!(serde_json::to_value(&page).unwrap(), expected);
        page.next = None;
        let last = serde_json::to_value(&page).unwrap();
        assert_eq!(last, json!({"results": [{"books": 3}]}));
        assert_eq!(Page::<Shelf>::name(), "ShelfPage");
        let schema = serde_json::to_value(Page::<Shelf>::schema()).unwrap();
        assert_eq!(schema["required"], json!(["results"]));
        let items = &schema["properties"]["results"]["items"];
        assert_eq!(*items, json!({"$ref": "#/components/schemas/Shelf"}));
    }
}
