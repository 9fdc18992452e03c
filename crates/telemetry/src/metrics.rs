//! The metrics of the server, with their help texts. `GET /metrics` returns them in the Prometheus text format.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use prometheus_client::{
    encoding::{EncodeLabelSet, text::encode},
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::{Metric, Registry, Unit},
};
use sysinfo::{ProcessRefreshKind, ProcessesToUpdate, System};

use self::labels::{Limit, Refusal};
use facescan_inference::{device::DeviceState, pool::PoolLoad};
use facescan_store::ConnectionCounts;

mod batches;
mod connections;
pub mod labels;
mod layers;

/// The buckets of durations in seconds, from one run of a small graph to the longest request.
const SECONDS: [f64; 14] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0,
];

/// The buckets of the number of rows of a batch.
const ROWS: [f64; 8] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0];

/// Updates a gauge. It runs just before the gauges are written.
type Reader = Box<dyn Fn() + Send + Sync>;

/// Declares each metric once: its field, its type, its name with an optional unit, and its help text. The struct, its
/// registration and its documentation follow from it.
macro_rules! metrics {
    ($($field:ident: $type:ty = $new:expr, $name:literal $([$unit:ident])?, $help:literal;)+) => {
        /// The server's metrics. Cheap to clone.
        #[derive(Clone)]
        pub struct Metrics {
            registry: Arc<Registry>,
            /// Update the gauges whose values are read on demand.
            readers: Arc<Mutex<Vec<Reader>>>,
            $(#[doc = $help] $field: $type,)+
        }

        impl Default for Metrics {
            fn default() -> Self {
                let mut registry = Registry::with_prefix("facescan");
                $(
                    let $field: $type = $new;
                    let units: Vec<Unit> = vec![$(Unit::$unit)?];
                    register(&mut registry, $name, units.into_iter().next(), $help, &$field);
                )+
                let metrics = Self { registry: Arc::new(registry), readers: Arc::default(), $($field,)+ };
                metrics.create_known();
                metrics
            }
        }
    };
}

fn register(
    registry: &mut Registry,
    name: &str,
    unit: Option<Unit>,
    help: &str,
    metric: &(impl Metric + Clone),
) {
    match unit {
        Some(unit) => registry.register_with_unit(name, help, unit, metric.clone()),
        None => registry.register(name, help, metric.clone()),
    }
}

type Histograms<Labels> = Family<Labels, Histogram, fn() -> Histogram>;

fn seconds() -> Histogram {
    Histogram::new(SECONDS)
}

fn rows() -> Histogram {
    Histogram::new(ROWS)
}

metrics! {
    requests: Family<RequestLabels, Counter> = Family::default(),
        "requests", "Requests answered, by route and status";
    request_seconds: Histograms<RouteLabels> = Family::new_with_constructor(seconds),
        "request" [Seconds], "Time from a request's head to its response, by route";
    connections: Gauge = Gauge::default(),
        "connections", "Connections that are open";
    connections_closed: Family<ReasonLabels, Counter> = Family::default(),
        "connections_closed", "Connections closed because of server.max_connections, by reason: made_room or refused";
    refused: Family<ReasonLabels, Counter> = Family::default(),
        "refused", "Requests refused with 429 and images not fetched, by the exhausted budget or limit";
    limits: Family<LimitLabels, Gauge> = Family::default(),
        "limit", "The settings that limit what is admitted, by name: interactive_images, bulk_images, body_bytes or store_connections";
    ready: Gauge = Gauge::default(),
        "ready", "1 if the last check of readiness found nothing against it, otherwise 0";
    in_flight: Family<PriorityLabels, Gauge> = Family::default(),
        "images_in_flight", "Images that are admitted and not yet answered, by priority";
    images_waiting: Family<PriorityLabels, Gauge> = Family::default(),
        "images_waiting", "Images that wait for a permit to be decoded, by priority";
    image_wait_seconds: Histograms<PriorityLabels> = Family::new_with_constructor(seconds),
        "image_wait" [Seconds], "Time that an image waited for a permit to be decoded, by priority";
    stage_seconds: Histograms<StageLabels> = Family::new_with_constructor(seconds),
        "stage" [Seconds], "Time of one stage of one image, by stage; stages that did not run are not counted";
    batch_rows: Histograms<OperationLabels> = Family::new_with_constructor(rows),
        "batch_rows", "Rows of many requests that ran together, by operation";
    run_seconds: Histograms<OperationLabels> = Family::new_with_constructor(seconds),
        "run" [Seconds], "Time of one run of a model, by operation";
    batch_wait_seconds: Histograms<OperationLabels> = Family::new_with_constructor(seconds),
        "batch_wait" [Seconds], "Time that a batch's first row waited for its run, by operation";
    rows_waiting: Family<OperationLabels, Gauge> = Family::default(),
        "rows_waiting", "Rows that wait to run, by operation";
    cpu_pool_waiting: Gauge = Gauge::default(),
        "cpu_pool_jobs_waiting", "Jobs that wait for a thread of the CPU pool";
    cpu_pool_busy: Gauge = Gauge::default(),
        "cpu_pool_busy_threads", "Threads of the CPU pool that run a job";
    rows_skipped: Family<OperationLabels, Counter> = Family::default(),
        "rows_skipped", "Rows that were not run because their callers had left, by operation";
    rows: Family<DeviceLabels, Counter> = Family::default(),
        "rows", "Rows that ran, by operation and by what ran them";
    fallback_rows: Family<FallbackLabels, Counter> = Family::default(),
        "fallback_rows", "Rows meant for a device that ran on the CPU, by operation and reason";
    operation_device: Family<OperationDeviceLabels, Gauge> = Family::default(),
        "operation_device", "1 for the device that the settings request for an operation and the device in use";
    store_seconds: Histograms<StoreLabels> = Family::new_with_constructor(seconds),
        "store" [Seconds], "Time of one call of the database, by call and outcome";
    store_connections: Family<StateLabels, Gauge> = Family::default(),
        "store_connections", "Connections to the database, by state";
    fetches: Family<OutcomeLabels, Counter> = Family::default(),
        "fetches", "Images fetched from URLs, by outcome; a fetch is abandoned if its caller has left";
    fetch_seconds: Histogram = seconds(),
        "fetch" [Seconds], "Time of fetching one image from a URL, for every outcome";
    remote_runs: Family<RemoteRunLabels, Counter> = Family::default(),
        "remote_runs", "Runs of models on remote servers, by the server's name of the model and outcome";
    remote_retries: Family<RemoteRetryLabels, Counter> = Family::default(),
        "remote_retries", "Repeated requests to remote servers, by the server's name of the model and reason";
    batch_items: Family<OutcomeLabels, Counter> = Family::default(),
        "batch_items", "Attempts of items of batches, by outcome: ok, error, dead or retry";
    batch_queue_items: Family<StateLabels, Gauge> = Family::default(),
        "batch_queue_items", "Items of unfinished batches in the database, by state: queued or running";
    batch_oldest: Gauge = Gauge::default(),
        "batch_oldest_chunk" [Seconds], "Time that the oldest chunk that is ready has waited for a worker";
    batch_leases_lost: Counter = Counter::default(),
        "batch_leases_lost", "Leases that a worker of this process lost before it saved its results";
    webhook_messages: Family<OutcomeLabels, Counter> = Family::default(),
        "webhook_messages", "Attempts to deliver messages of webhooks, by outcome: delivered, retry or failed";
    webhooks_disabled: Counter = Counter::default(),
        "webhooks_disabled", "Webhooks that were switched off because their addresses failed";
    sweeps_failed: Family<SweepLabels, Counter> = Family::default(),
        "sweeps_failed", "Sweeps in the background that failed and are repeated, by sweep: audit_heads, batches, clusterings, collections, erasures, retention or webhooks";
    resident_memory: Gauge = Gauge::default(),
        "process_resident_memory" [Bytes], "Memory of the process that is in use";
    build_info: Family<BuildLabels, Gauge> = Family::default(),
        "build_info", "1 for the version of the program";
}

/// Declares sets of labels.
macro_rules! labels {
    ($($labels:ident { $($label:ident: $type:ty),+ })+) => {
        $(
            #[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
            struct $labels {
                $($label: $type,)+
            }
        )+
    };
}

labels! {
    OutcomeLabels { outcome: &'static str }
    RequestLabels { route: String, status: u16 }
    RouteLabels { route: String }
    ReasonLabels { reason: &'static str }
    LimitLabels { name: &'static str }
    SweepLabels { sweep: &'static str }
    PriorityLabels { priority: &'static str }
    StageLabels { stage: &'static str }
    OperationDeviceLabels { operation: &'static str, requested: String, active: String }
    StoreLabels { call: &'static str, outcome: &'static str }
    StateLabels { state: &'static str }
    BuildLabels { version: &'static str }
    OperationLabels { operation: &'static str }
    DeviceLabels { operation: &'static str, device: &'static str }
    FallbackLabels { operation: &'static str, reason: &'static str }
    RemoteRunLabels { model: String, outcome: &'static str }
    RemoteRetryLabels { model: String, reason: &'static str }
}

impl Metrics {
    /// Returns all metrics in the Prometheus text format.
    ///
    /// # Errors
    /// Never fails in practice, because it writes to memory.
    pub fn text(&self) -> Result<String, fmt::Error> {
        for read in self.readers().iter() {
            read();
        }
        let memory = resident_memory().unwrap_or_default();
        self.resident_memory.set(memory.cast_signed());
        let version = env!("CARGO_PKG_VERSION");
        let labels = BuildLabels { version };
        self.build_info.get_or_create(&labels).set(1);
        let mut text = String::new();
        encode(&mut text, &self.registry)?;
        Ok(text)
    }

    /// Reads the number of waiting rows of an operation's engine from `depth` whenever the metrics are read.
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

    /// Reads the load of the CPU pool from `load` whenever the metrics are read.
    pub fn watch_pool(&self, load: impl Fn() -> PoolLoad + Send + Sync + 'static) {
        let (waiting, busy) = (self.cpu_pool_waiting.clone(), self.cpu_pool_busy.clone());
        self.readers().push(Box::new(move || {
            let load = load();
            waiting.set(load.waiting as i64);
            busy.set(load.busy as i64);
        }));
    }

    /// Reads the number of images that wait at each priority from `depths` whenever the metrics are read.
    pub fn watch_priorities<const N: usize>(
        &self,
        depths: impl Fn() -> [(&'static str, usize); N] + Send + Sync + 'static,
    ) {
        let waiting = self.images_waiting.clone();
        self.readers().push(Box::new(move || {
            for (priority, depth) in depths() {
                let gauge = waiting.get_or_create(&PriorityLabels { priority });
                gauge.set(depth as i64);
            }
        }));
    }

    /// Reads the devices of the operations from `states` whenever the metrics are read.
    pub fn watch_devices<I>(&self, states: impl Fn() -> I + Send + Sync + 'static)
    where
        I: IntoIterator<Item = (&'static str, DeviceState)>,
    {
        let devices = self.operation_device.clone();
        self.readers().push(Box::new(move || {
            // The device that was in use before keeps no series.
            devices.clear();
            for (operation, state) in states() {
                let labels = OperationDeviceLabels {
                    operation,
                    requested: state.requested,
                    active: state.active,
                };
                devices.get_or_create(&labels).set(1);
            }
        }));
    }

    /// Reads the connections of the database from `status` whenever the metrics are read.
    pub fn watch_store(&self, status: impl Fn() -> ConnectionCounts + Send + Sync + 'static) {
        let connections = self.store_connections.clone();
        self.readers().push(Box::new(move || {
            let pool = status();
            let busy = pool.open.saturating_sub(pool.idle);
            for (state, count) in [("idle", pool.idle), ("busy", busy)] {
                let gauge = connections.get_or_create(&StateLabels { state });
                gauge.set(count as i64);
            }
        }));
    }

    fn readers(&self) -> MutexGuard<'_, Vec<Reader>> {
        self.readers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts an answered request and its duration.
    pub fn answered(&self, route: &str, status: u16, elapsed: Duration) {
        let route = route.to_owned();
        self.request_seconds
            .get_or_create(&RouteLabels {
                route: route.clone(),
            })
            .observe(elapsed.as_secs_f64());
        let labels = RequestLabels { route, status };
        self.requests.get_or_create(&labels).inc();
    }

    /// Creates the counters whose labels are known. Prometheus computes no increase from a counter that begins above 0.
    fn create_known(&self) {
        for &reason in Refusal::NAMES {
            let labels = ReasonLabels { reason };
            self.refused.get_or_create(&labels).inc_by(0);
        }
        self.create_known_of_batches();
        self.create_known_of_connections();
    }

    /// Records a setting that limits what is admitted.
    pub fn limit(&self, limit: Limit, value: usize) {
        let name = limit.name();
        let labels = LimitLabels { name };
        self.limits
            .get_or_create(&labels)
            .set(i64::try_from(value).unwrap_or(i64::MAX));
    }

    /// Records the outcome of a check of readiness.
    pub fn checked_readiness(&self, is_ready: bool) {
        self.ready.set(i64::from(is_ready));
    }

    /// Counts a refused request or image.
    pub fn refused(&self, refusal: Refusal) {
        let reason = refusal.name();
        self.refused.get_or_create(&ReasonLabels { reason }).inc();
    }

    /// Changes the number of admitted images of a priority by `change`.
    pub fn admitted(&self, priority: &'static str, change: i64) {
        let labels = PriorityLabels { priority };
        self.in_flight.get_or_create(&labels).inc_by(change);
    }

    /// Records how long an image waited for a permit.
    pub fn waited(&self, priority: &'static str, elapsed: Duration) {
        let labels = PriorityLabels { priority };
        self.image_wait_seconds
            .get_or_create(&labels)
            .observe(elapsed.as_secs_f64());
    }

    /// Records the stages of an image, in milliseconds. A stage of 0 did not run.
    pub fn staged(&self, stages: impl IntoIterator<Item = (&'static str, f64)>) {
        for (stage, milliseconds) in stages {
            if milliseconds > 0.0 {
                let labels = StageLabels { stage };
                self.stage_seconds
                    .get_or_create(&labels)
                    .observe(milliseconds / 1e3);
            }
        }
    }

    /// Counts a finished fetch of one image and its duration.
    pub fn fetched(&self, outcome: &'static str, elapsed: Duration) {
        self.fetches.get_or_create(&OutcomeLabels { outcome }).inc();
        self.fetch_seconds.observe(elapsed.as_secs_f64());
    }
}

/// Returns the resident memory of this process in bytes, or `None` if the system does not tell.
pub fn resident_memory() -> Option<u64> {
    let id = sysinfo::get_current_pid().ok()?;
    let mut system = System::new();
    let (processes, memory) = (
        ProcessesToUpdate::Some(&[id]),
        ProcessRefreshKind::nothing().with_memory(),
    );
    system.refresh_processes_specifics(processes, false, memory);
    Some(system.process(id)?.memory())
}

#[cfg(test)]
mod tests {
    use facescan_inference::metrics::BatchRun;

    use super::*;

    #[test]
    fn watched_gauges_are_read_with_the_metrics() {
        let metrics = Metrics::default();
        metrics.watch_queue("face_detection", || 7);
        metrics.watch_pool(|| PoolLoad {
            waiting: 3,
            busy: 2,
        });
        metrics.watch_priorities(|| [("interactive", 4)]);
        metrics.watch_store(|| ConnectionCounts { open: 5, idle: 2 });
        metrics.watch_devices(|| {
            let state = DeviceState {
                requested: "cuda:0".to_owned(),
                active: "cpu".to_owned(),
                reason: None,
            };
            [("face_detection", state)]
        });
        let text = metrics.text().unwrap();
        for line in [
            r#"facescan_images_waiting{priority="interactive"} 4"#,
            r#"facescan_store_connections{state="busy"} 3"#,
            r#"facescan_operation_device{operation="face_detection",requested="cuda:0",active="cpu"} 1"#,
            concat!(
                "facescan_build_info{version=\"",
                env!("CARGO_PKG_VERSION"),
                "\"} 1"
            ),
            r#"facescan_rows_waiting{operation="face_detection"} 7"#,
            "facescan_cpu_pool_jobs_waiting 3",
            "facescan_cpu_pool_busy_threads 2",
        ] {
            assert!(text.lines().any(|it| it == line), "{line} is not in {text}");
        }
    }

    #[test]
    fn a_batch_is_counted_with_its_waiting_time() {
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
