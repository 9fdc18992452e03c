//! Why a request to a model server brought nothing, and whether the next one may.

use std::{io, time::Duration};

use http::StatusCode;
use thiserror::Error;

use facescan_outbound::causes;

/// Why a request brought nothing.
#[derive(Debug, Error)]
pub(super) enum Failure {
    /// There was no connection, or it ended before an answer began.
    #[error("the connection failed: {detail}")]
    Connection {
        detail: String,
        /// Whether the server may be there the next time.
        may_pass: bool,
    },
    /// The server did not answer in time, repeats included.
    #[error("there was no answer within {} ms", patience.as_millis())]
    Timeout { patience: Duration },
    /// The server answered with another status than 200.
    #[error("the server answered {status}{}{detail}", if detail.is_empty() { "" } else { ": " })]
    Status {
        status: StatusCode,
        /// What the server said.
        detail: String,
        /// How long it wants to be left alone.
        retry_after: Option<Duration>,
    },
    /// The answer is not what the protocol or the model's metadata promise.
    #[error("the server's answer is malformed: {0}")]
    Malformed(String),
    /// The answer is larger than what is read.
    #[error(
        "the server's answer is larger than {limit} bytes; raise max_response_bytes if it is right"
    )]
    TooLarge { limit: usize },
}

impl Failure {
    /// What happened before the head of an answer was read.
    pub fn before_answer(error: &reqwest::Error) -> Self {
        Self::Connection {
            detail: described(error),
            may_pass: error.is_timeout() || is_cut(error),
        }
    }

    /// What happened while the body of an answer was read. Such an answer is never asked for again: the server ran the
    /// batch, and something between cuts what it says.
    pub fn in_answer(error: &reqwest::Error) -> Self {
        Self::Malformed(format!("its body ends early: {}", described(error)))
    }

    /// Whether the same request may succeed the next time.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Connection { may_pass, .. } => *may_pass,
            Self::Status { status, .. } => matches!(status.as_u16(), 429 | 502 | 503 | 504),
            Self::Timeout { .. } | Self::Malformed(_) | Self::TooLarge { .. } => false,
        }
    }

    /// Whether a smaller batch may succeed: servers answer 400 or 413 to more rows than they take.
    pub fn may_be_of_the_size(&self) -> bool {
        match self {
            Self::Status { status, .. } => matches!(status.as_u16(), 400 | 413),
            Self::TooLarge { .. } => true,
            Self::Connection { .. } | Self::Timeout { .. } | Self::Malformed(_) => false,
        }
    }

    /// How long the server wants to be left alone.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Status { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// The name in metrics.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Connection { .. } => "connection",
            Self::Timeout { .. } => "timeout",
            Self::Status { .. } if self.may_pass() => "busy",
            Self::Status { .. } => "refused",
            Self::Malformed(_) => "malformed",
            Self::TooLarge { .. } => "too_large",
        }
    }
}

/// Whether the other side refused the connection, or ended it.
fn is_cut(error: &reqwest::Error) -> bool {
    causes(error).any(|cause| {
        if let Some(error) = cause.downcast_ref::<hyper::Error>() {
            return error.is_incomplete_message() || error.is_closed();
        }
        cause.downcast_ref::<io::Error>().is_some_and(|error| {
            matches!(
                error.kind(),
                io::ErrorKind::ConnectionRefused
                    | io::ErrorKind::ConnectionReset
                    | io::ErrorKind::ConnectionAborted
                    | io::ErrorKind::BrokenPipe
            )
        })
    })
}

/// The last cause says what happened; what is around it names the address, which logs have already.
fn described(error: &reqwest::Error) -> String {
    causes(error)
        .last()
        .map_or_else(|| error.to_string(), ToString::to_string)
}
