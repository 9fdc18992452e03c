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
        fixed: false,
        max_delay: Duration::ZERO,
    }
}

fn batcher(max_rows: usize) -> Batcher<Caller> {
    Batcher::new(grouping(max_rows), 2, 2)
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
    cut.slab
        .values(cut.rows)
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
    assert_eq!(batcher.waiting(), 4);
    assert_eq!(rows(&batcher.look(NOW).cut.unwrap()), [1.0, 2.0, 3.0]);
    assert_eq!(rows(&batcher.look(NOW).cut.unwrap()), [4.0]);
    assert!(batcher.look(NOW).cut.is_none());
}

#[test]
fn a_slab_waits_for_the_row_that_is_being_written_and_no_other_does() {
    let mut batcher = batcher(2);
    let (place, memory) = batcher.claim(&ROW, NOW);
    add(&mut batcher, 2.0);
    assert!(!batcher.is_due(NOW));
    assert!(batcher.look(NOW).cut.is_none());
    // The first slab is full, so this row opens another, which runs.
    add(&mut batcher, 3.0);
    assert_eq!(rows(&batcher.look(NOW).cut.unwrap()), [3.0]);
    batcher.give_up(&place, memory);
    let cut = batcher.look(NOW).cut.unwrap();
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
    let look = batcher.look(NOW);
    assert_eq!(look.skipped, 2);
    assert_eq!(rows(&look.cut.unwrap()), [1.0, 3.0]);

    add(&mut batcher, 5.0).0.set(true);
    let look = batcher.look(NOW);
    assert!(look.cut.is_none() && look.skipped == 1);
    assert!(!batcher.is_due(NOW), "nothing is left of it");
}

#[test]
fn shapes_do_not_mix() {
    let mut batcher = batcher(4);
    add(&mut batcher, 1.0);
    let (place, memory) = batcher.claim(&[3], NOW);
    batcher.ready(&place, memory, Caller::default(), NOW);
    let first = batcher.look(NOW).cut.unwrap();
    let second = batcher.look(NOW).cut.unwrap();
    assert_eq!((&*first.shape, &*second.shape), (&[2][..], &[3][..]));
    assert!(!first.unusual && second.unusual);
}

#[test]
fn a_fixed_batch_is_always_full() {
    let fixed = Grouping {
        fixed: true,
        ..grouping(3)
    };
    let mut batcher: Batcher<Caller> = Batcher::new(fixed, 2, 2);
    add(&mut batcher, 1.0);
    let cut = batcher.look(NOW).cut.unwrap();
    assert_eq!((cut.rows, cut.callers.len()), (3, 1));
    assert_eq!(rows(&cut), [1.0, 0.0, 0.0]);
}

#[test]
fn a_slab_that_may_fill_up_waits_no_longer_than_allowed() {
    let delay = Duration::from_millis(5);
    let waits = Grouping {
        max_delay: delay,
        ..grouping(2)
    };
    let mut batcher: Batcher<Caller> = Batcher::new(waits, 2, 2);
    add(&mut batcher, 1.0);
    assert!(batcher.look(NOW).cut.is_none());
    assert_eq!(rows(&batcher.look(delay).cut.unwrap()), [1.0]);
    add(&mut batcher, 2.0);
    add(&mut batcher, 3.0);
    assert_eq!(rows(&batcher.look(NOW).cut.unwrap()), [2.0, 3.0], "full");
}

#[test]
fn slabs_are_used_again_and_no_more_are_kept_than_allowed() {
    let mut batcher = batcher(1);
    let mut addresses = Vec::new();
    for _ in 0..3 {
        add(&mut batcher, 1.0);
        let cut = batcher.look(NOW).cut.unwrap();
        addresses.push(cut.slab.values(1).as_ptr());
        batcher.keep(cut.shape, cut.slab);
    }
    assert!(addresses.iter().all(|address| *address == addresses[0]));
    for _ in 0..5 {
        batcher.keep([2].into(), Slab::new(1, 2));
    }
    assert_eq!(batcher.spare.len(), 2);
    batcher.keep([3].into(), Slab::new(1, 3));
    assert_eq!(batcher.spare.len(), 2, "larger ones are freed");
    assert!(batcher.spare.iter().all(|(shape, _)| **shape == [2]));
}
