//! Traces, as a collector of OTLP over HTTP receives them.

use std::{
    collections::BTreeSet,
    path::Path,
    process::{Command, Stdio},
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{Router, body::Bytes, extract::State, http::HeaderMap, routing::post};
use opentelemetry_proto::tonic::{
    collector::trace::v1::ExportTraceServiceRequest,
    common::v1::any_value::Value as AnyValue,
    trace::v1::{Span, span::SpanKind},
};
use prost::Message;
use serde_json::json;
use tokio::time::timeout;

use crate::support::{
    app::{image_file, serve},
    cli::{Serving, facescan},
    values::{lines, photo},
};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";

#[derive(Clone, Default)]
struct Received {
    spans: Arc<Mutex<Vec<Span>>>,
    /// The headers `authorization` of the collector's requests, and `traceparent` of messages to the webhook.
    headers: Arc<Mutex<Vec<(&'static str, String)>>>,
}

impl Received {
    fn note(&self, headers: &HeaderMap, name: &'static str) {
        let value = headers.get(name).map(|value| value.to_str().unwrap());
        let value = value.unwrap_or_default().to_owned();
        self.headers.lock().unwrap().push((name, value));
    }

    fn header(&self, name: &str) -> Option<String> {
        let headers = self.headers.lock().unwrap();
        let found = headers.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| value.clone())
    }
}

/// Starts a collector that is also the receiver of webhooks.
async fn collector() -> (String, Received) {
    let received = Received::default();
    let spans = async |State(received): State<Received>, headers: HeaderMap, body: Bytes| {
        received.note(&headers, "authorization");
        let export = ExportTraceServiceRequest::decode(body).unwrap();
        let scopes = export.resource_spans.into_iter();
        let spans = scopes
            .flat_map(|resource| resource.scope_spans)
            .flat_map(|scope| scope.spans);
        received.spans.lock().unwrap().extend(spans);
    };
    let told = async |State(received): State<Received>, headers: HeaderMap| {
        received.note(&headers, "traceparent");
    };
    let router = Router::new()
        .route("/v1/traces", post(spans))
        .route("/told", post(told))
        .with_state(received.clone());
    (format!("http://{}", serve(router).await), received)
}

fn client() -> reqwest::Client {
    let tls = facescan_outbound::tls::client_config().unwrap();
    facescan_outbound::client(tls).build().unwrap()
}

/// Returns a server that sends its traces to the collector.
fn traced(collector: &str, data: &Path) -> Command {
    let mut server = facescan(["serve"]);
    server.env("FACESCAN__DATA_DIR", data).env(
        "FACESCAN__TRACES__ENDPOINT",
        format!("{collector}/v1/traces"),
    );
    server
}

/// Sends a request as a part of the trace [`TRACE`], and checks its status. Returns the header `traceresponse`.
async fn send_in_trace(request: reqwest::RequestBuilder, status: u16) -> String {
    let traceparent = format!("00-{TRACE}-{PARENT}-01");
    let request = request.header("traceparent", traceparent);
    let answer = request.send().await.unwrap();
    let response = answer.headers()["traceresponse"].to_str().unwrap();
    let response = response.to_owned();
    let found = answer.status();
    assert_eq!(found, status, "{}", answer.text().await.unwrap());
    response
}

fn hex(id: &[u8]) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn attribute(span: &Span, key: &str) -> Option<String> {
    let found = span.attributes.iter().find(|pair| pair.key == key)?;
    match found.value.clone()?.value? {
        AnyValue::StringValue(text) => Some(text),
        AnyValue::IntValue(number) => Some(number.to_string()),
        _ => None,
    }
}

fn named<'a>(spans: &'a [Span], name: &str) -> Vec<&'a Span> {
    spans.iter().filter(|span| span.name == name).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_is_one_trace_from_http_to_the_store() {
    let (collector, received) = collector().await;
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let server = Serving::start(
        traced(&collector, folder.path())
            .env("FACESCAN__TRACES__AUTHORIZATION", "Bearer of-the-collector")
            .env("LOG_LEVEL", "debug")
            .stderr(Stdio::from(std::fs::File::create(&log).unwrap())),
    );
    let request = client()
        .post(format!("{}/embed?max_faces=2", server.address))
        .body(image_file("t1.jpg").to_vec())
        .header("content-type", "image/jpeg");
    let response = send_in_trace(request, 200).await;
    server.stop();

    let mut spans: Vec<Span> = received.spans.lock().unwrap().clone();
    spans.retain(|span| hex(&span.trace_id) == TRACE);
    let names: BTreeSet<&str> = spans.iter().map(|span| span.name.as_str()).collect();
    let expected = [
        "POST /embed",
        "decode",
        "inference",
        "model run",
        "queue",
        "store",
    ];
    assert_eq!(names, BTreeSet::from(expected));
    let [root] = named(&spans, "POST /embed")[..] else {
        panic!("{spans:?}")
    };
    assert_eq!(hex(&root.parent_span_id), PARENT);
    assert_eq!(root.kind(), SpanKind::Server);
    assert_eq!(
        attribute(root, "http.response.status_code").as_deref(),
        Some("200")
    );
    assert_eq!(
        response,
        format!("00-{TRACE}-{}-01", hex(&root.span_id)),
        "the response names the span"
    );
    for name in ["decode", "inference", "queue", "store"] {
        for span in named(&spans, name) {
            assert_eq!(span.parent_span_id, root.span_id, "{name}");
            assert!(span.start_time_unix_nano >= root.start_time_unix_nano);
            assert!(span.end_time_unix_nano <= root.end_time_unix_nano);
        }
    }
    // One row of the detector, and one of the embedder for each of the two faces. The faces can run together.
    let rows = named(&spans, "inference");
    assert_eq!(rows.len(), 3);
    let runs = named(&spans, "model run");
    let mut embedded = 0;
    for run in &runs {
        assert!(rows.iter().any(|row| row.span_id == run.parent_span_id));
        assert_eq!(attribute(run, "device").as_deref(), Some("cpu"));
        if attribute(run, "operation").as_deref() == Some("face_embedding") {
            embedded += 1 + run.links.len();
        }
    }
    assert_eq!(embedded, 2, "{runs:?}");
    assert_eq!(
        received.header("authorization").as_deref(),
        Some("Bearer of-the-collector")
    );

    // Each line of the request has its id and that of its trace, and no line has a span that is for traces only.
    let mut log = lines(&std::fs::read(&log).unwrap());
    log.retain(|line| line["span"]["trace_id"] == TRACE);
    assert!(!log.is_empty());
    for line in log {
        assert_eq!(line["span"]["name"], "request", "{line}");
        assert!(line["span"]["request_id"].is_string(), "{line}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stranger_cannot_choose_the_trace() {
    let (collector, received) = collector().await;
    let folder = tempfile::tempdir().unwrap();
    let server = Serving::start(
        traced(&collector, folder.path())
            .env("FACESCAN__TRACES__ACCEPT_TRACEPARENT", "false")
            .env("FACESCAN__TRACES__SAMPLE_RATIO", "0"),
    );
    let request = client().get(format!("{}/models", server.address));
    let response = send_in_trace(request, 200).await;
    assert!(
        !response.contains(TRACE) && response.ends_with("-00"),
        "{response}"
    );
    server.stop();
    assert!(received.spans.lock().unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_chunks_of_a_batch_are_linked_to_its_submission() {
    let (collector, received) = collector().await;
    let folder = tempfile::tempdir().unwrap();
    let server = Serving::start(
        traced(&collector, folder.path())
            .env("FACESCAN__URLS__ALLOW_PRIVATE", "true")
            .env("FACESCAN__URLS__SCHEMES", "[http]"),
    );
    let body = json!({
        "operation": "detect",
        "items": [photo("t1.jpg")],
        "webhook": {"url": format!("{collector}/told")},
    });
    let request = client()
        .post(format!("{}/batches", server.address))
        .json(&body);
    let submission = send_in_trace(request, 202).await;
    let told = async {
        while received.header("traceparent").is_none() {
            tokio::task::yield_now().await;
        }
    };
    timeout(Duration::from_secs(60), told).await.unwrap();
    assert_eq!(received.header("traceparent").unwrap(), submission);
    server.stop();
    let spans = received.spans.lock().unwrap().clone();
    let [chunk] = named(&spans, "process chunk")[..] else {
        panic!("{spans:?}")
    };
    assert_eq!(chunk.kind(), SpanKind::Consumer);
    assert_ne!(hex(&chunk.trace_id), TRACE);
    assert_eq!(hex(&chunk.links[0].trace_id), TRACE);
    let decoded = named(&spans, "decode");
    assert!(
        decoded
            .iter()
            .all(|span| span.parent_span_id == chunk.span_id)
    );
    assert_eq!(decoded.len(), 1);
}
