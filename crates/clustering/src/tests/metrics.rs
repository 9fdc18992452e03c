//! The metrics against values that were computed by hand.

use crate::metrics::{Agreement, bcubed, pairwise};

/// Three faces of person 1 and two of person 2. Group 7 has two of the first and one of the second.
const FACES: [(u32, Option<u32>); 5] = [
    (1, Some(7)),
    (1, Some(7)),
    (1, None),
    (2, Some(7)),
    (2, Some(8)),
];

fn assert_near(found: Agreement, precision: f64, recall: f64) {
    assert!((found.precision - precision).abs() < 1e-12, "{found:?}");
    assert!((found.recall - recall).abs() < 1e-12, "{found:?}");
}

#[test]
fn bcubed_is_the_mean_over_faces() {
    // Precisions: 2/3, 2/3, 1, 1/3, 1. Recalls: 2/3, 2/3, 1/3, 1/2, 1/2.
    let found = bcubed(&FACES);
    assert_near(found, 11.0 / 15.0, 8.0 / 15.0);
    assert!((found.f() - 176.0 / 285.0).abs() < 1e-12);
}

#[test]
fn pairwise_counts_pairs() {
    // Three pairs are together, and one of them belongs together, of four.
    let found = pairwise(&FACES);
    assert_near(found, 1.0 / 3.0, 1.0 / 4.0);
    assert!((found.f() - 2.0 / 7.0).abs() < 1e-12);
}

#[test]
fn equal_groups_agree_whatever_their_numbers() {
    let faces = [(1, Some(5)), (1, Some(5)), (2, Some(4)), (3, None)];
    assert_near(bcubed(&faces), 1.0, 1.0);
    assert_near(pairwise(&faces), 1.0, 1.0);
}

#[test]
fn unassigned_faces_are_alone() {
    let faces = [(1, None), (1, None)];
    assert_near(bcubed(&faces), 1.0, 0.5);
    assert_near(pairwise(&faces), 1.0, 0.0);
    assert_eq!(pairwise(&faces).f(), 0.0);
}

#[test]
fn without_faces_everything_agrees() {
    assert_near(bcubed(&[]), 1.0, 1.0);
    assert_near(pairwise(&[]), 1.0, 1.0);
}
