//! The reasons why a request to a model server failed, and whether a retry may succeed.

use std::{io, time::Duration};

use http::StatusCode;
use thiserror::Error;

use facescan_outbound::causes;

/// The reason why a request failed.
#[derive(Debug, Error)]
pub(super) enum Failure {
    /// There was no connection, or it ended before a response began.
    #[error("the connection failed: {detail}")]
    Connection {
        detail: String,
        /// Whether a retry may succeed.
        may_pass: bool,
    },
    /// The server did not respond in time, retries included.
    #[error("there was no response within {} ms", time_budget.as_millis())]
    Timeout { time_budget: Duration },
    /// The server responded with another status than 200.
    #[error("the server responded with {status}{}{detail}", if detail.is_empty() { "" } else { ": " })]
    Status {
        status: StatusCode,
        /// The server's explanation.
        detail: String,
        /// The time that the server asks clients to wait.
        retry_after: Option<Duration>,
    },
    /// The response does not match the protocol or the model's metadata.
    #[error("the server's response is malformed: {0}")]
    Malformed(String),
    /// The response is larger than the limit.
    #[error(
        "the server's response is larger than {limit} bytes; raise max_response_bytes if it is right"
    )]
    TooLarge { limit: usize },
}

impl Failure {
    /// Returns the failure of a request before the head of its response was read.
    pub fn before_response(error: &reqwest::Error) -> Self {
        Self::Connection {
            detail: described(error),
            may_pass: error.is_timeout() || is_cut(error),
        }
    }

    /// Returns the failure of reading the body of a response. Such a request is not repeated: the server ran the batch,
    /// but its response was cut off on the way.
    pub fn in_response(error: &reqwest::Error) -> Self {
        Self::Malformed(format!("its body ends early: {}", described(error)))
    }

    /// Returns whether the same request may succeed on a retry.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Connection { may_pass, .. } => *may_pass,
            Self::Status { status, .. } => matches!(status.as_u16(), 429 | 502 | 503 | 504),
            Self::Timeout { .. } | Self::Malformed(_) | Self::TooLarge { .. } => false,
        }
    }

    /// Returns whether a smaller batch may succeed: servers respond with 400 or 413 to too many rows.
    pub fn may_be_of_the_size(&self) -> bool {
        match self {
            Self::Status { status, .. } => matches!(status.as_u16(), 400 | 413),
            Self::TooLarge { .. } => true,
            Self::Connection { .. } | Self::Timeout { .. } | Self::Malformed(_) => false,
        }
    }

    /// Returns the time that the server asks clients to wait.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Status { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// Returns the name in metrics.
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

/// Returns whether the other side refused or ended the connection.
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

/// Returns the innermost cause, which describes the failure. The outer causes name the address, which the log already
/// has.
fn described(error: &reqwest::Error) -> String {
    causes(error)
        .last()
        .map_or_else(|| error.to_string(), ToString::to_string)
}
