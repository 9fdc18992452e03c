//! Sends spans to a collector with OTLP over HTTP.

use std::{collections::HashMap, env, fmt::Display, time::Duration};

use anyhow::Context as _;
use facescan_config::Traces;
use http::HeaderMap;
use opentelemetry::{
    Context, KeyValue,
    propagation::TextMapPropagator,
    trace::{SpanContext, Status, TraceContextExt, TracerProvider},
};
use opentelemetry_http::HeaderExtractor;
use opentelemetry_otlp::{SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::{
    Resource,
    propagation::TraceContextPropagator,
    trace::{Sampler, SdkTracerProvider},
};
use secrecy::ExposeSecret;
use sysinfo::System;
use tracing::{Level, Metadata, Span, field::display};
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tracing_subscriber::{Layer, filter::filter_fn};

use super::span::{SpanKind, TRACEPARENT};
use crate::logging::BoxedLayer;

/// The time limit of one request to the collector.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The time limit for sending the last spans when the process stops.
const LAST_SPANS: Duration = Duration::from_secs(3);

/// Sends spans in the background. Dropping it sends the last ones.
#[derive(Debug)]
pub struct Exporter(SdkTracerProvider);

impl Drop for Exporter {
    fn drop(&mut self) {
        if let Err(error) = self.0.shutdown_with_timeout(LAST_SPANS) {
            tracing::warn!(%error, "the last spans were not sent");
        }
    }
}

/// Starts the exporter, and returns the layer that gives it the spans. Returns `None` if the settings name no collector.
///
/// Call it outside the async runtime, because the HTTP client has a thread of its own.
///
/// # Errors
/// Returns an error if TLS or the HTTP client cannot be set up.
pub fn start(settings: &Traces) -> anyhow::Result<Option<(BoxedLayer, Exporter)>> {
    let Some(endpoint) = &settings.endpoint else {
        return Ok(None);
    };
    let client = reqwest::blocking::Client::builder()
        .tls_backend_preconfigured(facescan_outbound::tls::client_config()?)
        .timeout(TIMEOUT)
        .build()
        .context("building the HTTP client of traces")?;
    let headers: HashMap<String, String> = settings
        .authorization
        .iter()
        .map(|value| ("authorization".to_owned(), value.expose_secret().to_owned()))
        .collect();
    let exporter = SpanExporter::builder()
        .with_http()
        .with_http_client(client)
        .with_endpoint(endpoint.as_str())
        .with_headers(headers)
        .with_timeout(TIMEOUT)
        .build()
        .context("setting up the export of traces")?;
    let sampler = Sampler::TraceIdRatioBased(settings.sample_ratio);
    let provider = SdkTracerProvider::builder()
        .with_batch_exporter(exporter)
        .with_sampler(Sampler::ParentBased(Box::new(sampler)))
        .with_resource(resource())
        .build();
    let layer = tracing_opentelemetry::layer()
        .with_tracer(provider.tracer("facescan"))
        .with_location(false)
        .with_threads(false)
        .with_target(false)
        .with_filter(filter_fn(is_traced));
    Ok(Some((layer.boxed(), Exporter(provider))))
}

/// Returns the description of this process. `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES` override it.
fn resource() -> Resource {
    let mut builder = Resource::builder();
    if env::var_os("OTEL_SERVICE_NAME").is_none() {
        builder = builder.with_service_name("facescan");
    }
    let host = System::host_name().unwrap_or_default();
    builder
        .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
        .with_attribute(KeyValue::new(
            "service.instance.id",
            format!("{host}/{}", std::process::id()),
        ))
        .build()
}

/// Returns whether a span or an event is part of a trace: spans of this program, and its warnings within them.
fn is_traced(metadata: &Metadata<'_>) -> bool {
    let root = metadata.target().split("::").next().unwrap_or_default();
    let is_own = root == "otlp" || root.starts_with("facescan");
    let max_level = match metadata.is_span() {
        true => Level::INFO,
        false => Level::WARN,
    };
    is_own && *metadata.level() <= max_level
}

/// Begins a span: continues the trace that the headers name, and writes the id of the trace into the span for the log.
///
/// Call it before anything enters the span, because a span that has begun keeps its parent.
pub fn begin(span: &Span, name: impl Display, kind: SpanKind, headers: Option<&HeaderMap>) {
    let parent = match headers {
        Some(headers) => TraceContextPropagator::new()
            .extract_with_context(&Context::new(), &HeaderExtractor(headers)),
        None => Context::new(),
    };
    // There is no layer for traces, so nothing is recorded.
    if span.set_parent(parent).is_err() {
        return;
    }
    span.record("otel.name", display(name));
    span.record("otel.kind", kind.name());
    if let Some(context) = context_of(span) {
        span.record("trace_id", context.trace_id().to_string());
    }
}

/// Records the status of the response to a request.
pub fn record_status(span: &Span, status: u16) {
    span.set_attribute("http.response.status_code", i64::from(status));
    if status >= 500 {
        span.set_status(Status::error(""));
    }
}

/// Returns the value of the header `traceparent` that names a span. Returns `None` if the span is in no trace.
pub fn traceparent(span: &Span) -> Option<String> {
    let context = context_of(span)?;
    let (trace, span, flags) = (context.trace_id(), context.span_id(), context.trace_flags());
    Some(format!("00-{trace}-{span}-{:02x}", flags.to_u8()))
}

/// Links a span to the span that caused it in another process.
pub fn link(span: &Span, traceparent: &str) {
    let headers: HashMap<String, String> =
        HashMap::from([(TRACEPARENT.as_str().to_owned(), traceparent.to_owned())]);
    let cause = TraceContextPropagator::new().extract_with_context(&Context::new(), &headers);
    span.add_link(cause.span().span_context().clone());
}

fn context_of(span: &Span) -> Option<SpanContext> {
    let context = span.context().span().span_context().clone();
    context.is_valid().then_some(context)
}
