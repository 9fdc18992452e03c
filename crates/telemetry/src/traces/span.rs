//! The kinds of spans, and the headers that name spans.

use http::HeaderName;

/// The request header that names the caller's span.
pub const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// The response header that names the server's span.
pub const TRACERESPONSE: HeaderName = HeaderName::from_static("traceresponse");

/// What a span is in its trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanKind {
    /// Answers a request.
    Server,
    /// Processes what another process submitted.
    Consumer,
}

impl SpanKind {
    /// Returns the name in the field `otel.kind`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Consumer => "consumer",
        }
    }
}
