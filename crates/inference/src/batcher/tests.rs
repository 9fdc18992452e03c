use std::{cell::Cell, rc::Rc};

use super::*;

/// A caller that can leave.
#[derive(Clone, Default)]
struct Caller(Rc<Cell<bool>>);

impl Reply for Caller {
    fn is_abandoned(&self) -> bool {
        self.0.get()
    }
}

const ROW: [usize; 1] = [2];
const NOW: Duration = Duration::ZERO;

fn grouping(max_rows: usize) -> Grouping {
    Grouping {
        max_rows: max_rows.try_into().unwrap(),
        sizes: BatchSizes::Any,
        max_delay: Duration::ZERO,
    }
}

fn on_cpu(cpu: Grouping) -> RouteGroupings {
    RouteGroupings { cpu, device: None }
}

fn batcher(max_rows: usize) -> Batcher<Caller> {
    Batcher::new(on_cpu(grouping(max_rows)), 2, 2)
}

/// Claims a row, fills it with `value` and commits it.
fn add(batcher: &mut Batcher<Caller>, value: f32) -> Caller {
    let caller = Caller::default();
    let mut row = batcher.claim(&ROW, NOW);
    row.memory.values().fill(value);
    batcher.commit(&row.slot, row.memory, caller.clone(), NOW);
    caller
}

/// Returns the first value of each row that runs.
fn rows(batch: &ReadyBatch<Caller>) -> Vec<f32> {
    let rows = batch.callers.len();
    batch
        .staged
        .values(0..rows)
        .chunks(2)
        .map(|row| row[0])
        .collect()
}

/// Runs the next batch. Returns the first value of each row.
fn next(batcher: &mut Batcher<Caller>, route: Route, now: Duration) -> Vec<f32> {
    rows(&batcher.next_batch(route, now).batch.unwrap())
}

#[test]
fn rows_run_together_in_claim_order_up_to_the_maximum() {
    let mut batcher = batcher(3);
    for value in [1.0, 2.0, 3.0, 4.0] {
        add(&mut batcher, value);
    }
    assert_eq!(batcher.waiting_for(Route::Cpu), 4);
    assert_eq!(next(&mut batcher, Route::Cpu, NOW), [1.0, 2.0, 3.0]);
    assert_eq!(next(&mut batcher, Route::Cpu, NOW), [4.0]);
    assert!(batcher.next_batch(Route::Cpu, NOW).batch.is_none());
}

#[test]
fn a_buffer_waits_for_a_row_that_is_being_written_and_other_buffers_do_not() {
    let mut batcher = batcher(2);
    let row = batcher.claim(&ROW, NOW);
    add(&mut batcher, 2.0);
    assert!(!batcher.has_ready(Route::Cpu, NOW));
    assert!(batcher.next_batch(Route::Cpu, NOW).batch.is_none());
    // The first buffer is full, so this row opens another one, which runs.
    add(&mut batcher, 3.0);
    assert_eq!(next(&mut batcher, Route::Cpu, NOW), [3.0]);
    batcher.give_up(&row.slot, row.memory);
    let batch = batcher.next_batch(Route::Cpu, NOW).batch.unwrap();
    assert_eq!(rows(&batch), [2.0], "the other row moved to the front");
}

#[test]
fn rows_of_callers_that_left_are_skipped_and_counted() {
    let mut batcher = batcher(4);
    let callers: Vec<_> = (0..4u8)
        .map(|value| add(&mut batcher, value.into()))
        .collect();
    callers[0].0.set(true);
    callers[2].0.set(true);
    let next = batcher.next_batch(Route::Cpu, NOW);
    assert_eq!(next.skipped, 2);
    assert_eq!(rows(&next.batch.unwrap()), [1.0, 3.0]);

    add(&mut batcher, 5.0).0.set(true);
    let next = batcher.next_batch(Route::Cpu, NOW);
    assert!(next.batch.is_none() && next.skipped == 1);
    assert!(!batcher.has_ready(Route::Cpu, NOW), "the buffer is gone");
}

#[test]
fn shapes_do_not_mix() {
    let mut batcher = batcher(4);
    add(&mut batcher, 1.0);
    let row = batcher.claim(&[3], NOW);
    batcher.commit(&row.slot, row.memory, Caller::default(), NOW);
    let first = batcher.next_batch(Route::Cpu, NOW).batch.unwrap();
    let second = batcher.next_batch(Route::Cpu, NOW).batch.unwrap();
    let (first, second) = (first.staged, second.staged);
    assert_eq!((&*first.shape, &*second.shape), (&[2][..], &[3][..]));
    assert!(!first.is_oversized && second.is_oversized);
}

#[test]
fn buffers_are_reused_and_a_limited_number_is_kept() {
    let mut batcher = batcher(1);
    let mut addresses = Vec::new();
    for _ in 0..3 {
        add(&mut batcher, 1.0);
        let batch = batcher.next_batch(Route::Cpu, NOW).batch.unwrap();
        addresses.push(batch.staged.values(0..1).as_ptr());
        batcher.recycle(batch.staged);
    }
    assert!(addresses.iter().all(|address| *address == addresses[0]));
    for _ in 0..5 {
        batcher.recycle(staged(2, false));
    }
    assert_eq!(batcher.spare.len(), 2);
    batcher.recycle(staged(3, true));
    assert_eq!(batcher.spare.len(), 2, "a larger buffer is freed");
    assert!(batcher.spare.iter().all(|buffer| buffer.suits(1, 2)));
}

fn staged(row_len: usize, is_oversized: bool) -> StagedRows {
    StagedRows {
        shape: [row_len].into(),
        buffer: BatchBuffer::new(1, row_len),
        end: 1,
        is_oversized,
        span: Span::none(),
    }
}

/// Returns a device with batches of up to four rows, in powers of two, and a CPU that takes one row at a time.
fn with_device() -> Batcher<Caller> {
    let device = Grouping {
        sizes: BatchSizes::Buckets,
        ..grouping(4)
    };
    let groupings = RouteGroupings {
        cpu: grouping(1),
        device: Some(device),
    };
    Batcher::new(groupings, 2, 2)
}

#[test]
fn a_device_sees_few_batch_sizes() {
    let buckets = Grouping {
        sizes: BatchSizes::Buckets,
        ..grouping(6)
    };
    let sizes: Vec<_> = (1..=6).map(|rows| buckets.padded(rows, 6)).collect();
    assert_eq!(sizes, [1, 2, 4, 4, 6, 6], "never more than the buffer has");
}

#[test]
fn no_row_of_an_earlier_batch_runs_as_padding() {
    let buckets = Grouping {
        sizes: BatchSizes::Buckets,
        ..grouping(8)
    };
    let mut batcher: Batcher<Caller> = Batcher::new(on_cpu(buckets), 2, 2);
    for (rows, end) in [(8, 8), (5, 8), (2, 2)] {
        for _ in 0..rows {
            add(&mut batcher, 1.0);
        }
        let batch = batcher.next_batch(Route::Cpu, NOW).batch.unwrap();
        assert_eq!(batch.staged.end, end);
        let padding = batch.staged.values(rows..end);
        assert!(padding.iter().all(|value| *value == 0.0), "{rows} rows");
        batcher.recycle(batch.staged);
    }
}

#[test]
fn rows_go_to_the_cpu_while_the_device_is_down() {
    let mut batcher = with_device();
    for value in [1.0, 2.0, 3.0] {
        add(&mut batcher, value);
    }
    assert!(batcher.next_batch(Route::Cpu, NOW).batch.is_none());
    assert!(!batcher.has_ready(Route::Cpu, NOW));
    batcher.route = Route::Cpu;
    add(&mut batcher, 4.0);
    assert!(
        batcher.next_batch(Route::Device, NOW).batch.is_some(),
        "the device still gets the batch that was claimed for it"
    );
    batcher.route = Route::Device;
    add(&mut batcher, 5.0);
    batcher.route = Route::Cpu;
    assert_eq!(batcher.waiting_for(Route::Cpu), 2);
    assert_eq!(next(&mut batcher, Route::Cpu, NOW), [4.0]);
    assert_eq!(next(&mut batcher, Route::Cpu, NOW), [5.0]);
    batcher.route = Route::Device;
    add(&mut batcher, 6.0);
    assert_eq!(next(&mut batcher, Route::Device, NOW), [6.0]);
}
