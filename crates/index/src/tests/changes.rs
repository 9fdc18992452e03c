//! Insertion, removal, snapshots and memory.

use std::collections::BTreeMap;

use fastrand::Rng;
use proptest::prelude::*;

use super::*;

const DIM: usize = 6;

/// Returns a vector that depends on the seed only.
fn vector(seed: u64) -> Vec<f32> {
    unit(&mut Rng::with_seed(seed), DIM)
}

/// Returns a slab with the rows, inserted by ascending id.
fn fresh(rows: &BTreeMap<u64, u64>, segment_rows: usize) -> Slab {
    let mut slab = Slab::with_segment_rows(DIM, segment_rows);
    for (&row, &seed) in rows {
        slab.insert(row, &vector(seed)).unwrap();
    }
    slab
}

/// Returns what `memory` counts for the live rows themselves.
fn bytes(rows: usize) -> usize {
    rows * (DIM + size_of::<u64>() + size_of::<f32>())
}

/// Checks that a slab has exactly these rows, in good order.
fn check(slab: &Slab, rows: &BTreeMap<u64, u64>, segment_rows: usize) {
    assert_eq!(slab.len(), rows.len());
    let segments = slab.snapshot();
    let slots: Vec<u64> = segments.iter().flat_map(|s| s.rows().to_vec()).collect();
    assert!(slots.is_sorted_by(|a, b| a < b), "{slots:?}");
    for segment in &segments {
        assert!(!segment.is_empty() && segment.rows().len() <= segment_rows);
        let dead = (0..segment.rows().len()).filter(|&slot| !segment.is_live(slot));
        for slot in dead {
            assert_eq!(segment.codes()[slot * DIM..][..DIM], [0; DIM]);
        }
    }
    let held: usize = segments.iter().map(|s| s.memory()).sum();
    let overhead = segments.len() * (size_of::<Segment>() + bytes(8));
    assert!(held <= bytes(slab.len()) * 5 / 4 + overhead);
    let queries = [1000, 1001].map(|seed| query(&vector(seed)));
    let k = rows.len() + 5;
    let expected = search(&fresh(rows, 1 << 16).snapshot(), &queries, k);
    assert_eq!(search(&segments, &queries, k), expected);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_changes_give_what_a_fresh_slab_gives(
        changes in prop::collection::vec((0u8..5, 0u64..120), 0..400),
        segment_rows in prop_oneof![Just(2usize), Just(12), Just(40), Just(1000)],
    ) {
        let mut slab = Slab::with_segment_rows(DIM, segment_rows);
        let mut rows = BTreeMap::new();
        let mut earlier = None;
        for (at, (kind, row)) in changes.into_iter().enumerate() {
            let seed = at as u64;
            if kind < 3 {
                let is_new = slab.insert(row, &vector(seed)).unwrap();
                prop_assert_eq!(is_new, !rows.contains_key(&row));
                rows.entry(row).or_insert(seed);
            } else {
                prop_assert_eq!(slab.remove(row), rows.remove(&row).is_some());
            }
            prop_assert_eq!(slab.contains(row), rows.contains_key(&row));
            if at == 100 {
                earlier = Some((slab.snapshot(), rows.clone()));
            }
        }
        check(&slab, &rows, segment_rows);
        if let Some((snapshot, rows)) = earlier {
            let query = [query(&vector(7))];
            let expected = search(&fresh(&rows, 1 << 16).snapshot(), &query, 200);
            prop_assert_eq!(search(&snapshot, &query, 200), expected);
        }
    }
}

#[test]
fn the_highest_and_lowest_ids_are_rows() {
    let rows: BTreeMap<u64, u64> = [(u64::MAX, 1), (0, 2), (u64::MAX - 1, 3)].into();
    let mut slab = Slab::new(DIM).unwrap();
    for (&row, &seed) in &rows {
        slab.insert(row, &vector(seed)).unwrap();
    }
    check(&slab, &rows, SEGMENT_ROWS);
    assert!(slab.remove(u64::MAX));
    assert!(!slab.contains(u64::MAX) && slab.contains(u64::MAX - 1));
}

#[test]
fn a_snapshot_does_not_see_later_changes() {
    let rows: BTreeMap<u64, u64> = (0..150).map(|row| (row, row)).collect();
    let mut slab = fresh(&rows, 64);
    let snapshot = slab.snapshot();
    let query = [query(&vector(3))];
    let before = search(&snapshot, &query, 500);
    assert!(slab.remove(3));
    slab.insert(1000, &vector(3)).unwrap();
    assert_eq!(search(&snapshot, &query, 500), before);
    assert_eq!(slab.len(), 150);
    let after = slab.snapshot();
    assert_eq!(search(&after, &query, 1)[0][0].row, 1000);
    let shared = |at: usize| Arc::ptr_eq(&snapshot[at], &after[at]);
    assert_eq!([0, 1, 2].map(shared), [false, true, false]);
}

#[test]
fn without_a_snapshot_a_change_copies_nothing() {
    let rows: BTreeMap<u64, u64> = (0..60).map(|row| (row, row)).collect();
    let mut slab = fresh(&rows, 64);
    let address = |slab: &Slab| Arc::as_ptr(&slab.snapshot()[0]);
    let before = address(&slab);
    slab.remove(5);
    slab.insert(5, &vector(9)).unwrap();
    assert_eq!(address(&slab), before);
}

#[test]
fn memory_stays_within_its_bound() {
    const ROWS: u64 = 4000;
    let mut slab = Slab::with_segment_rows(DIM, 1024);
    for row in 0..ROWS {
        slab.insert(row, &vector(row)).unwrap();
    }
    let mut kept: BTreeMap<u64, u64> = (0..ROWS).map(|row| (row, row)).collect();
    // An order that visits every row once, because 1667 and 4000 have no common divisor.
    for step in 0..ROWS - 100 {
        let row = step * 1667 % ROWS;
        assert!(slab.remove(row));
        kept.remove(&row);
        if step % 500 == 0 {
            assert!(slab.memory() * 10 <= fresh(&kept, 1024).memory() * 13);
        }
    }
    check(&slab, &kept, 1024);
    // A hundred rows fit into one segment, so the segments were joined.
    assert_eq!(slab.snapshot().len(), 1);
    for row in kept.into_keys() {
        assert!(slab.remove(row));
    }
    assert!(slab.is_empty() && slab.snapshot().is_empty());
}

#[test]
fn growth_beside_dead_slots_stays_within_the_bound() {
    // A segment grows at few sizes, so many starts are tried. Nothing is removed after the growth.
    for start in (200..300).step_by(3) {
        for between in [false, true] {
            let mut slab = Slab::with_segment_rows(DIM, 4096);
            (0..start).for_each(|row| assert!(slab.insert(row * 2, &vector(row)).unwrap()));
            (0..start / 6).for_each(|row| assert!(slab.remove(row * 10)));
            for row in 0..60 {
                let id = if between { row * 2 + 1 } else { 10_000 + row };
                slab.insert(id, &vector(row)).unwrap();
                let overhead = bytes(8) + size_of::<Slab>() + size_of::<Segment>() + 64;
                assert!(slab.memory() <= bytes(slab.len()) * 5 / 4 + overhead);
            }
        }
    }
}

#[test]
fn a_small_segment_joins_either_neighbor() {
    // Full segments of 64 rows. The first removals leave 4 rows in one, and the second 4 in the other.
    for (first, second) in [(0..60, 64..124), (64..124, 0..60)] {
        let mut rows: BTreeMap<u64, u64> = (0..128).map(|row| (row, row)).collect();
        let mut slab = fresh(&rows, 64);
        let segments = |slab: &Slab| slab.snapshot().len();
        for row in first {
            assert!(slab.remove(row) && rows.remove(&row).is_some());
        }
        assert_eq!(segments(&slab), 2);
        for row in second {
            assert!(slab.remove(row) && rows.remove(&row).is_some());
        }
        assert_eq!(segments(&slab), 1);
        check(&slab, &rows, 64);
    }
}

#[test]
fn a_full_segment_is_followed_by_another() {
    let mut slab = Slab::new(1).unwrap();
    assert!(slab.snapshot().is_empty());
    for row in 0..=SEGMENT_ROWS as u64 {
        slab.insert(row, &[1.0]).unwrap();
    }
    let rows: Vec<_> = slab.snapshot().iter().map(|s| s.len()).collect();
    assert_eq!(rows, [SEGMENT_ROWS, 1]);
}

#[test]
fn a_row_takes_little_more_than_its_codes() {
    let mut slab = Slab::with_segment_rows(128, 512);
    let mut random = Rng::with_seed(3);
    for row in 0..4000 {
        slab.insert(row, &unit(&mut random, 128)).unwrap();
    }
    assert!(slab.memory() / 4000 <= 144, "{}", slab.memory() / 4000);
}
