//! Spans of rows and runs for traces. Nothing enters them, so the log has the span of the request.
//!
//! A run is a child of its first row, which waited longest. It is linked to the others.

use tracing::{Span, field::Empty, info_span};

use super::SubBatch;
use crate::placement::DevicePlacement;

/// Returns the span of a row that waits to run. It belongs to the current request.
pub(super) fn row_span(operation: &'static str) -> Span {
    info_span!(
        target: "otlp",
        "inference",
        operation,
        device = Empty,
        rows = Empty,
        otel.status_code = Empty,
    )
}

/// Returns the span of one run of a sub-batch.
pub(super) fn run_span(operation: &'static str, sub_batch: &SubBatch) -> Span {
    let mut rows = sub_batch.callers.iter().map(|(reply, _)| &reply.span);
    let first = rows.next().cloned().unwrap_or_else(Span::none);
    let run = info_span!(
        target: "otlp",
        parent: &first,
        "model run",
        operation,
        device = Empty,
        rows = Empty,
        otel.status_code = Empty,
    );
    for row in rows {
        run.follows_from(row);
    }
    run
}

/// Records where rows ran, how many ran together, and whether the run succeeded.
pub(super) fn record(span: &Span, ran_on: DevicePlacement, rows: usize, is_ok: bool) {
    if span.is_disabled() {
        return;
    }
    span.record("device", ran_on.provider.name());
    span.record("rows", rows);
    if !is_ok {
        span.record("otel.status_code", "error");
    }
}
