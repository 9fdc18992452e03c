//! Why requests and images are not admitted.

use facescan_telemetry::metrics::labels::Refusal;

use super::priority::Priority;

/// Why a request is not admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the errors are")]
pub enum AdmissionError {
    #[error("the server has reached its limit of bytes in request bodies and responses")]
    Bytes,
    #[error(
        "the server has reached its limit of responses that are not read; read the responses of earlier requests"
    )]
    Responses,
    #[error("the server has reached its limit of requests")]
    Requests,
    #[error("the server has reached its limit of {} images", .0.name())]
    Images(Priority),
    #[error("the server has reached its limit of images that are fetched from urls")]
    Fetches,
}

impl AdmissionError {
    /// Returns what the metrics count.
    pub fn refusal(self) -> Refusal {
        match self {
            Self::Requests => Refusal::Requests,
            Self::Bytes => Refusal::Bytes,
            Self::Responses => Refusal::Responses,
            Self::Images(Priority::Interactive) => Refusal::Interactive,
            Self::Images(Priority::Bulk) => Refusal::Bulk,
            Self::Fetches => Refusal::Fetches,
        }
    }
}
