use std::time::Duration;

use axum::http::{HeaderMap, HeaderValue, header::CONTENT_TYPE};
use facescan_audit::AuditError;
use facescan_batches::{error::BatchError, payloads::PayloadError};
use facescan_config::{Config, Sources, scope::Scope};
use facescan_imaging::{
    decode::{DecodeError, Exceeded, LimitKind},
    format::Format,
    quality::acceptance::Reason,
};
use facescan_inference::registry::Role;
use facescan_pipeline::{
    admission::{AdmissionError, Priority},
    core::error::PipelineError,
    ingest::{error::IngestError, fetch::FetchError, guard::Refused},
};
use facescan_recognition::{
    collections::enroll::Rejection, error::RecognitionError, index::IndexError,
};
use facescan_store::StoreError;
use uuid::Uuid;

use super::{names::NAMES, response as response_of, *};
use crate::{
    access::{error::AccessError, openid::JwksError},
    http::{
        error::ApiError,
        extract::{BodyFormat, stored_request::not_found},
        middleware::deadline,
    },
};

fn headers(name: axum::http::HeaderName, value: &'static str) -> HeaderMap {
    HeaderMap::from_iter([(name, HeaderValue::from_static(value))])
}

/// Returns the errors of options and bodies.
fn errors_of_requests() -> Vec<ApiError> {
    let (config, _) = Config::load(&Sources::default()).unwrap();
    let timeout = deadline::requested_limit_ms(&headers(deadline::HEADER, "0"));
    let json = serde_json::from_slice::<serde_json::Value>(b"<").unwrap_err();
    let server = &config.server;
    let id = Uuid::parse_str("0192f0c1-6c8e-7a43-9a0e-2f6c1f1e2b7d").unwrap();
    vec![
        timeout.unwrap_err(),
        BodyFormat::from_headers(&headers(CONTENT_TYPE, "text/plain"))
            .err()
            .unwrap(),
        ApiError::invalid_body(json.to_string()),
        ApiError::missing_image("send at least one"),
        ApiError::RequestTimeout {
            limit_ms: server.request_timeout_ms,
        },
        ApiError::DeadlineExceeded {
            limit_ms: server.request_timeout_ms,
        },
        ApiError::BodyTooLarge {
            limit: server.max_body_bytes,
        },
        ApiError::TooManyImages {
            limit: server.max_images_per_request,
        },
        AdmissionError::Images(Priority::Interactive).into(),
        not_found("image", id),
        ApiError::MethodNotAllowed("this address takes POST, and no other method".to_owned()),
        AccessError::InvalidCredential.into(),
        AccessError::MissingScope(Scope::Read).into(),
        AccessError::RateLimited {
            limit: "key-requests",
            retry_after: Duration::from_secs(1),
        }
        .into(),
        AuditError(None).into(),
        AccessError::Issuer(JwksError("away".into())).into(),
        ApiError::Internal("a secret of the server".to_owned()),
    ]
}

/// Returns the errors of images.
fn errors_of_images() -> Vec<ApiError> {
    let ingest = |error: FetchError| ApiError::from(IngestError::from(error));
    let data = "its data cannot be decoded".to_owned();
    let colors = "its color type or compression cannot be decoded".to_owned();
    vec![
        ingest(Refused::Off.into()),
        ingest(FetchError::Status(404)),
        ApiError::from(DecodeError::from(Exceeded {
            limit: LimitKind::Pixels,
            max: 100_000_000,
            found: 120_000_000,
        })),
        ApiError::from(DecodeError::Unsupported {
            format: Format::Tiff,
            detail: colors,
        }),
        ApiError::from(DecodeError::Corrupt {
            format: Format::Jpeg,
            detail: data,
        }),
        ApiError::from(DecodeError::Truncated {
            format: Format::Jpeg,
        }),
        ApiError::from(PipelineError::DeviceUnavailable {
            operation: "face_detection",
            requested: "cuda:0".to_owned(),
            reason: "there is no such device".to_owned(),
        }),
        ApiError::from(PipelineError::AnonymizationFailed { searches: 5 }),
        ApiError::from(PipelineError::NoModel(Role::Encoder)),
        ApiError::from(PipelineError::TooMuchWork {
            needed: 9000,
            limit: 4096,
        }),
    ]
}

/// Returns the errors of collections, of comparisons and of batches.
fn errors_of_recognition() -> Vec<ApiError> {
    let id = Uuid::parse_str("0192f0c1-6c8e-7a43-9a0e-2f6c1f1e2b7d").unwrap();
    vec![
        RecognitionError::NoFaceToSearch.into(),
        RecognitionError::NoVector(id).into(),
        RecognitionError::Rejected(Rejection::SeveralFaces { faces: 3 }).into(),
        RecognitionError::Rejected(Rejection::LowQuality {
            reasons: vec![Reason::FaceTooSmall],
        })
        .into(),
        RecognitionError::Rejected(Rejection::Suppressed).into(),
        RecognitionError::VectorSpaceMismatch {
            a: "c1".to_owned(),
            b: "c2".to_owned(),
        }
        .into(),
        RecognitionError::NameTaken("staff".to_owned()).into(),
        RecognitionError::PurposeNotAllowed("entry control".to_owned()).into(),
        RecognitionError::Index(IndexError::Busy).into(),
        BatchError::KeyReused(id).into(),
        BatchError::Payload(PayloadError::Missing).into(),
    ]
}

#[test]
fn the_server_sends_the_text_of_every_example() {
    let mut errors = errors_of_requests();
    errors.extend(errors_of_images());
    errors.extend(errors_of_recognition());
    errors.push(StoreError::Unavailable(sqlx::Error::PoolClosed).into());
    let newer = sqlx::migrate::MigrateError::VersionMissing(99);
    errors.push(StoreError::Schema(newer).into());
    let sent: Vec<_> = errors
        .iter()
        .map(|error| (error.kind(), error.public_detail()))
        .collect();
    for kind in ALL {
        let found = sent.contains(&(*kind, kind.example.to_owned()));
        assert!(found, "no error has the text of {kind:?}: {sent:#?}");
    }
}

#[test]
fn the_groups_use_every_name() {
    let components = components();
    for (name, kinds) in NAMES {
        let expected = RefOr::T(response_of(kinds));
        assert!(components.get(*name) == Some(&expected), "{name}");
    }
}

/// A generated client has a type of each name.
#[test]
fn the_names_are_short_and_no_schema_has_them() {
    let document = crate::http::openapi_document();
    let components = document.components.unwrap();
    for name in components.responses.keys() {
        assert!(name.len() <= 32, "{name}: give it a name in NAMES");
        assert!(!components.schemas.contains_key(name), "{name}");
    }
}
