//! Every metric of the server, with its help text. `GET /metrics` writes them in Prometheus' text form.

use std::{fmt, sync::Arc, time::Duration};

use prometheus_client::{
    encoding::{EncodeLabelSet, text::encode},
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::{Registry, Unit},
};

use facescan_inference::metrics;

/// Seconds, from what a small graph takes to the longest request.
const SECONDS: [f64; 14] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0,
];

/// Rows of a batch.
const ROWS: [f64; 8] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0];

/// The server's metrics. Cheap to clone.
#[derive(Clone)]
pub struct Metrics {
    registry: Arc<Registry>,
    requests: Family<RequestLabels, Counter>,
    request_seconds: Family<RouteLabels, Histogram>,
    refused: Family<ReasonLabels, Counter>,
    in_flight: Family<PriorityLabels, Gauge>,
    batch_rows: Family<OperationLabels, Histogram>,
    run_seconds: Family<OperationLabels, Histogram>,
    rows_skipped: Family<OperationLabels, Counter>,
    rows: Family<DeviceLabels, Counter>,
    fallback_rows: Family<FallbackLabels, Counter>,
    remote_runs: Family<RemoteRunLabels, Counter>,
    remote_retries: Family<RemoteRetryLabels, Counter>,
    fetches: Family<OutcomeLabels, Counter>,
    fetch_seconds: Histogram,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabels {
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    route: String,
    status: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RouteLabels {
    route: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabels {
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PriorityLabels {
    priority: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OperationLabels {
    operation: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DeviceLabels {
    operation: &'static str,
    device: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FallbackLabels {
    operation: &'static str,
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RemoteRunLabels {
    model: String,
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RemoteRetryLabels {
    model: String,
    reason: &'static str,
}

fn seconds() -> Histogram {
    Histogram::new(SECONDS)
}

impl Default for Metrics {
    fn default() -> Self {
        let requests = Family::default();
        let request_seconds = Family::new_with_constructor(seconds as fn() -> Histogram);
        let refused = Family::default();
        let in_flight = Family::default();
        let batch_rows =
            Family::new_with_constructor((|| Histogram::new(ROWS)) as fn() -> Histogram);
        let run_seconds = Family::new_with_constructor(seconds as fn() -> Histogram);
        let rows_skipped = Family::default();
        let rows = Family::default();
        let fallback_rows = Family::default();
        let fetches = Family::default();
        let fetch_seconds = seconds();
        let remote_runs = Family::default();
        let remote_retries = Family::default();

        let mut registry = Registry::with_prefix("facescan");
        registry.register(
            "requests",
            "Requests answered, by route and status",
            requests.clone(),
        );
        registry.register_with_unit(
            "request",
            "Time from a request's head to its answer, by route",
            Unit::Seconds,
            request_seconds.clone(),
        );
        registry.register(
            "refused",
            "Requests refused with 429, by what was full",
            refused.clone(),
        );
        registry.register(
            "images_in_flight",
            "Images that are admitted and not yet answered, by priority",
            in_flight.clone(),
        );
        registry.register(
            "batch_rows",
            "Rows of many requests that ran together, by operation",
            batch_rows.clone(),
        );
        registry.register_with_unit(
            "run",
            "Time of one run of a model, by operation",
            Unit::Seconds,
            run_seconds.clone(),
        );
        registry.register(
            "rows_skipped",
            "Rows that were not run because their callers had left, by operation",
            rows_skipped.clone(),
        );
        registry.register(
            "rows",
            "Rows that ran, by operation and by what ran them",
            rows.clone(),
        );
        registry.register(
            "fallback_rows",
            "Rows meant for a device that ran on the CPU, by operation and reason",
            fallback_rows.clone(),
        );
        registry.register(
            "fetches",
            "Images fetched from URLs, by outcome; abandoned is one whose caller has left",
            fetches.clone(),
        );
        registry.register_with_unit(
            "fetch",
            "Time of fetching one image from a URL, whatever the outcome",
            Unit::Seconds,
            fetch_seconds.clone(),
        );
        registry.register(
            "remote_runs",
            "Runs of models on remote servers, by the server's name of the model and outcome",
            remote_runs.clone(),
        );
        registry.register(
            "remote_retries",
            "Requests to remote servers that were made again, by the server's name of the model and reason",
            remote_retries.clone(),
        );
        Self {
            registry: Arc::new(registry),
            requests,
            request_seconds,
            refused,
            in_flight,
            batch_rows,
            run_seconds,
            rows_skipped,
            rows,
            fallback_rows,
            fetches,
            fetch_seconds,
            remote_runs,
            remote_retries,
        }
    }
}

impl Metrics {
    /// Everything in Prometheus' text form.
    ///
    /// # Errors
    /// None in practice: the text is written to memory.
    pub fn text(&self) -> Result<String, fmt::Error> {
        let mut text = String::new();
        encode(&mut text, &self.registry)?;
        Ok(text)
    }

    /// A request was answered.
    pub fn answered(&self, route: &str, status: u16, elapsed: Duration) {
        let route = route.to_owned();
        self.request_seconds
            .get_or_create(&RouteLabels {
                route: route.clone(),
            })
            .observe(elapsed.as_secs_f64());
        self.requests
            .get_or_create(&RequestLabels { route, status })
            .inc();
    }

    /// A request was refused because `reason` was full.
    pub fn refused(&self, reason: &'static str) {
        self.refused.get_or_create(&ReasonLabels { reason }).inc();
    }

    /// The number of admitted images of a priority changed.
    pub fn admitted(&self, priority: &'static str, change: i64) {
        self.in_flight
            .get_or_create(&PriorityLabels { priority })
            .inc_by(change);
    }

    /// A fetch of one image is over.
    pub fn fetched(&self, outcome: &'static str, elapsed: Duration) {
        self.fetches.get_or_create(&OutcomeLabels { outcome }).inc();
        self.fetch_seconds.observe(elapsed.as_secs_f64());
    }

    /// The metrics of one operation's engine.
    pub fn engine(&self, operation: &'static str) -> Arc<dyn metrics::EngineMetrics> {
        Arc::new(EngineMetrics {
            metrics: self.clone(),
            labels: OperationLabels { operation },
        })
    }

    /// The metrics of one model on a remote server, by the server's name of the model.
    pub fn remote(&self, model: &str) -> Arc<dyn metrics::RemoteMetrics> {
        Arc::new(RemoteMetrics {
            metrics: self.clone(),
            model: model.to_owned(),
        })
    }
}

struct RemoteMetrics {
    metrics: Metrics,
    model: String,
}

impl metrics::RemoteMetrics for RemoteMetrics {
    fn ran(&self, outcome: &'static str) {
        self.metrics
            .remote_runs
            .get_or_create(&RemoteRunLabels {
                model: self.model.clone(),
                outcome,
            })
            .inc();
    }

    fn retried(&self, reason: &'static str) {
        self.metrics
            .remote_retries
            .get_or_create(&RemoteRetryLabels {
                model: self.model.clone(),
                reason,
            })
            .inc();
    }
}

struct EngineMetrics {
    metrics: Metrics,
    labels: OperationLabels,
}

impl metrics::EngineMetrics for EngineMetrics {
    fn ran(&self, device: &'static str, rows: usize, elapsed: Duration) {
        self.metrics
            .rows
            .get_or_create(&DeviceLabels {
                operation: self.labels.operation,
                device,
            })
            .inc_by(rows as u64);
        self.metrics
            .batch_rows
            .get_or_create(&self.labels)
            .observe(rows as f64);
        self.metrics
            .run_seconds
            .get_or_create(&self.labels)
            .observe(elapsed.as_secs_f64());
    }

    fn fell_back(&self, reason: &'static str, rows: usize) {
        self.metrics
            .fallback_rows
            .get_or_create(&FallbackLabels {
                operation: self.labels.operation,
                reason,
            })
            .inc_by(rows as u64);
    }

    fn skipped(&self, rows: usize) {
        if rows > 0 {
            self.metrics
                .rows_skipped
                .get_or_create(&self.labels)
                .inc_by(rows as u64);
        }
    }
}
