//! Lists of proposals.

use proptest::prelude::*;

use super::*;

fn proposal(row: u64, similarity: f32) -> Proposal {
    Proposal { row, similarity }
}

#[test]
fn the_threshold_is_that_of_the_worst() {
    let mut best = TopK::new(2);
    best.push(proposal(1, 0.9));
    assert_eq!(best.threshold(), f32::NEG_INFINITY);
    best.push(proposal(2, -0.1));
    assert_eq!(best.threshold(), -0.1);
    best.push(proposal(3, 0.3));
    assert_eq!(best.threshold(), 0.3);
}

#[test]
fn a_similarity_that_is_no_number_is_not_kept() {
    let mut best = TopK::new(1);
    best.push(proposal(1, f32::NAN));
    assert!(best.into_sorted().is_empty());
}

proptest! {
    #[test]
    fn lists_keep_the_best_however_they_are_filled(
        similarities in prop::collection::vec(-3i8..3, 0..60),
        k in 0usize..20,
        cut in 0usize..60,
    ) {
        let rows = 0u64..;
        let all: Vec<_> = rows.zip(similarities).map(|(row, s)| proposal(row, s.into())).collect();
        let mut expected = all.clone();
        expected.sort_by(|a, b| b.similarity.total_cmp(&a.similarity).then(a.row.cmp(&b.row)));
        expected.truncate(k);

        let (front, back) = all.split_at(cut.min(all.len()));
        let [mut first, mut second] = [TopK::new(k), TopK::new(k)];
        front.iter().for_each(|&proposal| first.push(proposal));
        back.iter().rev().for_each(|&proposal| second.push(proposal));
        second.merge(first);
        prop_assert_eq!(second.into_sorted(), expected);
    }
}
