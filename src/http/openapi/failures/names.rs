//! The names of the error responses in the components of the document.

use crate::http::error::{ErrorKind, table::*};

macro_rules! names {
    ($($name:ident: $($kind:ident),+;)+) => {
        /// The responses whose kinds are too many, or too long, to make a name of them.
        pub(super) const NAMES: &[(&str, &[ErrorKind])] =
            &[$((stringify!($name), &[$($kind),+])),+];
    };
}

names! {
    ForbiddenSearch: FORBIDDEN, URL_FORBIDDEN, PURPOSE_NOT_ALLOWED;
    SubmissionConflict: CONFLICT, VECTOR_SPACE_MISMATCH, IDEMPOTENCY_CONFLICT, NO_MODEL;
    ImagesTooLarge: BODY_TOO_LARGE, TOO_MANY_IMAGES, IMAGE_TOO_LARGE, TOO_MUCH_WORK;
    FaceConflict: CONFLICT, VECTOR_SPACE_MISMATCH, NO_MODEL;
    UnsupportedImage: UNSUPPORTED_MEDIA_TYPE, IMAGE_UNSUPPORTED;
    InvalidImage: INVALID_OPTION, IMAGE_CORRUPT, IMAGE_TRUNCATED, URL_FAILED;
    InvalidFace: INVALID_OPTION, IMAGE_CORRUPT, IMAGE_TRUNCATED, URL_FAILED, NO_FACE, NO_VECTOR;
    EnrollmentConflict: CONFLICT, VECTOR_SPACE_MISMATCH, SUPPRESSED, NO_MODEL;
    RejectedFace: INVALID_OPTION, IMAGE_CORRUPT, IMAGE_TRUNCATED, URL_FAILED, NO_FACE, SEVERAL_FACES, LOW_QUALITY, NO_VECTOR;
    UnprocessableImage: INVALID_OPTION, IMAGE_CORRUPT, IMAGE_TRUNCATED, URL_FAILED, ANONYMIZATION_FAILED;
    ServiceUnavailable: STORE_UNAVAILABLE, SCHEMA_MISMATCH, AUDIT_UNAVAILABLE, ISSUER_UNAVAILABLE;
    ServiceOrDeviceUnavailable: STORE_UNAVAILABLE, SCHEMA_MISMATCH, AUDIT_UNAVAILABLE, ISSUER_UNAVAILABLE, DEVICE_UNAVAILABLE;
    ServiceOrPayloadsUnavailable: STORE_UNAVAILABLE, SCHEMA_MISMATCH, AUDIT_UNAVAILABLE, ISSUER_UNAVAILABLE, PAYLOADS_UNAVAILABLE;
    SearchUnavailable:
        STORE_UNAVAILABLE, SCHEMA_MISMATCH, AUDIT_UNAVAILABLE, ISSUER_UNAVAILABLE, DEVICE_UNAVAILABLE, INDEX_UNAVAILABLE;
    SubmissionUnavailable:
        STORE_UNAVAILABLE, SCHEMA_MISMATCH, AUDIT_UNAVAILABLE, ISSUER_UNAVAILABLE, DEVICE_UNAVAILABLE, PAYLOADS_UNAVAILABLE;
}

/// Returns the name of a component, such as `NotFound`.
pub(super) fn name(kinds: &[ErrorKind]) -> String {
    match NAMES.iter().find(|(_, named)| *named == kinds) {
        Some((name, _)) => (*name).to_owned(),
        None => {
            let names: Vec<String> = kinds.iter().map(|kind| pascal_case(kind.code)).collect();
            names.join("Or")
        }
    }
}

fn pascal_case(code: &str) -> String {
    let words = code.split('_').map(|word| {
        let (first, rest) = word.split_at(word.len().min(1));
        first.to_ascii_uppercase() + rest
    });
    words.collect()
}
