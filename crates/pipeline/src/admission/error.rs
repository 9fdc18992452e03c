//! Why requests and images are not admitted.

use facescan_telemetry::metrics::labels::Refusal;

use super::priority::Priority;

/// Why a request is not admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AdmissionError {
    /// The byte budget of request bodies and large answers is used up.
    #[error("the server has reached its limit of bytes in request bodies and answers")]
    Bytes,
    /// Too many answers wait for clients that do not read them.
    #[error(
        "the server has reached its limit of answers that are not read; read the answers of earlier requests"
    )]
    Answers,
    /// The budget of requests is used up.
    #[error("the server has reached its limit of requests")]
    Requests,
    /// The image budget of this priority is used up.
    #[error("the server has reached its limit of {} images", .0.name())]
    Images(Priority),
    /// The byte budget of fetched images is used up.
    #[error("the server has reached its limit of images that are fetched from urls")]
    Fetches,
}

impl AdmissionError {
    /// Returns what the metrics count.
    pub fn refusal(self) -> Refusal {
        match self {
            Self::Requests => Refusal::Requests,
            Self::Bytes => Refusal::Bytes,
            Self::Answers => Refusal::Answers,
            Self::Images(Priority::Interactive) => Refusal::Interactive,
            Self::Images(Priority::Bulk) => Refusal::Bulk,
            Self::Fetches => Refusal::Fetches,
        }
    }
}
