//! Errors of the HTTP API. Each has a kind of the table.

pub(super) mod table;

use std::{borrow::Cow, time::Duration};

use facescan_audit::AuditError;
use facescan_batches::error::BatchError;
use facescan_fields::{FieldError, FieldErrors};
use facescan_imaging::{decode::DecodeError, encode::EncodeError};
use facescan_inference::pool::PoolError;
use facescan_pipeline::{
    admission::AdmissionError,
    core::error::{InvalidOption, PipelineError, shorten},
    ingest::{error::IngestError, fetch::FetchError},
    results::ErrorEntry,
};
use facescan_recognition::{
    collections::enroll::Rejection, error::RecognitionError, index::IndexError,
};
use facescan_store::StoreError;
use facescan_telemetry::causes::with_causes;
use thiserror::Error;

use crate::access::error::{AccessError, KeyError};

pub use table::ErrorKind;

/// When a client tries again whose tenant has too many waiting items or event streams.
const BATCH_RETRY: Duration = Duration::from_secs(60);

/// An error of a request or of one of its images.
#[derive(Debug, Error)]
pub enum ApiError {
    /// The caller may not use the route.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// A call about a batch failed.
    #[error(transparent)]
    Batch(BatchError),
    /// The request cannot be recorded.
    #[error(transparent)]
    Audit(#[from] AuditError),
    /// An image got no result.
    #[error(transparent)]
    Pipeline(#[from] PipelineError),
    /// Two faces cannot be compared.
    #[error(transparent)]
    Recognition(RecognitionError),
    /// The body does not have the format that its content type names.
    #[error("the body could not be read: {0}")]
    InvalidBody(String),
    /// The request holds no image.
    #[error("the request holds no image: {0}")]
    MissingImage(Cow<'static, str>),
    /// The content type of the request is not accepted.
    #[error("{0}")]
    UnsupportedMediaType(String),
    /// The request body is over the limit.
    #[error("the body is larger than {limit} bytes; send fewer or smaller images")]
    BodyTooLarge {
        /// The limit in bytes.
        limit: usize,
    },
    /// More images than one request may hold.
    #[error("the request holds more than {limit} images; send them in several requests")]
    TooManyImages {
        /// The limit.
        limit: usize,
    },
    /// More items than one JSON or msgpack body, or one form, may hold.
    #[error(
        "the body holds more than {limit} items; send them in several requests, or as application/x-ndjson"
    )]
    TooManyItems {
        /// The limit.
        limit: usize,
    },
    /// The route exists, but not for this method.
    #[error("{0}")]
    MethodNotAllowed(String),
    /// There is nothing at this address, or it was erased.
    #[error("{0}")]
    NotFound(String),
    /// The server is at its limit.
    #[error("{0}; try again after the time in retry-after")]
    Overloaded(AdmissionError),
    /// The body did not arrive in time.
    #[error("the body did not arrive within {limit_ms} ms; send it faster, or fewer images")]
    RequestTimeout {
        /// The limit in milliseconds.
        limit_ms: u64,
    },
    /// The body arrives too slowly.
    #[error("the body arrives with less than {bytes_per_s} bytes a second; send it faster")]
    BodyTooSlow {
        /// The lowest rate, in bytes per second.
        bytes_per_s: u64,
    },
    /// The request exceeded its deadline.
    #[error("the request took longer than {limit_ms} ms; send fewer images, or allow more time")]
    DeadlineExceeded {
        /// The limit in milliseconds.
        limit_ms: u64,
    },
    /// A response cannot be serialized, or a handler panicked.
    #[error("{0}")]
    Internal(String),
}

impl ApiError {
    /// Returns the error of an option that is out of range or malformed.
    pub fn invalid_option(option: impl Into<String>, detail: impl Into<String>) -> Self {
        InvalidOption::new(option, detail).into()
    }

    /// Returns the error of a body that cannot be read.
    pub fn invalid_body(detail: impl Into<String>) -> Self {
        Self::InvalidBody(shorten(detail.into()))
    }

    /// Returns the error of a request without an image.
    pub fn missing_image(detail: impl Into<Cow<'static, str>>) -> Self {
        Self::MissingImage(detail.into())
    }

    /// Returns the error of a field of the body that is missing or wrong.
    pub fn invalid_field(field: impl Into<String>, detail: impl Into<String>) -> Self {
        FieldErrors::from(FieldError::new(field, detail)).into()
    }

    /// Returns what is wrong with each field, option or part, if the error is about them.
    pub fn fields(&self) -> Vec<FieldError> {
        match self {
            Self::Pipeline(PipelineError::Fields(fields)) => fields.errors.clone(),
            Self::Pipeline(PipelineError::InvalidOption(InvalidOption { option, detail })) => {
                vec![FieldError::new(option.clone(), detail.clone())]
            }
            Self::Pipeline(PipelineError::Ingest(
                error @ (IngestError::TwoSources
                | IngestError::NotBase64(_)
                | IngestError::NotBase64Url),
            )) => vec![FieldError::new("data", error.to_string())],
            _ => Vec::new(),
        }
    }

    /// Returns the kind, which has the status and the code.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Access(error) => kind_of_access(error),
            Self::Batch(error) => kind_of_batch(error),
            Self::Audit(error) => kind_of_audit(error),
            Self::Pipeline(error) => kind_of_pipeline(error),
            Self::Recognition(error) => kind_of_recognition(error),
            Self::InvalidBody(_) => table::INVALID_BODY,
            Self::MissingImage(_) => table::MISSING_IMAGE,
            Self::UnsupportedMediaType(_) => table::UNSUPPORTED_MEDIA_TYPE,
            Self::BodyTooLarge { .. } => table::BODY_TOO_LARGE,
            Self::TooManyImages { .. } | Self::TooManyItems { .. } => table::TOO_MANY_IMAGES,
            Self::MethodNotAllowed(_) => table::METHOD_NOT_ALLOWED,
            Self::NotFound(_) => table::NOT_FOUND,
            Self::Overloaded(_) => table::OVERLOADED,
            Self::RequestTimeout { .. } | Self::BodyTooSlow { .. } => table::REQUEST_TIMEOUT,
            Self::DeadlineExceeded { .. } => table::DEADLINE_EXCEEDED,
            Self::Internal(_) => table::INTERNAL,
        }
    }

    /// Returns when the request can succeed, for an error that passes.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Access(AccessError::RateLimited { retry_after, .. })
            | Self::Recognition(RecognitionError::TooManySearches { retry_after, .. }) => {
                Some(*retry_after)
            }
            Self::Batch(BatchError::TooManyWaiting { .. } | BatchError::TooManyStreams { .. }) => {
                Some(BATCH_RETRY)
            }
            // Requests take fractions of a second, so the server usually has capacity after one second.
            error if error.kind() == table::OVERLOADED => Some(Duration::from_secs(1)),
            _ => None,
        }
    }

    /// Returns the text that clients see. The text of a 5xx can describe the inside of the server, so only the log has it,
    /// unless the kind is one of those that are named here.
    pub fn public_detail(&self) -> String {
        match self.kind() {
            table::DEADLINE_EXCEEDED | table::DEVICE_UNAVAILABLE => self.to_string(),
            kind if kind.status >= 500 => kind.example.to_owned(),
            // An error of the request.
            ErrorKind { .. } => self.to_string(),
        }
    }
}

fn kind_of_access(error: &AccessError) -> ErrorKind {
    match error {
        AccessError::NoCredential | AccessError::InvalidCredential => table::UNAUTHORIZED,
        AccessError::MissingScope(_)
        | AccessError::NotLocal
        | AccessError::NoKeysHere
        | AccessError::NotOperator => table::FORBIDDEN,
        AccessError::RateLimited { .. } => table::RATE_LIMITED,
        AccessError::Store(error) => kind_of_store(error),
        AccessError::Issuer(_) => table::ISSUER_UNAVAILABLE,
    }
}

fn kind_of_batch(error: &BatchError) -> ErrorKind {
    match error {
        BatchError::NotFound(_) | BatchError::NoWebhook(_) => table::NOT_FOUND,
        BatchError::NotOpen(_)
        | BatchError::Cancelled(_)
        | BatchError::Concurrent
        | BatchError::TooManyWebhooks { .. }
        | BatchError::TooManyPendingWebhooks { .. } => table::CONFLICT,
        BatchError::KeyReused(_) => table::IDEMPOTENCY_CONFLICT,
        BatchError::OtherKey(_) => table::FORBIDDEN,
        BatchError::TooManyWaiting { .. } | BatchError::TooManyStreams { .. } => {
            table::RATE_LIMITED
        }
        BatchError::Audit(error) => kind_of_audit(error),
        BatchError::Payload(_) => table::PAYLOADS_UNAVAILABLE,
        BatchError::Recognition(error) => kind_of_recognition(error),
        BatchError::Pipeline(error) => kind_of_pipeline(error),
    }
}

fn kind_of_recognition(error: &RecognitionError) -> ErrorKind {
    match error {
        RecognitionError::NoFace(_) | RecognitionError::NoFaceToSearch => table::NO_FACE,
        RecognitionError::NotFound(_)
        | RecognitionError::NoCollection(_)
        | RecognitionError::NoSubject(_)
        | RecognitionError::NoEnrollment(_)
        | RecognitionError::NoPerson(_)
        | RecognitionError::NoClustering(_) => table::NOT_FOUND,
        RecognitionError::NameTaken(_)
        | RecognitionError::ExternalIdTaken
        | RecognitionError::NotSearchable(_)
        | RecognitionError::NotLive(_)
        | RecognitionError::FaceErased
        | RecognitionError::NoLibrary(_)
        | RecognitionError::IsLibrary(_)
        | RecognitionError::ClusteringUnfinished
        | RecognitionError::Uncalibrated(_) => table::CONFLICT,
        RecognitionError::TooManySearches { .. } => table::RATE_LIMITED,
        RecognitionError::AlignedCrops => table::FORBIDDEN,
        RecognitionError::PurposeNotAllowed(_) | RecognitionError::OtherPurpose(_) => {
            table::PURPOSE_NOT_ALLOWED
        }
        RecognitionError::Store(error) | RecognitionError::Index(IndexError::Store(error)) => {
            kind_of_store(error)
        }
        RecognitionError::Index(IndexError::Unavailable(_) | IndexError::Busy) => {
            table::INDEX_UNAVAILABLE
        }
        RecognitionError::Index(IndexError::Vector(_) | IndexError::Pool(_))
        | RecognitionError::Interrupted
        | RecognitionError::LeaseLost
        | RecognitionError::Clustering(_) => table::INTERNAL,
        RecognitionError::Audit(error) => kind_of_audit(error),
        RecognitionError::NoVector(_) => table::NO_VECTOR,
        RecognitionError::VectorSpaceMismatch { .. }
        | RecognitionError::CollectionVectorSpace { .. } => table::VECTOR_SPACE_MISMATCH,
        RecognitionError::Image { source, .. } => kind_of_pipeline(source),
        RecognitionError::Rejected(rejection) => kind_of_rejection(rejection),
        RecognitionError::InvalidOption(_) => table::INVALID_OPTION,
    }
}

fn kind_of_rejection(rejection: &Rejection) -> ErrorKind {
    match rejection {
        Rejection::NoFace => table::NO_FACE,
        Rejection::SeveralFaces { .. } => table::SEVERAL_FACES,
        Rejection::LowQuality { .. } => table::LOW_QUALITY,
        Rejection::VectorSpaceMismatch => table::VECTOR_SPACE_MISMATCH,
        Rejection::Conflict { .. } | Rejection::Hidden => table::CONFLICT,
        Rejection::Suppressed => table::SUPPRESSED,
        Rejection::Image(error) => {
            let kind = table::ALL.iter().find(|kind| kind.code == error.code);
            kind.copied().unwrap_or(table::INTERNAL)
        }
    }
}

fn kind_of_audit(error: &AuditError) -> ErrorKind {
    match error {
        AuditError(Some(StoreError::Schema(_))) => table::SCHEMA_MISMATCH,
        AuditError(_) => table::AUDIT_UNAVAILABLE,
    }
}

fn kind_of_store(error: &StoreError) -> ErrorKind {
    match error {
        StoreError::Schema(_) => table::SCHEMA_MISMATCH,
        StoreError::Unavailable(_)
        | StoreError::Tls(_)
        | StoreError::NotMigrated(_)
        | StoreError::Corrupt(_) => table::STORE_UNAVAILABLE,
        StoreError::NulInText => table::INVALID_OPTION,
        StoreError::Url(_)
        | StoreError::Directory { .. }
        | StoreError::Invalid(_)
        | StoreError::Refused(_) => table::INTERNAL,
    }
}

fn kind_of_pipeline(error: &PipelineError) -> ErrorKind {
    match error {
        PipelineError::InvalidOption(_) | PipelineError::Fields(_) => table::INVALID_OPTION,
        PipelineError::NoModel(_) => table::NO_MODEL,
        PipelineError::Ingest(error) => kind_of_ingest(error),
        PipelineError::Decode(DecodeError::UnsupportedMedia { .. }) => {
            table::UNSUPPORTED_MEDIA_TYPE
        }
        PipelineError::Decode(DecodeError::Unsupported { .. }) => table::IMAGE_UNSUPPORTED,
        PipelineError::Decode(DecodeError::Corrupt { .. }) => table::IMAGE_CORRUPT,
        PipelineError::Decode(DecodeError::Truncated { .. }) => table::IMAGE_TRUNCATED,
        PipelineError::Decode(DecodeError::TooLarge { .. })
        | PipelineError::TooManyPixels { .. }
        | PipelineError::ResponseTooLarge { .. } => table::IMAGE_TOO_LARGE,
        PipelineError::Overloaded(_) => table::OVERLOADED,
        PipelineError::TooMuchWork { .. } => table::TOO_MUCH_WORK,
        PipelineError::DeviceUnavailable { .. } => table::DEVICE_UNAVAILABLE,
        PipelineError::AnonymizationFailed { .. } => table::ANONYMIZATION_FAILED,
        PipelineError::Store(error) => kind_of_store(error),
        PipelineError::Encode(_)
        | PipelineError::Engine(_)
        | PipelineError::Head(_)
        | PipelineError::Pool(_)
        | PipelineError::Serialize(_)
        | PipelineError::UnexpectedOutput(_)
        | PipelineError::NotASha256(_) => table::INTERNAL,
    }
}

fn kind_of_ingest(error: &IngestError) -> ErrorKind {
    match error {
        IngestError::TwoSources | IngestError::NotBase64(_) | IngestError::NotBase64Url => {
            table::INVALID_OPTION
        }
        IngestError::NoSource | IngestError::Empty => table::MISSING_IMAGE,
        IngestError::Full(_) => table::OVERLOADED,
        IngestError::Fetch(FetchError::Refused(_)) => table::URL_FORBIDDEN,
        IngestError::Fetch(FetchError::TooLarge { .. }) => table::IMAGE_TOO_LARGE,
        IngestError::Fetch(
            FetchError::NotAUrl
            | FetchError::Unreachable
            | FetchError::NotPublic
            | FetchError::Untrusted
            | FetchError::TimedOut { .. }
            | FetchError::Status(_)
            | FetchError::BadRedirect
            | FetchError::TooManyRedirects { .. }
            | FetchError::Encoded
            | FetchError::BrokeOff,
        ) => table::URL_FAILED,
    }
}

/// Returns an error with its whole text, for callers of the library and of the command line.
pub fn entry_in_full(error: impl Into<ApiError>) -> ErrorEntry {
    let error = error.into();
    ErrorEntry {
        code: error.kind().code,
        detail: with_causes(&error),
    }
}

impl From<&ApiError> for ErrorEntry {
    fn from(error: &ApiError) -> Self {
        Self {
            code: error.kind().code,
            detail: error.public_detail(),
        }
    }
}

impl From<BatchError> for ApiError {
    fn from(error: BatchError) -> Self {
        match error {
            BatchError::Pipeline(error) => Self::Pipeline(error),
            BatchError::Recognition(error) => error.into(),
            error => Self::Batch(error),
        }
    }
}

impl From<RecognitionError> for ApiError {
    fn from(error: RecognitionError) -> Self {
        match error {
            RecognitionError::InvalidOption(error) => error.into(),
            error => Self::Recognition(error),
        }
    }
}

impl From<KeyError> for ApiError {
    fn from(error: KeyError) -> Self {
        match error {
            KeyError::Invalid(error) => error.into(),
            KeyError::Randomness(_) => Self::Internal(error.to_string()),
            KeyError::Store(error) => error.into(),
        }
    }
}

/// Returns the code and the text of an item's error, as a response would have them.
pub fn describe_item(error: BatchError) -> (&'static str, String) {
    let error = ApiError::from(error);
    if error.kind().status >= 500 {
        tracing::error!(
            code = error.kind().code,
            error = with_causes(&error),
            "item failed"
        );
    }
    let entry = ErrorEntry::from(&error);
    (entry.code, entry.detail)
}

impl From<AdmissionError> for ApiError {
    fn from(full: AdmissionError) -> Self {
        Self::Overloaded(full)
    }
}

/// Converts through `PipelineError`, so that each error has one row in the table.
macro_rules! through_pipeline {
    ($($source:ty),*) => {
        $(impl From<$source> for ApiError {
            fn from(error: $source) -> Self {
                Self::Pipeline(error.into())
            }
        })*
    };
}

through_pipeline!(
    InvalidOption,
    FieldErrors,
    IngestError,
    DecodeError,
    EncodeError,
    PoolError,
    StoreError
);

#[cfg(test)]
mod tests {
    use super::*;
    use facescan_batches::submission::EntryError;
    use facescan_pipeline::ingest::guard::Refused;

    #[test]
    fn the_codes_of_refused_entries_are_those_of_the_table() {
        let ingest: [fn() -> IngestError; 7] = [
            || IngestError::TwoSources,
            || IngestError::NoSource,
            || IngestError::Empty,
            || IngestError::NotBase64Url,
            || FetchError::Refused(Refused::Off).into(),
            || FetchError::NotAUrl.into(),
            || FetchError::Unreachable.into(),
        ];
        for error in ingest {
            let expected = ApiError::from(error()).kind().code;
            assert_eq!(EntryError::from(error()).code(), expected, "{}", error());
        }
        let option = || InvalidOption::new("id", "is too long");
        let codes = [
            (EntryError::from(option()), ApiError::from(option()).kind()),
            (
                EntryError::Malformed("".into()),
                ApiError::invalid_body("").kind(),
            ),
            (EntryError::TooLarge { limit: 1 }, table::IMAGE_TOO_LARGE),
        ];
        for (error, expected) in codes {
            assert_eq!(error.code(), expected.code, "{error}");
        }
    }
}
