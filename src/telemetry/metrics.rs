//! Every metric of the server, with its help text. `GET /metrics` writes them in Prometheus' text form.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use prometheus_client::{
    encoding::{EncodeLabelSet, text::encode},
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::{Registry, Unit},
};

use facescan_inference::{
    metrics::{self, BatchRun},
    pool::PoolLoad,
};

/// Seconds, from what a small graph takes to the longest request.
const SECONDS: [f64; 14] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0,
];

/// Rows of a batch.
const ROWS: [f64; 8] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0];

/// Sets a gauge from the value that it shows, just before the gauges are written.
type Reader = Box<dyn Fn() + Send + Sync>;

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
    batch_wait_seconds: Family<OperationLabels, Histogram>,
    rows_waiting: Family<OperationLabels, Gauge>,
    cpu_pool_waiting: Gauge,
    cpu_pool_busy: Gauge,
    /// Sets the gauges whose values are read only when the metrics are.
    readers: Arc<Mutex<Vec<Reader>>>,
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
        let batch_wait_seconds = Family::new_with_constructor(seconds as fn() -> Histogram);
        let rows_waiting = Family::default();
        let cpu_pool_waiting = Gauge::default();
        let cpu_pool_busy = Gauge::default();
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
        registry.register_with_unit(
            "batch_wait",
            "Time that a batch's first row waited for its run, by operation",
            Unit::Seconds,
            batch_wait_seconds.clone(),
        );
        registry.register(
            "rows_waiting",
            "Rows that wait to run, by operation",
            rows_waiting.clone(),
        );
        registry.register(
            "cpu_pool_jobs_waiting",
            "Jobs that wait for a thread of the CPU pool",
            cpu_pool_waiting.clone(),
        );
        registry.register(
            "cpu_pool_busy_threads",
            "Threads of the CPU pool that run a job",
            cpu_pool_busy.clone(),
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
            batch_wait_seconds,
            rows_waiting,
            cpu_pool_waiting,
            cpu_pool_busy,
            readers: Arc::default(),
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
        for read in self.readers().iter() {
            read();
        }
        let mut text = String::new();
        encode(&mut text, &self.registry)?;
        Ok(text)
    }

    /// Reads the rows that wait for an operation's engine from `depth` whenever the metrics are read.
    pub fn watch_queue(
        &self,
        operation: &'static str,
        depth: impl Fn() -> usize + Send + Sync + 'static,
    ) {
        let gauge = self
            .rows_waiting
            .get_or_create(&OperationLabels { operation })
            .clone();
        self.readers().push(Box::new(move || {
            gauge.set(depth() as i64);
        }));
    }

    /// Reads how busy the CPU pool is from `load` whenever the metrics are read.
    pub fn watch_pool(&self, load: impl Fn() -> PoolLoad + Send + Sync + 'static) {
        let (waiting, busy) = (self.cpu_pool_waiting.clone(), self.cpu_pool_busy.clone());
        self.readers().push(Box::new(move || {
            let load = load();
            waiting.set(load.waiting as i64);
            busy.set(load.busy as i64);
        }));
    }

    fn readers(&self) -> MutexGuard<'_, Vec<Reader>> {
        self.readers.lock().unwrap_or_else(PoisonError::into_inner)
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
    fn ran(&self, run: BatchRun) {
        self.metrics
            .rows
            .get_or_create(&DeviceLabels {
                operation: self.labels.operation,
                device: run.device,
            })
            .inc_by(run.rows as u64);
        self.metrics
            .batch_rows
            .get_or_create(&self.labels)
            .observe(run.rows as f64);
        self.metrics
            .batch_wait_seconds
            .get_or_create(&self.labels)
            .observe(run.queued.as_secs_f64());
        self.metrics
            .run_seconds
            .get_or_create(&self.labels)
            .observe(run.elapsed.as_secs_f64());
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watched_gauges_are_read_with_the_metrics() {
        let metrics = Metrics::default();
        metrics.watch_queue("face_detection", || 7);
        metrics.watch_pool(|| PoolLoad {
            waiting: 3,
            busy: 2,
        });
        let text = metrics.text().unwrap();
        for line in [
            r#"facescan_rows_waiting{operation="face_detection"} 7"#,
            "facescan_cpu_pool_jobs_waiting 3",
            "facescan_cpu_pool_busy_threads 2",
        ] {
            assert!(text.lines().any(|it| it == line), "{line} is not in {text}");
        }
    }

    #[test]
    fn a_batch_is_counted_with_its_wait() {
        let metrics = Metrics::default();
        metrics.engine("face_detection").ran(BatchRun {
            device: "cpu",
            rows: 3,
            queued: Duration::from_millis(20),
            elapsed: Duration::from_millis(40),
        });
        let text = metrics.text().unwrap();
        for line in [
            r#"facescan_rows_total{operation="face_detection",device="cpu"} 3"#,
            r#"facescan_batch_wait_seconds_sum{operation="face_detection"} 0.02"#,
            r#"facescan_run_seconds_sum{operation="face_detection"} 0.04"#,
        ] {
            assert!(text.lines().any(|it| it == line), "{line} is not in {text}");
        }
    }
}
