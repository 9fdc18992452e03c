//! Traces: the spans of requests and of chunks, for an OpenTelemetry collector.
//!
//! A span of the target `otlp` is for traces only: the log leaves it out. Code creates such a span and drops it when the
//! work ends. Nothing enters it, so the current span stays the one of the request, which every log line needs.
//!
//! Without the feature `otlp`, or without `traces.endpoint`, no span of that target exists and these functions do nothing.

use http::HeaderValue;
use tracing::Span;

mod span;
pub use span::{SpanKind, TRACEPARENT, TRACERESPONSE};

#[cfg(feature = "otlp")]
mod otlp;
#[cfg(feature = "otlp")]
pub use otlp::{Exporter, begin, link, record_status, start, traceparent};

#[cfg(not(feature = "otlp"))]
mod off;
#[cfg(not(feature = "otlp"))]
pub use off::{Exporter, begin, link, record_status, start, traceparent};

/// Returns [`traceparent`] as the value of a header.
pub fn traceparent_header(span: &Span) -> Option<HeaderValue> {
    HeaderValue::from_str(&traceparent(span)?).ok()
}
