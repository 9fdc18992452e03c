//! The build without the feature `otlp`.

use std::fmt::Display;

use anyhow::bail;
use facescan_config::Traces;
use http::HeaderMap;
use tracing::Span;

use super::span::SpanKind;
use crate::logging::BoxedLayer;

/// Sends nothing.
#[derive(Debug)]
pub struct Exporter;

/// Checks that the settings name no collector.
///
/// # Errors
/// Returns an error if they name one.
pub fn start(settings: &Traces) -> anyhow::Result<Option<(BoxedLayer, Exporter)>> {
    match settings.endpoint {
        None => Ok(None),
        Some(_) => bail!(
            "traces.endpoint is set, but this binary was built without the feature `otlp`; build it with the default \
             features, or leave traces.endpoint out"
        ),
    }
}

/// Does nothing.
pub fn begin(_span: &Span, _name: impl Display, _kind: SpanKind, _headers: Option<&HeaderMap>) {}

/// Does nothing.
pub fn record_status(_span: &Span, _status: u16) {}

/// Returns `None`, because the span is in no trace.
pub fn traceparent(_span: &Span) -> Option<String> {
    None
}

/// Does nothing.
pub fn link(_span: &Span, _traceparent: &str) {}
