//! Measures the calls of a store, ends those that take too long, and warns about those that fail.

use std::{
    error::Error as _,
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use facescan_clock::{Clock, SystemClock};
use tracing::{Span, field::Empty};

use crate::error::StoreError;

/// Receives the time and the outcome of each call.
pub trait StoreMetrics: Send + Sync {
    /// A call ended. `outcome` is `ok`, `unavailable` or `error`.
    fn called(&self, call: &'static str, outcome: &'static str, elapsed: Duration);
}

impl StoreMetrics for () {
    fn called(&self, _call: &'static str, _outcome: &'static str, _elapsed: Duration) {}
}

/// Reports the calls of a store.
pub struct Observer {
    clock: Arc<dyn Clock>,
    metrics: Arc<dyn StoreMetrics>,
    was_unavailable: AtomicBool,
}

impl Observer {
    /// Creates an observer that reports to `metrics`.
    pub fn new(clock: Arc<dyn Clock>, metrics: Arc<dyn StoreMetrics>) -> Self {
        Self {
            clock,
            metrics,
            was_unavailable: AtomicBool::new(false),
        }
    }

    /// Runs a call, at most for `limit`.
    pub(crate) async fn observe<T>(
        &self,
        name: &'static str,
        limit: Option<Duration>,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let span = span(name);
        let started_at = self.clock.monotonic();
        let result = match limit {
            None => call.await,
            Some(limit) => tokio::time::timeout(limit, call)
                .await
                .unwrap_or_else(|_| Err(timed_out(limit))),
        };
        let elapsed = self.clock.monotonic().saturating_sub(started_at);
        self.report(name, span, elapsed, result.as_ref().err());
        result
    }

    fn report(
        &self,
        name: &'static str,
        span: Span,
        elapsed: Duration,
        error: Option<&StoreError>,
    ) {
        if error.is_some() {
            span.record("otel.status_code", "error");
        }
        drop(span);
        let outcome = match error {
            None => "ok",
            Some(error) if error.is_unavailable() => "unavailable",
            Some(_) => "error",
        };
        self.metrics.called(name, outcome, elapsed);
        match error {
            None => {
                if self.was_unavailable.swap(false, Ordering::Relaxed) {
                    tracing::info!(call = name, "the database answers again");
                }
            }
            Some(error) => {
                let cause = error.source().map(ToString::to_string).unwrap_or_default();
                // Warns about each failed call, so that the log of every request id has the cause.
                tracing::warn!(call = name, %error, cause, "a store call failed");
                self.was_unavailable
                    .fetch_or(error.is_unavailable(), Ordering::Relaxed);
            }
        }
    }
}

impl Default for Observer {
    /// Creates an observer without metrics.
    fn default() -> Self {
        Self::new(Arc::new(SystemClock::start()), Arc::new(()))
    }
}

fn span(name: &'static str) -> Span {
    tracing::info_span!(
        target: "otlp",
        "store",
        otel.kind = "client",
        otel.status_code = Empty,
        call = name,
    )
}

/// Returns the error of a call that took longer than `limit`.
pub(crate) fn timed_out(limit: Duration) -> StoreError {
    let text = format!("the call took longer than {limit:?}");
    StoreError::Unavailable(sqlx::Error::Io(io::Error::new(
        io::ErrorKind::TimedOut,
        text,
    )))
}
