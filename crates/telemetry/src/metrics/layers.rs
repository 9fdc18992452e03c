//! What the layers below report: engines, remote servers and the store.

use std::{sync::Arc, time::Duration};

use facescan_inference::{
    health::Fault,
    metrics::{self, BatchRun},
};
use facescan_store::StoreMetrics;
use http::HeaderValue;
use tracing::Span;

use super::{
    DeviceLabels, FallbackLabels, Metrics, OperationLabels, RemoteRetryLabels, RemoteRunLabels,
    StoreLabels,
};
use crate::traces;

impl Metrics {
    /// Returns the metrics of one operation's engine.
    pub fn engine(&self, operation: &'static str) -> Arc<dyn metrics::EngineMetrics> {
        for fault in Fault::ALL {
            let reason = fault.name();
            let labels = FallbackLabels { operation, reason };
            self.fallback_rows.get_or_create(&labels).inc_by(0);
        }
        Arc::new(EngineMetrics {
            metrics: self.clone(),
            labels: OperationLabels { operation },
        })
    }

    /// Returns the metrics of one model on a remote server. `model` is the server's name of the model.
    pub fn remote(&self, model: &str) -> Arc<dyn metrics::RemoteMetrics> {
        Arc::new(RemoteMetrics {
            metrics: self.clone(),
            model: model.to_owned(),
        })
    }
}

impl StoreMetrics for Metrics {
    fn called(&self, call: &'static str, outcome: &'static str, elapsed: Duration) {
        let labels = StoreLabels { call, outcome };
        self.store_seconds
            .get_or_create(&labels)
            .observe(elapsed.as_secs_f64());
    }
}

struct RemoteMetrics {
    metrics: Metrics,
    model: String,
}

impl metrics::RemoteMetrics for RemoteMetrics {
    fn traceparent(&self) -> Option<HeaderValue> {
        traces::traceparent_header(&Span::current())
    }

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
    fn operation(&self) -> &'static str {
        self.labels.operation
    }

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
