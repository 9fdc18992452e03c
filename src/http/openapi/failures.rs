//! The error responses of the routes.
//!
//! A route names a group, and a group names the kinds of errors that a route can answer. The document has each response once,
//! in its components.

mod names;

use std::collections::BTreeMap;

use serde_json::json;
use utoipa::{
    IntoResponses, ToSchema,
    openapi::{
        ContentBuilder, HeaderBuilder, ObjectBuilder, Ref, RefOr, Response, ResponseBuilder,
        example::ExampleBuilder, schema::Type,
    },
};

use self::names::name;
use crate::http::{
    error::{ErrorKind, table::*},
    problem::Problem,
};

/// The errors of every route.
const EVERY: &[ErrorKind] = &[INVALID_OPTION, INTERNAL, DEADLINE_EXCEEDED];

/// The errors of the routes that need a key. They use the database, too.
const KEY: &[ErrorKind] = &[
    UNAUTHORIZED,
    FORBIDDEN,
    RATE_LIMITED,
    OVERLOADED,
    STORE_UNAVAILABLE,
    SCHEMA_MISMATCH,
    AUDIT_UNAVAILABLE,
    ISSUER_UNAVAILABLE,
];

/// The errors of the routes that take a body.
const BODY: &[ErrorKind] = &[
    INVALID_BODY,
    REQUEST_TIMEOUT,
    BODY_TOO_LARGE,
    UNSUPPORTED_MEDIA_TYPE,
];

/// The errors of the routes that take images at once.
const IMAGES: &[ErrorKind] = &[
    MISSING_IMAGE,
    URL_FORBIDDEN,
    TOO_MANY_IMAGES,
    IMAGE_TOO_LARGE,
    TOO_MUCH_WORK,
    IMAGE_UNSUPPORTED,
    IMAGE_CORRUPT,
    IMAGE_TRUNCATED,
    URL_FAILED,
    NO_MODEL,
    DEVICE_UNAVAILABLE,
];

/// The errors of the routes that take the items of a batch.
const ITEMS: &[ErrorKind] = &[
    MISSING_IMAGE,
    TOO_MANY_IMAGES,
    URL_FORBIDDEN,
    NO_MODEL,
    IDEMPOTENCY_CONFLICT,
    VECTOR_SPACE_MISMATCH,
    PURPOSE_NOT_ALLOWED,
    DEVICE_UNAVAILABLE,
];

/// The errors of the routes that compare faces.
const FACES: &[ErrorKind] = &[NOT_FOUND, NO_FACE, NO_VECTOR, VECTOR_SPACE_MISMATCH];

/// The errors of the routes that enroll faces: those of the only face of a request.
const ENROLLMENT: &[ErrorKind] = &[SEVERAL_FACES, LOW_QUALITY, SUPPRESSED];

/// The errors of the routes about something that is in a state, such as a library or a batch.
const STATE: &[ErrorKind] = &[NOT_FOUND, CONFLICT];

/// The errors of the routes that erase.
const ERASURE: &[ErrorKind] = &[NOT_FOUND, PAYLOADS_UNAVAILABLE];

macro_rules! groups {
    ($($(#[$doc:meta])* $name:ident: $($kinds:expr),+;)+) => {
        $(
            $(#[$doc])*
            pub struct $name;

            impl IntoResponses for $name {
                fn responses() -> BTreeMap<String, RefOr<Response>> {
                    references(&[$($kinds),+].concat())
                }
            }
        )+

        /// Returns the responses of all groups by name.
        pub(super) fn components() -> BTreeMap<String, RefOr<Response>> {
            let groups = [$([$($kinds),+].concat()),+];
            let responses = groups.iter().flat_map(|kinds| by_status(kinds).into_values());
            responses
                .map(|kinds| (name(&kinds), RefOr::T(response(&kinds))))
                .collect()
        }
    };
}

groups! {
    /// The error responses of a route that is open to everyone.
    OpenFailures: EVERY;
    /// The error responses of a route that reads about the server or lists what is stored.
    ServiceFailures: EVERY, KEY;
    /// The error responses of a route that reads or changes one stored object.
    StoredFailures: EVERY, KEY, &[NOT_FOUND];
    /// The error responses of a route that erases what its path names.
    EraseFailures: EVERY, KEY, ERASURE;
    /// The error responses of the route that erases what its body names.
    ErasureFailures: EVERY, KEY, BODY, ERASURE;
    /// The error responses of the route that creates a key.
    KeyFailures: EVERY, KEY, BODY;
    /// The error responses of the route that creates a webhook.
    WebhookFailures: EVERY, KEY, BODY, &[CONFLICT, URL_FORBIDDEN];
    /// The error responses of the route that creates a collection.
    CollectionsFailures: EVERY, KEY, BODY, &[CONFLICT, PURPOSE_NOT_ALLOWED];
    /// The error responses of a route that changes a collection or what is in it.
    CollectionFailures: EVERY, KEY, BODY, STATE, &[PURPOSE_NOT_ALLOWED];
    /// The error responses of a route that reads what is in a library.
    LibraryFailures: EVERY, KEY, STATE;
    /// The error responses of a route that erases what is in a library.
    LibraryEraseFailures: EVERY, KEY, STATE, ERASURE;
    /// The error responses of a route for one batch.
    BatchFailures: EVERY, KEY, STATE, &[PAYLOADS_UNAVAILABLE];
    /// The error responses of a route that takes the items of a batch.
    SubmissionFailures: EVERY, KEY, BODY, STATE, ITEMS, &[PAYLOADS_UNAVAILABLE];
    /// The error responses of a route that takes images.
    ImageFailures: EVERY, KEY, BODY, IMAGES;
    /// The error responses of `/process`.
    ProcessFailures: EVERY, KEY, BODY, IMAGES, &[ANONYMIZATION_FAILED];
    /// The error responses of `/verify`.
    VerifyFailures: EVERY, KEY, BODY, IMAGES, FACES;
    /// The error responses of the route that enrolls faces of a subject.
    EnrollFailures: EVERY, KEY, BODY, IMAGES, FACES, ENROLLMENT, &[CONFLICT, PURPOSE_NOT_ALLOWED, INDEX_UNAVAILABLE];
    /// The error responses of the routes that enroll faces in a library or search for faces.
    FacesFailures: EVERY, KEY, BODY, IMAGES, FACES, &[CONFLICT, PURPOSE_NOT_ALLOWED, INDEX_UNAVAILABLE];
}

/// Returns the kinds of each status, in the order of the table.
fn by_status(kinds: &[ErrorKind]) -> BTreeMap<u16, Vec<ErrorKind>> {
    let mut by_status: BTreeMap<u16, Vec<ErrorKind>> = BTreeMap::new();
    for kind in ALL.iter().filter(|kind| kinds.contains(kind)) {
        by_status.entry(kind.status).or_default().push(*kind);
    }
    by_status
}

/// Returns a reference to a component for each status.
fn references(kinds: &[ErrorKind]) -> BTreeMap<String, RefOr<Response>> {
    let reference = |kinds: &[ErrorKind]| RefOr::Ref(Ref::from_response_name(name(kinds)));
    by_status(kinds)
        .into_iter()
        .map(|(status, kinds)| (status.to_string(), reference(&kinds)))
        .collect()
}

/// Returns a response with an example of each kind.
fn response(kinds: &[ErrorKind]) -> Response {
    let titles: Vec<&str> = kinds.iter().map(|kind| kind.title).collect();
    let content = ContentBuilder::new()
        .schema(Some(Ref::from_schema_name(Problem::name())))
        .examples_from_iter(kinds.iter().map(|kind| {
            let problem = json!({
                "type": "about:blank",
                "title": kind.title,
                "status": kind.status,
                "detail": kind.example,
                "code": kind.code,
                "request_id": "0192f0c1-6c8e-7a43-9a0e-2f6c1f1e2b7d",
            });
            let example = ExampleBuilder::new().value(Some(problem)).build();
            (kind.code, example)
        }))
        .build();
    let response = ResponseBuilder::new()
        .description(titles.join(", or "))
        .content("application/problem+json", content);
    if kinds.iter().all(|kind| kind.status != 429) {
        return response.build();
    }
    let seconds = ObjectBuilder::new().schema_type(Type::Integer);
    let retry_after = HeaderBuilder::new()
        .schema(Some(seconds))
        .description(Some("Seconds to wait before the next try"))
        .build();
    response.header("retry-after", retry_after).build()
}

#[cfg(test)]
mod tests;
