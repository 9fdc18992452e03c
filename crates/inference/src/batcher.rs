//! Decides which rows run together.
//!
//! The caller of a row claims it, writes it and commits it. Rows of one shape and one route share a batch buffer until
//! it is full. A buffer is ready when none of its rows is being written, and it is full or its first row has waited for
//! `max_delay`. When a session takes a ready buffer, rows whose callers have left are dropped. This module neither
//! waits nor runs anything: it is the state that an engine keeps behind a lock.

use std::{collections::VecDeque, ops::Range, sync::Arc, time::Duration};

use tracing::Span;

use crate::batch_buffer::{BatchBuffer, RowMemory};

pub use grouping::{BatchSizes, Grouping};
pub(super) use grouping::{Route, RouteGroupings};

mod grouping;

/// The reply that a row's caller waits for.
pub(super) trait Reply {
    /// Returns whether the caller has left.
    fn is_abandoned(&self) -> bool;
}

/// The state of one engine's rows. `R` replies to a row's caller.
pub(super) struct Batcher<R> {
    groupings: RouteGroupings,
    /// The route of newly claimed rows. If it is the CPU, the CPU may also run the rows that were claimed for the device.
    pub route: Route,
    /// The open buffers, oldest first.
    open: VecDeque<OpenBuffer<R>>,
    /// The buffers that are kept for reuse, least recently used first.
    spare: VecDeque<BatchBuffer>,
    max_spare: usize,
    /// A larger buffer is freed after use, because few requests have rows of its size.
    max_spare_bytes: usize,
    next_id: u64,
}

/// The shape of one row, such as `[3, 640, 640]`.
pub(super) type RowShape = Arc<[usize]>;

/// A buffer that no session has taken yet.
struct OpenBuffer<R> {
    id: u64,
    route: Route,
    shape: RowShape,
    buffer: BatchBuffer,
    rows: Vec<RowState<R>>,
    opened_at: Duration,
    span: Span,
}

enum RowState<R> {
    /// The caller has the memory.
    Writing,
    Committed(CommittedRow<R>),
    /// The caller dropped the row.
    GivenUp(RowMemory),
}

struct CommittedRow<R> {
    memory: RowMemory,
    reply: R,
    committed_at: Duration,
}

/// Identifies a claimed row.
#[derive(Debug)]
pub(super) struct RowSlot {
    buffer: u64,
    row: usize,
    /// The route for which the row was claimed.
    pub route: Route,
}

/// A row for its caller to write.
pub(super) struct ClaimedRow {
    pub slot: RowSlot,
    pub memory: RowMemory,
    /// Whether this is the first row of its buffer, which starts the wait of at most `max_delay`.
    pub opens_buffer: bool,
}

/// The rows of a ready batch in memory.
#[derive(Debug)]
pub(super) struct StagedRows {
    pub shape: RowShape,
    buffer: BatchBuffer,
    /// The end of the rows that may run. The last of them can be padding, which is zero.
    pub end: usize,
    /// Whether the buffer is too large to be kept for later rows.
    pub is_oversized: bool,
    /// The span of the first row's caller.
    pub span: Span,
}

impl StagedRows {
    /// Returns the values of some rows.
    pub fn values(&self, rows: Range<usize>) -> &[f32] {
        self.buffer.values(rows)
    }
}

/// A batch that can run.
pub(super) struct ReadyBatch<R> {
    pub staged: StagedRows,
    /// The caller of each row in order, and when the row was committed.
    pub callers: Vec<(R, Duration)>,
}

/// The result of asking for a batch.
pub(super) struct NextBatch<R> {
    /// `None` if no batch is ready.
    pub batch: Option<ReadyBatch<R>>,
    /// The number of rows that were dropped because their callers had left.
    pub skipped: usize,
}

impl<R: Reply> Batcher<R> {
    /// Creates a batcher that keeps up to `max_spare` buffers for reuse. It frees a buffer after use if the buffer is
    /// larger than a full buffer of rows with `usual_row_len` values.
    pub fn new(groupings: RouteGroupings, max_spare: usize, usual_row_len: usize) -> Self {
        Self {
            groupings,
            route: if groupings.device.is_some() {
                Route::Device
            } else {
                Route::Cpu
            },
            open: VecDeque::new(),
            spare: VecDeque::new(),
            max_spare,
            max_spare_bytes: groupings.max_rows() * usual_row_len * size_of::<f32>(),
            next_id: 0,
        }
    }

    /// Claims the next row of an open buffer of this shape, or the first row of a new buffer.
    pub fn claim(&mut self, shape: &[usize], now: Duration) -> ClaimedRow {
        for open in &mut self.open {
            if open.route == self.route
                && *open.shape == *shape
                && let Some(memory) = open.buffer.split_row()
            {
                open.rows.push(RowState::Writing);
                let slot = RowSlot {
                    buffer: open.id,
                    row: open.rows.len() - 1,
                    route: self.route,
                };
                return ClaimedRow {
                    slot,
                    memory,
                    opens_buffer: false,
                };
            }
        }
        self.open_buffer(shape, now)
    }

    fn open_buffer(&mut self, shape: &[usize], now: Duration) -> ClaimedRow {
        let rows = self.groupings.of(self.route).max_rows.get();
        let row_len = shape.iter().product::<usize>();
        let spare = self
            .spare
            .iter()
            .rposition(|buffer| buffer.suits(rows, row_len));
        let mut buffer = spare
            .and_then(|index| self.spare.remove(index))
            .map_or_else(
                || BatchBuffer::new(rows, row_len),
                |buffer| buffer.reshaped(rows, row_len),
            );
        let id = self.next_id;
        self.next_id += 1;
        // `max_rows` is at least 1, so the first row exists.
        let memory = buffer.split_row().unwrap_or_default();
        self.open.push_back(OpenBuffer {
            id,
            route: self.route,
            shape: shape.into(),
            buffer,
            rows: vec![RowState::Writing],
            opened_at: now,
            span: Span::current(),
        });
        ClaimedRow {
            slot: RowSlot {
                buffer: id,
                row: 0,
                route: self.route,
            },
            memory,
            opens_buffer: true,
        }
    }

    /// Takes back a row that was written. It can run from now on.
    pub fn commit(&mut self, slot: &RowSlot, memory: RowMemory, reply: R, now: Duration) {
        let committed = CommittedRow {
            memory,
            reply,
            committed_at: now,
        };
        self.put(slot, RowState::Committed(committed));
    }

    /// Takes back a row that will not be written.
    pub fn give_up(&mut self, slot: &RowSlot, memory: RowMemory) {
        self.put(slot, RowState::GivenUp(memory));
    }

    fn put(&mut self, slot: &RowSlot, state: RowState<R>) {
        // A buffer stays in `open` while a row of it is being written, so this finds the row.
        let open = self.open.iter_mut().find(|open| open.id == slot.buffer);
        if let Some(row) = open.and_then(|open| open.rows.get_mut(slot.row)) {
            *row = state;
        }
    }

    /// Returns the route that runs a row claimed for `route`. While the device is down, this is the CPU.
    pub fn effective_route(&self, route: Route) -> Route {
        match (route, self.route) {
            (Route::Device, Route::Device) => Route::Device,
            (Route::Cpu, _) | (Route::Device, Route::Cpu) => Route::Cpu,
        }
    }

    /// Returns the number of committed rows that wait for this route.
    pub fn waiting_for(&self, route: Route) -> usize {
        self.committed_rows(|open| self.may_run(route, open))
    }

    /// Returns the number of committed rows that wait for any route.
    pub fn waiting_rows(&self) -> usize {
        self.committed_rows(|_| true)
    }

    fn committed_rows(&self, filter: impl Fn(&OpenBuffer<R>) -> bool) -> usize {
        self.open
            .iter()
            .filter(|open| filter(open))
            .flat_map(|open| &open.rows)
            .filter(|row| matches!(row, RowState::Committed(_)))
            .count()
    }

    /// Returns whether a route may run a buffer. While the device is down, the CPU and the device may both run a buffer
    /// of the device.
    fn may_run(&self, route: Route, open: &OpenBuffer<R>) -> bool {
        open.route == route || self.effective_route(open.route) == route
    }

    /// Takes the oldest batch that is ready for this route.
    pub fn next_batch(&mut self, route: Route, now: Duration) -> NextBatch<R> {
        let mut skipped = 0;
        while let Some(open) = self
            .ready_index(route, now)
            .and_then(|index| self.open.remove(index))
        {
            let (batch, abandoned) = self.take_batch(open);
            skipped += abandoned;
            if batch.callers.is_empty() {
                self.recycle(batch.staged);
            } else {
                let batch = Some(batch);
                return NextBatch { batch, skipped };
            }
        }
        NextBatch {
            batch: None,
            skipped,
        }
    }

    /// Returns whether a batch is ready for this route.
    pub fn has_ready(&self, route: Route, now: Duration) -> bool {
        self.ready_index(route, now).is_some()
    }

    /// Returns the index of the oldest buffer that is ready for this route.
    fn ready_index(&self, route: Route, now: Duration) -> Option<usize> {
        self.open
            .iter()
            .position(|open| self.may_run(route, open) && self.is_ready(open, now))
    }

    fn is_ready(&self, open: &OpenBuffer<R>, now: Duration) -> bool {
        let is_written = !open.rows.iter().any(|row| matches!(row, RowState::Writing));
        let grouping = self.groupings.of(open.route);
        let is_full = open.rows.len() == grouping.max_rows.get();
        let has_waited = now.saturating_sub(open.opened_at) >= grouping.max_delay;
        is_written && (is_full || has_waited)
    }

    /// Joins the rows of a buffer. Moves the rows that run to the front.
    fn take_batch(&self, open: OpenBuffer<R>) -> (ReadyBatch<R>, usize) {
        let claimed = open.rows.len();
        let mut memories = Vec::with_capacity(claimed);
        let mut live = Vec::with_capacity(claimed);
        let mut skipped = 0;
        for (row, state) in open.rows.into_iter().enumerate() {
            match state {
                RowState::Committed(committed) => {
                    memories.push(committed.memory);
                    if committed.reply.is_abandoned() {
                        skipped += 1;
                    } else {
                        live.push((row, committed.reply, committed.committed_at));
                    }
                }
                RowState::GivenUp(memory) => memories.push(memory),
                // A ready buffer has no such row.
                RowState::Writing => {}
            }
        }
        let mut buffer = open.buffer.join(memories);
        let callers: Vec<_> = live
            .into_iter()
            .enumerate()
            .map(|(to, (from, reply, committed_at))| {
                if from != to {
                    buffer.copy_row(from, to);
                }
                (reply, committed_at)
            })
            .collect();
        let grouping = self.groupings.of(open.route);
        let end = grouping.padded(callers.len(), grouping.max_rows.get());
        // Padding must not contain values of an earlier request.
        buffer.clear_rows(callers.len(), end);
        let batch = ReadyBatch {
            staged: StagedRows {
                is_oversized: buffer.capacity() > self.max_spare_bytes,
                shape: open.shape,
                buffer,
                end,
                span: open.span,
            },
            callers,
        };
        (batch, skipped)
    }

    /// Keeps a buffer for later rows. When too many are kept, frees the least recently used one.
    pub fn recycle(&mut self, staged: StagedRows) {
        if staged.is_oversized {
            return;
        }
        if self.spare.len() >= self.max_spare {
            self.spare.pop_front();
        }
        self.spare.push_back(staged.buffer);
    }
}

#[cfg(test)]
mod tests;
