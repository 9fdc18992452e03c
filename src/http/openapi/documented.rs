//! Derives the success responses of a route from the type that its handler returns, so that the document cannot differ from
//! what is served.

use std::collections::BTreeMap;

use axum::{Json, http::StatusCode};
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{Content, Ref, RefOr, Response, ResponseBuilder, schema::Schema},
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

/// Returns the description of the schema of an object, without the point at its end.
fn text_of<T: PartialSchema>() -> String {
    let text = match T::schema() {
        RefOr::T(Schema::Object(object)) => object.description,
        RefOr::T(Schema::AllOf(parts)) => parts.description,
        _ => None,
    };
    text.unwrap_or_default().trim_end_matches('.').to_owned()
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

    #[derive(Serialize, ToSchema)]
    struct Shelf {
        books: u32,
    }

    impl InFile for Shelf {
        const TYPES: &'static [&'static str] = &[];
    }

    fn body() -> Negotiated<Shelf> {
        Negotiated::small(Accepted::Json, &Shelf { books: 3 }).unwrap()
    }

    fn check<T: Documented + IntoResponse, const N: usize>(examples: [T; N]) {
        let mut description = Description::default();
        T::describe(&mut description);
        let served = examples.map(|served| served.into_response().status().as_str().to_owned());
        let described = description.responses.keys().cloned();
        assert_eq!(described.collect::<Vec<_>>(), served);
    }

    #[test]
    fn the_statuses_that_are_served_are_described() {
        check([Ok::<_, ApiError>(body())]);
        check([FileOr::Body(body())]);
        check([Created(body())]);
        check([Queued(body())]);
        check([DoneOrQueued::Done(body()), DoneOrQueued::Queued(body())]);
        check([NoContent]);
        check([Deletion::Queued, Deletion::Done]);
        check([Json(Shelf { books: 3 })]);
    }
}
