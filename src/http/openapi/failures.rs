//! The error responses of the routes, with an example of every code.

use std::collections::BTreeMap;

use serde_json::json;
use utoipa::{
    IntoResponses, ToSchema,
    openapi::{
        ContentBuilder, HeaderBuilder, ObjectBuilder, Ref, RefOr, Response, ResponseBuilder,
        example::ExampleBuilder, schema::Type,
    },
};

use crate::http::{
    error::{ErrorKind, table},
    problem::Problem,
};

/// A kind of error, and an example of its `detail`.
type Example = (ErrorKind, &'static str);

const INTERNAL: Example = (
    table::INTERNAL,
    "something failed on the server; its log has the request id",
);

const STORE_UNAVAILABLE: Example = (
    table::STORE_UNAVAILABLE,
    "the database cannot be used now; try again later, or send store=false",
);

const PAYLOADS_UNAVAILABLE: Example = (
    table::PAYLOADS_UNAVAILABLE,
    "the images cannot be stored now; try again later with the same idempotency key",
);

const AUDIT_UNAVAILABLE: Example = (
    table::AUDIT_UNAVAILABLE,
    "the request cannot be recorded now, so it is refused; try again later",
);

const SCHEMA_MISMATCH: Example = (
    table::SCHEMA_MISMATCH,
    "the database belongs to another version of the server, so nothing is written; try again later, or send store=false",
);

/// The errors of every route.
const OF_EVERY_ROUTE: [Example; 3] = [
    (
        table::INVALID_OPTION,
        "option `x-request-timeout-ms`: must be a whole number of milliseconds, at least 1",
    ),
    INTERNAL,
    (
        table::DEADLINE_EXCEEDED,
        "the request took longer than 60000 ms; send fewer images, or allow more time",
    ),
];

/// The errors of the routes that use the database.
const OF_THE_STORE: [Example; 3] = [STORE_UNAVAILABLE, SCHEMA_MISMATCH, AUDIT_UNAVAILABLE];

/// The errors of the routes that take images.
const OF_IMAGES: [Example; 19] = [
    (
        table::INVALID_BODY,
        "the body could not be read: expected value at line 1 column 1",
    ),
    (
        table::MISSING_IMAGE,
        "the request holds no image: send at least one",
    ),
    (
        table::URL_FORBIDDEN,
        "urls are not fetched here: send the image's bytes, or set `urls.enabled` on the server",
    ),
    (
        table::REQUEST_TIMEOUT,
        "the body did not arrive within 60000 ms; send it faster, or fewer images",
    ),
    (
        table::BODY_TOO_LARGE,
        "the body is larger than 67108864 bytes; send fewer or smaller images",
    ),
    (
        table::TOO_MANY_IMAGES,
        "the request holds more than 64 images; send them in several requests",
    ),
    (
        table::IMAGE_TOO_LARGE,
        "the image has 120000000 pixels in all, at most 100000000 are allowed",
    ),
    (
        table::UNSUPPORTED_MEDIA_TYPE,
        "the content-type text/plain is not accepted; send image/* or application/octet-stream, \
         multipart/form-data, application/json or application/msgpack",
    ),
    (
        table::IMAGE_UNSUPPORTED,
        "this tiff variant is not supported: its colour type or compression cannot be decoded; \
         convert the image first",
    ),
    (
        table::INVALID_OPTION,
        "option `det_size`: 100 is not a multiple of 32 from 64 to 4096",
    ),
    (
        table::IMAGE_CORRUPT,
        "the jpeg file is damaged: its data cannot be decoded",
    ),
    (
        table::IMAGE_TRUNCATED,
        "the jpeg file is truncated; send the complete file",
    ),
    (
        table::URL_FAILED,
        "the url answered with the status 404 and not 200: check the url",
    ),
    (
        table::OVERLOADED,
        "the server has reached its limit of interactive images; try again after the time in retry-after",
    ),
    (
        table::DEVICE_UNAVAILABLE,
        "face_detection cannot run on cuda:0: there is no such device",
    ),
    STORE_UNAVAILABLE,
    SCHEMA_MISMATCH,
    AUDIT_UNAVAILABLE,
    INTERNAL,
];

/// The errors of the routes that read or erase a stored image or face.
const OF_ONE_STORED: [Example; 1] = [(
    table::NOT_FOUND,
    "there is no image 0192f0c1-6c8e-7a43-9a0e-2f6c1f1e2b7d, or it was erased",
)];

/// The errors of the routes about one batch.
const OF_ONE_BATCH: [Example; 3] = [
    (
        table::NOT_FOUND,
        "there is no batch 0192f0c1-6c8e-7a43-9a0e-2f6c1f1e2b7d, or it was deleted",
    ),
    (
        table::CONFLICT,
        "the batch 0192f0c1-6c8e-7a43-9a0e-2f6c1f1e2b7d is closed; create another batch for these items",
    ),
    PAYLOADS_UNAVAILABLE,
];

/// The errors of the routes for all keys.
const OF_KEYS: [Example; 2] = [
    (
        table::INVALID_BODY,
        "the body could not be read: missing field `name` at line 1 column 2",
    ),
    (
        table::INVALID_OPTION,
        "option `scopes`: must have at least one scope",
    ),
];

/// The errors of the routes that erase.
const OF_ERASURES: [Example; 3] = [
    (
        table::INVALID_BODY,
        "the body could not be read: set exactly one of image, source, host, batch and tenant",
    ),
    (
        table::INVALID_OPTION,
        "option `host`: must be a host without scheme, port and path, such as img.example.com",
    ),
    PAYLOADS_UNAVAILABLE,
];

/// The errors of the routes for one key.
const OF_ONE_KEY: [Example; 1] = [(table::NOT_FOUND, "there is no key 5f0c2a9be1d34c77")];

/// The errors of a caller that may not use a route.
const OF_ACCESS: [Example; 4] = [
    (
        table::UNAUTHORIZED,
        "the key or token is not valid; it is wrong, expired or revoked",
    ),
    (
        table::ISSUER_UNAVAILABLE,
        "the token cannot be checked now; try again later, or send a key",
    ),
    (
        table::FORBIDDEN,
        "the key does not have the scope `read`; use a key that has it",
    ),
    (
        table::RATE_LIMITED,
        "the limit `key-requests` is used up; try again after the time in retry-after",
    ),
];

/// The errors of the routes for one webhook.
const OF_ONE_WEBHOOK: [Example; 1] = [(
    table::NOT_FOUND,
    "there is no webhook 0192f0c1-6c8e-7a43-9a0e-2f6c1f1e2b7d, or it was deleted",
)];

/// The errors of the routes for all webhooks.
const OF_WEBHOOKS: [Example; 3] = [
    (
        table::CONFLICT,
        "the tenant has 32 webhooks, the limit of this server; delete one first",
    ),
    (
        table::INVALID_BODY,
        "the body could not be read: missing field `url` at line 1 column 2",
    ),
    (
        table::INVALID_OPTION,
        "option `url`: only https urls are fetched here",
    ),
];

/// The errors of the routes that take the items of a batch.
const OF_SUBMISSIONS: [Example; 9] = [
    (
        table::INVALID_BODY,
        "the body could not be read: expected value at line 1 column 1",
    ),
    (
        table::REQUEST_TIMEOUT,
        "the body did not arrive within 60000 ms; send it faster, or fewer images",
    ),
    (
        table::BODY_TOO_LARGE,
        "the body is larger than 67108864 bytes; send fewer or smaller images",
    ),
    (
        table::UNSUPPORTED_MEDIA_TYPE,
        "the content-type text/plain is not accepted; send image/* or application/octet-stream, \
         multipart/form-data, application/json or application/msgpack",
    ),
    (
        table::IDEMPOTENCY_CONFLICT,
        "the idempotency key belongs to the batch 0192f0c1-6c8e-7a43-9a0e-2f6c1f1e2b7d, which another body created; use a new key",
    ),
    (
        table::OVERLOADED,
        "the server has reached its limit of bytes in request bodies; try again after the time in retry-after",
    ),
    (
        table::DEVICE_UNAVAILABLE,
        "face_detection cannot run on cuda:0: there is no such device",
    ),
    (
        table::PURPOSE_NOT_ALLOWED,
        "the collection 0192f0c1-6c8e-7a43-9a0e-2f6c1f1e2b7d has another purpose; search only for the purpose that its subjects were enrolled for",
    ),
    (
        table::CONTRACT_MISMATCH,
        "the face has the contract c1 and the collection has c2; use faces of that contract",
    ),
];

/// The errors of `/process` only.
const OF_PROCESS: [Example; 1] = [(
    table::ANONYMIZATION_FAILED,
    "faces are still found after 5 searches; send a higher min_score, or method fill with a larger margin",
)];

/// The errors of `/verify` only.
const OF_VERIFY: [Example; 4] = [
    (
        table::NO_FACE,
        "no face was found in `a`; send an image that shows a face, or a lower min_score",
    ),
    (
        table::NO_VECTOR,
        "the face 0192f0c1-6c8e-7a43-9a0e-2f6c1f1e2b7d has no vector; send its image to /embed first",
    ),
    (
        table::CONTRACT_MISMATCH,
        "`a` has the contract c1 and `b` has c2; compare vectors of one contract only",
    ),
    (
        table::NOT_FOUND,
        "there is no face 0192f0c1-6c8e-7a43-9a0e-2f6c1f1e2b7d, or it was erased",
    ),
];

/// The errors of the routes for all collections.
const OF_COLLECTIONS: [Example; 4] = [
    (
        table::INVALID_BODY,
        "the body could not be read: missing field `purpose` at line 1 column 2",
    ),
    (
        table::PURPOSE_NOT_ALLOWED,
        "the purpose `entry control` is not allowed here; the operator lists purposes in recognition.purposes",
    ),
    (
        table::CONFLICT,
        "another collection has the name `staff`; choose another name",
    ),
    (
        table::INVALID_OPTION,
        "option `retention_days`: must be from 1 to 1095 days, the limit of this server",
    ),
];

/// The errors of the routes for one collection.
const OF_ONE_COLLECTION: [Example; 1] = [(
    table::NOT_FOUND,
    "there is no collection 0192f0c1-6c8e-7a43-9a0e-2f6c1f1e2b7d, or it was erased",
)];

/// The errors of the routes that enrol faces or search for one.
const OF_FACES: [Example; 6] = [
    (
        table::NO_FACE,
        "no face was found in the image; send an image that shows a face, or a lower min_score",
    ),
    (
        table::NO_VECTOR,
        "the face 0192f0c1-6c8e-7a43-9a0e-2f6c1f1e2b7d has no vector; send its image to /embed first",
    ),
    (
        table::CONTRACT_MISMATCH,
        "the face has the contract c1 and the collection has c2; use faces of that contract",
    ),
    (
        table::CONFLICT,
        "the subject 0192f0c1-6c8e-7a43-9a0e-2f6c1f1e2b7d has no valid consent, or its time is over; renew them, then enrol its faces",
    ),
    (
        table::PURPOSE_NOT_ALLOWED,
        "the collection 0192f0c1-6c8e-7a43-9a0e-2f6c1f1e2b7d has another purpose; search only for the purpose that its subjects were enrolled for",
    ),
    (
        table::INDEX_UNAVAILABLE,
        "faces cannot be searched for now; try again later",
    ),
];

macro_rules! failures {
    ($($(#[$doc:meta])* $name:ident: $($examples:ident),+;)+) => {$(
        $(#[$doc])*
        pub struct $name;

        impl IntoResponses for $name {
            fn responses() -> BTreeMap<String, RefOr<Response>> {
                responses([$($examples.as_slice()),+].concat())
            }
        }
    )+};
}

failures! {
    /// The error responses of a route that takes images.
    ImageFailures: OF_ACCESS, OF_IMAGES, OF_EVERY_ROUTE;
    /// The error responses of `/process`.
    ProcessFailures: OF_ACCESS, OF_IMAGES, OF_PROCESS, OF_EVERY_ROUTE;
    /// The error responses of `/verify`.
    VerifyFailures: OF_ACCESS, OF_VERIFY, OF_IMAGES, OF_EVERY_ROUTE;
    /// The error responses of the routes for all collections.
    CollectionsFailures: OF_ACCESS, OF_COLLECTIONS, OF_THE_STORE, OF_EVERY_ROUTE;
    /// The error responses of the routes for one collection and for its subjects.
    CollectionFailures: OF_ACCESS, OF_ONE_COLLECTION, OF_COLLECTIONS, OF_THE_STORE, OF_EVERY_ROUTE;
    /// The error responses of the routes that enrol faces or search for one.
    FacesFailures: OF_ACCESS, OF_ONE_COLLECTION, OF_FACES, OF_IMAGES, OF_EVERY_ROUTE;
    /// The error responses of a route that lists stored images.
    ListFailures: OF_ACCESS, OF_THE_STORE, OF_EVERY_ROUTE;
    /// The error responses of a route for one stored image or face.
    StoredFailures: OF_ACCESS, OF_ONE_STORED, OF_THE_STORE, OF_EVERY_ROUTE;
    /// The error responses of the route that erases.
    ErasureFailures: OF_ACCESS, OF_ERASURES, OF_ONE_STORED, OF_THE_STORE, OF_EVERY_ROUTE;
    /// The error responses of the routes for all keys.
    KeyFailures: OF_ACCESS, OF_KEYS, OF_THE_STORE, OF_EVERY_ROUTE;
    /// The error responses of the routes for one key.
    OneKeyFailures: OF_ACCESS, OF_ONE_KEY, OF_THE_STORE, OF_EVERY_ROUTE;
    /// The error responses of the routes for all webhooks.
    WebhookFailures: OF_ACCESS, OF_WEBHOOKS, OF_THE_STORE, OF_EVERY_ROUTE;
    /// The error responses of the routes for one webhook.
    OneWebhookFailures: OF_ACCESS, OF_ONE_WEBHOOK, OF_THE_STORE, OF_EVERY_ROUTE;
    /// The error responses of a route for one batch.
    BatchFailures: OF_ACCESS, OF_ONE_BATCH, OF_THE_STORE, OF_EVERY_ROUTE;
    /// The error responses of a route that takes the items of a batch.
    SubmissionFailures: OF_ACCESS, OF_SUBMISSIONS, OF_ONE_BATCH, OF_THE_STORE, OF_EVERY_ROUTE;
    /// The error responses of a route about the server.
    ServiceFailures: OF_ACCESS, OF_THE_STORE, OF_EVERY_ROUTE;
    /// The error responses of a route that is open to everyone.
    OpenFailures: OF_EVERY_ROUTE;
}

/// Returns one response for each status, with one example for each code.
fn responses(examples: Vec<Example>) -> BTreeMap<String, RefOr<Response>> {
    let mut by_status: BTreeMap<u16, Vec<Example>> = BTreeMap::new();
    for example in examples {
        let of_status = by_status.entry(example.0.status).or_default();
        if !of_status.iter().any(|(kind, _)| *kind == example.0) {
            of_status.push(example);
        }
    }
    by_status
        .into_iter()
        .map(|(status, examples)| (status.to_string(), RefOr::T(response(&examples))))
        .collect()
}

fn response(examples: &[Example]) -> Response {
    let titles: Vec<&str> = examples.iter().map(|(kind, _)| kind.title).collect();
    let content = ContentBuilder::new()
        .schema(Some(Ref::from_schema_name(Problem::name())))
        .examples_from_iter(examples.iter().map(|(kind, detail)| {
            let problem = json!({
                "type": "about:blank",
                "title": kind.title,
                "status": kind.status,
                "detail": detail,
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
    if examples.iter().all(|(kind, _)| kind.status != 429) {
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
