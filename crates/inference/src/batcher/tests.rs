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
        sizes: Sizes::Any,
        max_delay: Duration::ZERO,
    }
}

fn on_cpu(cpu: Grouping) -> Groupings {
    Groupings { cpu, device: None }
}

fn batcher(max_rows: usize) -> Batcher<Caller> {
    Batcher::new(on_cpu(grouping(max_rows)), 2, 2)
}

/// Claims a row, fills it with `value` and makes it ready.
fn add(batcher: &mut Batcher<Caller>, value: f32) -> Caller {
    let caller = Caller::default();
    let (place, mut memory) = batcher.claim(&ROW, NOW);
    memory.values().fill(value);
    batcher.ready(&place, memory, caller.clone(), NOW);
    caller
}

/// The first value of each row that runs.
fn rows(cut: &Cut<Caller>) -> Vec<f32> {
    let rows = cut.callers.len();
    cut.staged
        .values(0..rows)
        .chunks(2)
        .map(|row| row[0])
        .collect()
}

#[test]
fn rows_run_together_in_the_order_they_were_claimed_up_to_the_cap() {
    let mut batcher = batcher(3);
    for value in [1.0, 2.0, 3.0, 4.0] {
        add(&mut batcher, value);
    }
    assert_eq!(batcher.waiting(Route::Cpu), 4);
    assert_eq!(
        rows(&batcher.look(Route::Cpu, NOW).cut.unwrap()),
        [1.0, 2.0, 3.0]
    );
    assert_eq!(rows(&batcher.look(Route::Cpu, NOW).cut.unwrap()), [4.0]);
    assert!(batcher.look(Route::Cpu, NOW).cut.is_none());
}

#[test]
fn a_slab_waits_for_the_row_that_is_being_written_and_no_other_does() {
    let mut batcher = batcher(2);
    let (place, memory) = batcher.claim(&ROW, NOW);
    add(&mut batcher, 2.0);
    assert!(!batcher.is_due(Route::Cpu, NOW));
    assert!(batcher.look(Route::Cpu, NOW).cut.is_none());
    // The first slab is full, so this row opens another, which runs.
    add(&mut batcher, 3.0);
    assert_eq!(rows(&batcher.look(Route::Cpu, NOW).cut.unwrap()), [3.0]);
    batcher.give_up(&place, memory);
    let cut = batcher.look(Route::Cpu, NOW).cut.unwrap();
    assert_eq!(rows(&cut), [2.0], "the other row has moved to its place");
}

#[test]
fn rows_of_callers_that_left_are_skipped_and_counted() {
    let mut batcher = batcher(4);
    let callers: Vec<_> = (0..4u8)
        .map(|value| add(&mut batcher, value.into()))
        .collect();
    callers[0].0.set(true);
    callers[2].0.set(true);
    let look = batcher.look(Route::Cpu, NOW);
    assert_eq!(look.skipped, 2);
    assert_eq!(rows(&look.cut.unwrap()), [1.0, 3.0]);

    add(&mut batcher, 5.0).0.set(true);
    let look = batcher.look(Route::Cpu, NOW);
    assert!(look.cut.is_none() && look.skipped == 1);
    assert!(!batcher.is_due(Route::Cpu, NOW), "nothing is left of it");
}

#[test]
fn shapes_do_not_mix() {
    let mut batcher = batcher(4);
    add(&mut batcher, 1.0);
    let (place, memory) = batcher.claim(&[3], NOW);
    batcher.ready(&place, memory, Caller::default(), NOW);
    let first = batcher.look(Route::Cpu, NOW).cut.unwrap();
    let second = batcher.look(Route::Cpu, NOW).cut.unwrap();
    let (first, second) = (first.staged, second.staged);
    assert_eq!((&*first.shape, &*second.shape), (&[2][..], &[3][..]));
    assert!(!first.unusual && second.unusual);
}

#[test]
fn a_fixed_batch_is_always_full() {
    let fixed = Grouping {
        sizes: Sizes::Fixed,
        ..grouping(3)
    };
    let mut batcher: Batcher<Caller> = Batcher::new(on_cpu(fixed), 2, 2);
    add(&mut batcher, 1.0);
    let cut = batcher.look(Route::Cpu, NOW).cut.unwrap();
    assert_eq!(cut.callers.len(), 1);
    let padded = fixed.padded(1, cut.staged.room);
    assert_eq!(cut.staged.values(0..padded), [1.0, 1.0, 0.0, 0.0, 0.0, 0.0]);
}

#[test]
fn a_slab_that_may_fill_up_waits_no_longer_than_allowed() {
    let delay = Duration::from_millis(5);
    let waits = Grouping {
        max_delay: delay,
        ..grouping(2)
    };
    let mut batcher: Batcher<Caller> = Batcher::new(on_cpu(waits), 2, 2);
    add(&mut batcher, 1.0);
    assert!(batcher.look(Route::Cpu, NOW).cut.is_none());
    assert_eq!(rows(&batcher.look(Route::Cpu, delay).cut.unwrap()), [1.0]);
    add(&mut batcher, 2.0);
    add(&mut batcher, 3.0);
    assert_eq!(
        rows(&batcher.look(Route::Cpu, NOW).cut.unwrap()),
        [2.0, 3.0],
        "full"
    );
}

#[test]
fn slabs_are_used_again_and_no_more_are_kept_than_allowed() {
    let mut batcher = batcher(1);
    let mut addresses = Vec::new();
    for _ in 0..3 {
        add(&mut batcher, 1.0);
        let cut = batcher.look(Route::Cpu, NOW).cut.unwrap();
        addresses.push(cut.staged.values(0..1).as_ptr());
        batcher.keep(cut.staged);
    }
    assert!(addresses.iter().all(|address| *address == addresses[0]));
    for _ in 0..5 {
        batcher.keep(staged(2, false));
    }
    assert_eq!(batcher.spare.len(), 2);
    batcher.keep(staged(3, true));
    assert_eq!(batcher.spare.len(), 2, "larger ones are freed");
    assert!(batcher.spare.iter().all(|(shape, _)| **shape == [2]));
}

fn staged(row_len: usize, unusual: bool) -> Staged {
    Staged {
        shape: [row_len].into(),
        slab: Slab::new(1, row_len),
        room: 1,
        unusual,
    }
}

/// A device that takes four rows at a time, in powers of two, before a CPU that takes one.
fn with_device() -> Batcher<Caller> {
    let device = Grouping {
        sizes: Sizes::Buckets,
        ..grouping(4)
    };
    let groupings = Groupings {
        cpu: grouping(1),
        device: Some(device),
    };
    Batcher::new(groupings, 2, 2)
}

#[test]
fn a_device_meets_few_sizes() {
    let buckets = Grouping {
        sizes: Sizes::Buckets,
        ..grouping(6)
    };
    let sizes: Vec<_> = (1..=6).map(|rows| buckets.padded(rows, 6)).collect();
    assert_eq!(
        sizes,
        [1, 2, 4, 4, 5, 6],
        "and never more than there is room for"
    );
}

#[test]
fn rows_for_a_device_go_to_the_cpu_once_it_is_down_and_new_ones_too() {
    let mut batcher = with_device();
    for value in [1.0, 2.0, 3.0] {
        add(&mut batcher, value);
    }
    assert!(batcher.look(Route::Cpu, NOW).cut.is_none());
    assert!(!batcher.is_due(Route::Cpu, NOW));
    batcher.send_to(Route::Cpu);
    add(&mut batcher, 4.0);
    assert!(
        batcher.look(Route::Device, NOW).cut.is_some(),
        "what is cut for it is its own"
    );
    batcher.send_to(Route::Device);
    add(&mut batcher, 5.0);
    batcher.send_to(Route::Cpu);
    assert_eq!(batcher.waiting(Route::Cpu), 2);
    assert_eq!(rows(&batcher.look(Route::Cpu, NOW).cut.unwrap()), [4.0]);
    assert_eq!(rows(&batcher.look(Route::Cpu, NOW).cut.unwrap()), [5.0]);
    batcher.send_to(Route::Device);
    add(&mut batcher, 6.0);
    assert_eq!(rows(&batcher.look(Route::Device, NOW).cut.unwrap()), [6.0]);
}
