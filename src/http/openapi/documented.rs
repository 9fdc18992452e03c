//! Derives the success responses of a route from the type that its handler returns, so that the document cannot differ from
//! what is served.

use std::collections::BTreeMap;

use axum::{Json, http::StatusCode};
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{
        Content, Ref, RefOr, Response, ResponseBuilder,
        schema::{AllOf, AnyOf, Array, Object, OneOf, Schema},
    },
};

use crate::http::{
    error::ApiError,
    openapi::Bytes,
    respond::negotiated::{
        Created, Deletion, DoneOrQueued, FileOr, InFile, Negotiated, NoContent, Queued,
    },
};

/// The types of a negotiated body.
const NEGOTIATED: [&str; 2] = ["application/json", "application/msgpack"];

/// What the document says about the responses of a handler.
#[derive(Default)]
pub struct Description {
    /// The responses by status.
    pub responses: BTreeMap<String, RefOr<Response>>,
    /// The schemas of their bodies.
    pub schemas: Vec<(String, RefOr<Schema>)>,
}

/// A type that a handler returns, and that describes its own responses.
pub trait Documented {
    /// Adds the responses to a description.
    fn describe(description: &mut Description);
}

impl Description {
    /// Adds a response without a body.
    pub fn response(&mut self, status: StatusCode, text: impl Into<String>) {
        let response = ResponseBuilder::new().description(text).build();
        self.responses
            .insert(status.as_str().to_owned(), RefOr::T(response));
    }

    /// Adds a response with a body `T` in each of some media types.
    pub fn body<T: ToSchema>(
        &mut self,
        status: StatusCode,
        text: impl Into<String>,
        types: &[&str],
    ) {
        self.response(status, text);
        self.more::<T>(status, types);
    }

    /// Adds a body `T` to a response in more media types.
    pub fn more<T: ToSchema>(&mut self, status: StatusCode, types: &[&str]) {
        let response = self.responses.get_mut(status.as_str());
        if let Some(RefOr::T(response)) = response {
            let content = Content::new(Some(Ref::from_schema_name(T::name())));
            let contents = types
                .iter()
                .map(|name| ((*name).to_owned(), content.clone()));
            response
                .content
                .extend(contents.map(|(name, content)| (name, RefOr::T(content))));
        }
        self.schemas.push((T::name().into_owned(), T::schema()));
        T::schemas(&mut self.schemas);
    }
}

/// Returns the first paragraph of the description of a schema.
pub fn text_of<T: PartialSchema>() -> String {
    let RefOr::T(schema) = T::schema() else {
        return String::new();
    };
    let text = match schema {
        Schema::Object(Object { description, .. })
        | Schema::Array(Array { description, .. })
        | Schema::OneOf(OneOf { description, .. })
        | Schema::AllOf(AllOf { description, .. })
        | Schema::AnyOf(AnyOf { description, .. }) => description.unwrap_or_default(),
        _ => String::new(),
    };
    let first = text.split("\n\n").next().unwrap_or_default();
    first.trim_end_matches('.').to_owned()
}

impl<T: Documented> Documented for Result<T, ApiError> {
    fn describe(description: &mut Description) {
        T::describe(description);
    }
}

impl<T: ToSchema> Documented for Negotiated<T> {
    fn describe(description: &mut Description) {
        description.body::<T>(StatusCode::OK, text_of::<T>(), &NEGOTIATED);
    }
}

impl<T: ToSchema> Documented for Created<T> {
    fn describe(description: &mut Description) {
        description.body::<T>(StatusCode::CREATED, "Created", &NEGOTIATED);
    }
}

impl<T: ToSchema> Documented for Queued<T> {
    fn describe(description: &mut Description) {
        let text = "Accepted. The work continues in the background";
        description.body::<T>(StatusCode::ACCEPTED, text, &NEGOTIATED);
    }
}

impl<T: ToSchema> Documented for DoneOrQueued<T> {
    fn describe(description: &mut Description) {
        Negotiated::<T>::describe(description);
        Queued::<T>::describe(description);
    }
}

impl<T: ToSchema + InFile> Documented for FileOr<T> {
    fn describe(description: &mut Description) {
        Negotiated::<T>::describe(description);
        description.more::<Bytes>(StatusCode::OK, T::TYPES);
    }
}

impl Documented for NoContent {
    fn describe(description: &mut Description) {
        description.response(StatusCode::NO_CONTENT, "Done");
    }
}

impl Documented for Deletion {
    fn describe(description: &mut Description) {
        description.response(StatusCode::NO_CONTENT, "Deleted");
        let text = "Accepted. Deletion continues in the background";
        description.response(StatusCode::ACCEPTED, text);
    }
}

impl<T: ToSchema> Documented for Json<T> {
    fn describe(description: &mut Description) {
        description.body::<T>(StatusCode::OK, text_of::<T>(), &["application/json"]);
    }
}

#[cfg(test)]
mod tests {
    use axum::response::IntoResponse;
    use serde::Serialize;

    use super::*;
    use crate::http::respond::Accepted;

    /// A shelf.
    ///
    /// It has books.
    #[derive(Serialize, ToSchema)]
    struct Shelf {
        books: u32,
    }

    impl InFile for Shelf {
        const TYPES: &'static [&'static str] = &["image/*"];
    }

    fn body() -> Negotiated<Shelf> {
        Negotiated::small(Accepted::Json, &Shelf { books: 3 }).unwrap()
    }

    /// Returns the responses of a type that serves `examples`.
    fn described<T: Documented + IntoResponse, const N: usize>(examples: [T; N]) -> Description {
        let mut description = Description::default();
        T::describe(&mut description);
        let served = examples.map(|served| served.into_response().status().as_str().to_owned());
        let described = description.responses.keys().cloned();
        assert_eq!(described.collect::<Vec<_>>(), served);
        description
    }

    #[test]
    fn the_statuses_that_are_served_are_described() {
        described([body()]);
        described([Created(body())]);
        described([Queued(body())]);
        described([DoneOrQueued::Done(body()), DoneOrQueued::Queued(body())]);
        described([NoContent]);
        described([Deletion::Queued, Deletion::Done]);
        described([Json(Shelf { books: 3 })]);
    }

    #[test]
    fn a_body_that_can_be_a_file_has_the_types_of_both() {
        let description = described([FileOr::Body(body())]);
        let response = serde_json::to_value(&description.responses["200"]).unwrap();
        let types = response["content"].as_object().unwrap().keys();
        let expected = ["application/json", "application/msgpack", "image/*"];
        assert_eq!(types.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_response_has_the_schema_and_the_first_paragraph_of_its_body() {
        let description = described([Ok::<_, ApiError>(body())]);
        let response = serde_json::to_value(&description.responses["200"]).unwrap();
        assert_eq!(response["description"], "A shelf");
        for media_type in NEGOTIATED {
            let schema = &response["content"][media_type]["schema"];
            assert_eq!(schema["$ref"], "#/components/schemas/Shelf");
        }
        assert_eq!(description.schemas[0].0, "Shelf");
    }
}
