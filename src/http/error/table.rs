//! The one table of the kinds of errors. Codes are never renamed.

/// A kind of error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorKind {
    /// The HTTP status.
    pub status: u16,
    /// The stable code that clients match on.
    pub code: &'static str,
    /// A short title of the kind.
    pub title: &'static str,
    /// An example of the `detail`. If only the log may have the text of an error, this is its `detail`.
    pub example: &'static str,
}

macro_rules! kinds {
    ($($name:ident($status:literal, $code:literal, $title:literal, $example:literal);)+) => {
        $(
            pub const $name: ErrorKind = ErrorKind {
                status: $status,
                code: $code,
                title: $title,
                example: $example,
            };
        )+

        /// All kinds, by status.
        pub const ALL: &[ErrorKind] = &[$($name),+];
    };
}

kinds! {
    INVALID_BODY(400, "invalid_body", "unreadable body",
        "the body could not be read: expected value at line 1 column 1");
    MISSING_IMAGE(400, "missing_image", "no image",
        "the request holds no image: send at least one");
    UNAUTHORIZED(401, "unauthorized", "no valid key",
        "the key or token is not valid; it is wrong, expired or revoked");
    FORBIDDEN(403, "forbidden", "not allowed",
        "the key does not have the scope `read`; use a key that has it");
    URL_FORBIDDEN(403, "url_forbidden", "url not allowed",
        "urls are not fetched here: send the image's bytes, or set `urls.enabled` on the server");
    PURPOSE_NOT_ALLOWED(403, "purpose_not_allowed", "purpose not allowed",
        "the purpose `entry control` is not allowed here; the operator lists purposes in recognition.purposes");
    NOT_FOUND(404, "not_found", "not found",
        "there is no image 0192f0c1-6c8e-7a43-9a0e-2f6c1f1e2b7d, or it was erased");
    METHOD_NOT_ALLOWED(405, "method_not_allowed", "method not allowed",
        "this address takes POST, and no other method");
    REQUEST_TIMEOUT(408, "request_timeout", "body too slow",
        "the body did not arrive within 60000 ms; send it faster, or fewer images");
    CONFLICT(409, "conflict", "conflict",
        "another collection has the name `staff`; choose another name");
    VECTOR_SPACE_MISMATCH(409, "vector_space_mismatch", "vectors of two vector spaces",
        "`a` has the vector space c1 and `b` has c2; compare vectors of one vector space only");
    IDEMPOTENCY_CONFLICT(409, "idempotency_conflict", "idempotency key reused",
        "the idempotency key belongs to the batch 0192f0c1-6c8e-7a43-9a0e-2f6c1f1e2b7d, which another body created; use a new key");
    SUPPRESSED(409, "suppressed", "suppressed person",
        "the person is in a suppression collection, so the face is not enrolled");
    NO_MODEL(409, "no_model", "no model",
        "this operation needs a model; set models.encoder to an id of the registry");
    BODY_TOO_LARGE(413, "body_too_large", "body too large",
        "the body is larger than 67108864 bytes; send fewer or smaller images");
    TOO_MANY_IMAGES(413, "too_many_images", "too many images",
        "the request holds more than 64 images; send them in several requests");
    IMAGE_TOO_LARGE(413, "image_too_large", "image too large",
        "the image has 120000000 pixels in all, at most 100000000 are allowed");
    TOO_MUCH_WORK(413, "too_much_work", "too much work",
        "the work on the image takes 9000 megapixel passes, and 4096 are allowed; send a smaller image, fewer operations, or blurs with smaller kernels");
    UNSUPPORTED_MEDIA_TYPE(415, "unsupported_media_type", "unsupported media type",
        "the content-type text/plain is not accepted; send image/* or application/octet-stream, multipart/form-data, application/json or application/msgpack");
    IMAGE_UNSUPPORTED(415, "image_unsupported", "unsupported image",
        "this tiff variant is not supported: its color type or compression cannot be decoded; convert the image first");
    INVALID_OPTION(422, "invalid_option", "invalid option",
        "option `x-request-timeout-ms`: must be a whole number of milliseconds, at least 1");
    IMAGE_CORRUPT(422, "image_corrupt", "corrupt image",
        "the jpeg file is damaged: its data cannot be decoded");
    IMAGE_TRUNCATED(422, "image_truncated", "truncated image",
        "the jpeg file is truncated; send the complete file");
    URL_FAILED(422, "url_failed", "url not fetched",
        "the url answered with the status 404 and not 200: check the url");
    NO_FACE(422, "no_face", "no face",
        "no face was found in the image; send an image that shows a face, or a lower min_score");
    SEVERAL_FACES(422, "several_faces", "several faces",
        "the image shows 3 faces; choose one with face=largest or face=central");
    LOW_QUALITY(422, "low_quality", "face of low quality",
        "the quality of the face is too low: face_too_small; send a better image, or allow_low_quality=true");
    NO_VECTOR(422, "no_vector", "face without a vector",
        "the face 0192f0c1-6c8e-7a43-9a0e-2f6c1f1e2b7d has no vector; send its image to /embed first");
    ANONYMIZATION_FAILED(422, "anonymization_failed", "faces are still found",
        "faces are still found after 5 searches; send a higher min_score, or method fill with a larger margin");
    RATE_LIMITED(429, "rate_limited", "limit of a key or tenant",
        "the limit `key-requests` is used up; try again after the time in retry-after");
    OVERLOADED(429, "overloaded", "overloaded",
        "the server has reached its limit of interactive images; try again after the time in retry-after");
    INTERNAL(500, "internal", "internal error",
        "something failed on the server; its log has the request id");
    STORE_UNAVAILABLE(503, "store_unavailable", "database unavailable",
        "the database cannot be used now; try again later, or send store=false");
    SCHEMA_MISMATCH(503, "schema_mismatch", "tables of another version",
        "the database belongs to another version of the server, so nothing is written; try again later, or send store=false");
    AUDIT_UNAVAILABLE(503, "audit_unavailable", "audit trail unavailable",
        "the request cannot be recorded now, so it is refused; try again later");
    ISSUER_UNAVAILABLE(503, "issuer_unavailable", "OpenID issuer unavailable",
        "the token cannot be checked now; try again later, or send a key");
    DEVICE_UNAVAILABLE(503, "device_unavailable", "device unavailable",
        "face_detection cannot run on cuda:0: there is no such device");
    INDEX_UNAVAILABLE(503, "index_unavailable", "index unavailable",
        "faces cannot be searched for now; try again later");
    PAYLOADS_UNAVAILABLE(503, "payloads_unavailable", "store of images unavailable",
        "the images cannot be stored now; try again later with the same idempotency key");
    DEADLINE_EXCEEDED(504, "deadline_exceeded", "deadline exceeded",
        "the request took longer than 60000 ms; send fewer images, or allow more time");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kinds_are_in_the_order_of_their_statuses_and_have_different_codes() {
        assert!(ALL.is_sorted_by_key(|kind| kind.status));
        let codes: std::collections::BTreeSet<&str> = ALL.iter().map(|kind| kind.code).collect();
        assert_eq!(codes.len(), ALL.len());
    }
}
