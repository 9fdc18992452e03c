//! Shared by the tests of engines: a model that adds the two values of a row, and engines of it.

use std::num::NonZeroUsize;

use super::*;
use crate::{backend::Batch, metrics::recorder::Recorder, pool::CpuPool};
use facescan_clock::SystemClock;

pub(super) const ROW: [usize; 1] = [2];

/// Returns the sum of each row, as `[rows, 1]`.
pub(super) fn sums(batch: Batch<'_>) -> Vec<Tensor> {
    let rows = batch.data.chunks(batch.row_len());
    vec![Tensor {
        name: "sum".into(),
        shape: vec![batch.rows(), 1],
        data: rows.map(|row| row.iter().sum()).collect(),
    }]
}

pub(super) fn grouping(max_rows: usize, sizes: BatchSizes) -> Grouping {
    Grouping {
        max_rows: max_rows.try_into().unwrap(),
        sizes,
        max_delay: Duration::ZERO,
    }
}

/// Returns the parts of an engine that runs one row at a time on these sessions, and has a thread for each.
pub(super) fn parts(sessions: Vec<Box<dyn Session>>) -> EngineParts {
    let threads = NonZeroUsize::new(sessions.len()).unwrap();
    EngineParts {
        sessions: Sessions::own(sessions),
        grouping: grouping(1, BatchSizes::Any),
        device: None,
        usual_row_len: 2,
        pool: Arc::new(CpuPool::new(threads).unwrap()),
        clock: Arc::new(SystemClock::start()),
        metrics: Arc::<Recorder>::default(),
    }
}

/// Sends the row `[value, 1]`.
pub(super) fn send(engine: &Engine, value: f32) -> Pending {
    let mut row = engine.claim(&ROW);
    row.values().copy_from_slice(&[value, 1.0]);
    row.commit()
}

pub(super) fn sum_of(output: &RowOutput) -> f32 {
    output.outputs[0].row(output.row)[0]
}
