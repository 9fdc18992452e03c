//! Pages of lists.

use std::borrow::Cow;

use serde::{Serialize, Serializer, ser::SerializeStruct};
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
    /// The field of a page that has the entries, such as `people`.
    const ENTRIES: &'static str;
    /// The name of the schema of a page.
    const PAGE: &'static str;
    /// What a page is, with the order of its entries.
    const DESCRIPTION: &'static str;
}

/// A page of a list.
#[derive(Debug)]
pub struct Page<T> {
    /// The entries.
    pub entries: Vec<T>,
    /// The value of `after` for the next page. `None` on the last page.
    pub next: Option<Uuid>,
}

impl<T: Listed> Serialize for Page<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let fields = 1 + usize::from(self.next.is_some());
        let mut page = serializer.serialize_struct(T::PAGE, fields)?;
        page.serialize_field(T::ENTRIES, &self.entries)?;
        match &self.next {
            Some(next) => page.serialize_field("next", next)?,
            None => page.skip_field("next")?,
        }
        page.end()
    }
}

impl<T: Listed> PartialSchema for Page<T> {
    fn schema() -> RefOr<Schema> {
        let entries = ArrayBuilder::new().items(Ref::from_schema_name(T::name()));
        let next = ObjectBuilder::new()
            .schema_type(SchemaType::from_iter([Type::String, Type::Null]))
            .format(Some(SchemaFormat::KnownFormat(KnownFormat::Uuid)))
            .description(Some(
                "The value of `after` for the next page. Absent on the last page.",
            ));
        let page = ObjectBuilder::new()
            .description(Some(T::DESCRIPTION))
            .property(T::ENTRIES, entries)
            .required(T::ENTRIES)
            .property("next", next);
        RefOr::T(Schema::Object(page.build()))
    }
}

impl<T: Listed> ToSchema for Page<T> {
    fn name() -> Cow<'static, str> {
        Cow::Borrowed(T::PAGE)
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
        const ENTRIES: &'static str = "shelves";
        const PAGE: &'static str = "ShelfPage";
        const DESCRIPTION: &'static str = "A page of shelves, lowest first.";
    }

    #[test]
    fn the_field_has_the_name_of_the_entries_and_the_last_page_has_no_next() {
        let mut page = Page {
            entries: vec![Shelf { books: 3 }],
            next: Some(Uuid::nil()),
        };
        let expected = json!({"shelves": [{"books": 3}], "next": Uuid::nil()});
        assert_eq!(serde_json::to_value(&page).unwrap(), expected);
        page.next = None;
        let last = serde_json::to_value(&page).unwrap();
        assert_eq!(last, json!({"shelves": [{"books": 3}]}));
        let schema = serde_json::to_value(Page::<Shelf>::schema()).unwrap();
        assert_eq!(schema["required"], json!(["shelves"]));
        let items = &schema["properties"]["shelves"]["items"];
        assert_eq!(*items, json!({"$ref": "#/components/schemas/Shelf"}));
    }

    #[test]
    fn msgpack_has_the_names_of_the_fields() {
        let page = Page {
            entries: vec![Shelf { books: 3 }],
            next: None,
        };
        let bytes = rmp_serde::to_vec_named(&page).unwrap();
        let value: serde_json::Value = rmp_serde::from_slice(&bytes).unwrap();
        assert_eq!(value, json!({"shelves": [{"books": 3}]}));
    }
}
