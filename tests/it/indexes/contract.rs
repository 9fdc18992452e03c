//! What every index keeps to.

use std::{collections::HashSet, sync::atomic::Ordering};

use facescan_recognition::{collections::similar::Wanted, index::IndexQuery};

use super::under_test::{DIM, FACES_OF_SUBJECT, Gallery, UnderTest, direction, wanted};

/// The subjects of a large collection.
const SUBJECTS: usize = 80;

/// The lowest share of the ten most similar faces that an index finds if it does not compare all faces.
const RECALL: f64 = 0.98;

/// Runs every step.
pub async fn run(under_test: &UnderTest) {
    let mut gallery = Gallery::create(under_test, "gallery", 1).await;
    let mut twin = Gallery::create(under_test, "twin", 1).await;
    let mut small = Gallery::create(under_test, "small", 2).await;
    gallery.enroll(SUBJECTS).await;
    twin.enroll(SUBJECTS).await;
    small.enroll(2).await;
    // Without what is built in the background, answers are the same, but slow.
    let starts_exact = under_test.exact_below > 0;
    answers_are_those_of_a_comparison_with_each_face(&mut gallery, starts_exact).await;
    (under_test.settle)().await;
    let is_exact = (gallery.faces.len() as u64) < under_test.exact_below;
    answers_are_those_of_a_comparison_with_each_face(&mut gallery, is_exact).await;
    answers_are_those_of_a_comparison_with_each_face(&mut small, starts_exact).await;
    an_exact_search_finds_every_face(&mut gallery).await;
    rows_belong_to_the_collection(&mut gallery).await;
    rows_belong_to_the_collection(&mut small).await;
    a_small_collection_is_proposed_as_a_whole(&mut small).await;
    several_vectors_have_answers_of_their_own(&mut gallery).await;
    many_rows_can_be_proposed(&mut gallery).await;
    a_threshold_that_no_face_reaches_reads_few_rows(&gallery).await;
    an_erased_face_is_not_found(&mut gallery).await;
    erasures_and_enrollments_keep_the_answers(&mut gallery, is_exact).await;
    answers_are_those_of_a_comparison_with_each_face(&mut twin, is_exact).await;
    a_rebuilt_and_a_purged_index_answer_the_same(&mut gallery, &mut twin, is_exact).await;
}

async fn answers_are_those_of_a_comparison_with_each_face(
    gallery: &mut Gallery<'_>,
    is_exact: bool,
) {
    let (mut expected_faces, mut found_faces) = (0, 0);
    for _ in 0..40 {
        let query = gallery.mate();
        let found = gallery.search(&query, 10).await;
        assert_eq!(found.searched, gallery.faces.len() as u64);
        assert_eq!(found.position, gallery.changes);
        assert_eq!(found.is_exact, is_exact);
        let expected = gallery.nearest(&query, 10);
        assert_eq!(found.faces.len(), expected.len());
        assert_eq!(found.faces[0].row.vector, expected[0].1.vector);
        for (cosine, face) in &expected {
            let same = found.faces.iter().find(|it| it.row.vector == face.vector);
            if let Some(same) = same {
                assert!((same.similarity - cosine).abs() < 1e-6, "{cosine}");
                assert_eq!(same.row.enrollment.subject_id, Some(face.subject));
                found_faces += 1;
            }
        }
        expected_faces += expected.len();
    }
    let recall = f64::from(found_faces) / expected_faces as f64;
    let lowest = if is_exact { 1.0 } else { RECALL };
    assert!(recall >= lowest, "recall {recall}");
}

async fn an_exact_search_finds_every_face(gallery: &mut Gallery<'_>) {
    let wanted = Wanted {
        must_be_exact: true,
        ..wanted(10)
    };
    for _ in 0..20 {
        let query = gallery.mate();
        let found = gallery.search_wanted(&query, wanted).await;
        assert!(found.is_exact);
        let found = found.faces.iter().map(|face| &face.row.vector);
        let expected = gallery.nearest(&query, 10).into_iter();
        assert!(found.eq(expected.map(|(_, face)| &face.vector)));
    }
}

/// Proposes rows without the checks of the database.
async fn propose(gallery: &Gallery<'_>, vectors: &[Vec<f32>], rows: usize) -> Vec<Vec<u64>> {
    let query = IndexQuery {
        collection: gallery.collection().await.index_position(),
        vectors,
        rows,
        must_be_exact: false,
    };
    let index = &gallery.under_test.collections.index;
    let proposals = index.propose(query).await.unwrap();
    let rows = proposals.rows.iter();
    rows.map(|rows| rows.iter().map(|proposal| proposal.row).collect())
        .collect()
}

async fn rows_belong_to_the_collection(gallery: &mut Gallery<'_>) {
    let store = &gallery.under_test.store;
    let own = store.index_rows(gallery.id, 0, 10_000).await.unwrap();
    let own: HashSet<u64> = own.into_iter().map(|row| row.row).collect();
    assert_eq!(own.len(), gallery.faces.len());
    for _ in 0..20 {
        let query = gallery.mate();
        let rows = propose(gallery, &[query], 64).await;
        assert!(rows[0].iter().all(|row| own.contains(row)));
    }
}

async fn a_small_collection_is_proposed_as_a_whole(gallery: &mut Gallery<'_>) {
    let query = gallery.mate();
    let rows = propose(gallery, &[query], 64).await;
    let rows: HashSet<u64> = rows[0].iter().copied().collect();
    assert_eq!(rows.len(), gallery.faces.len());
}

async fn several_vectors_have_answers_of_their_own(gallery: &mut Gallery<'_>) {
    let queries = [gallery.mate(), gallery.mate(), gallery.mate()];
    let together = propose(gallery, &queries, 10).await;
    for (query, together) in queries.into_iter().zip(together) {
        assert_eq!(propose(gallery, &[query], 10).await[0], together);
    }
}

/// A subject can have all of the most similar faces, so a search can need nearly all rows.
async fn many_rows_can_be_proposed(gallery: &mut Gallery<'_>) {
    let query = gallery.mate();
    let rows = propose(gallery, &[query], 4096).await;
    let rows: HashSet<u64> = rows[0].iter().copied().collect();
    let lowest = gallery.faces.len() as f64 * RECALL;
    assert!(rows.len() as f64 >= lowest, "{} rows", rows.len());
}

async fn a_threshold_that_no_face_reaches_reads_few_rows(gallery: &Gallery<'_>) {
    let proposed = || gallery.under_test.proposed.load(Ordering::Relaxed);
    let before = proposed();
    let query = direction(&mut fastrand::Rng::with_seed(99), DIM);
    let wanted = Wanted {
        threshold: 0.999,
        ..wanted(10)
    };
    let found = gallery.search_wanted(&query, wanted).await;
    assert!(found.faces.is_empty());
    let rows = proposed() - before;
    assert!((1..=128).contains(&rows), "{rows} rows");
}

async fn an_erased_face_is_not_found(gallery: &mut Gallery<'_>) {
    let erased = gallery.faces[gallery.faces.len() / 2].clone();
    let found = gallery.search(&erased.vector, 1).await;
    let best = &found.faces[0].row.enrollment;
    assert_eq!(best.subject_id, Some(erased.subject));
    gallery.erase(erased.subject).await;
    let found = gallery.search(&erased.vector, 100).await;
    let subjects = found
        .faces
        .iter()
        .map(|face| face.row.enrollment.subject_id);
    assert_eq!(subjects.filter(|it| *it == Some(erased.subject)).count(), 0);
    assert_eq!(found.faces.len(), 100);
}

async fn erasures_and_enrollments_keep_the_answers(gallery: &mut Gallery<'_>, is_exact: bool) {
    let replaced = SUBJECTS * 3 / 10;
    for round in 0..5 {
        for position in 0..replaced {
            let face = (position * 7 + round) * FACES_OF_SUBJECT % gallery.faces.len();
            gallery.erase(gallery.faces[face].subject).await;
        }
        gallery.enroll(replaced).await;
        answers_are_those_of_a_comparison_with_each_face(gallery, is_exact).await;
    }
    let now = gallery.under_test.collections.clock.now();
    let erasures = &gallery.under_test.store;
    assert!(erasures.purge_erased(now).await.unwrap());
    (gallery.under_test.settle)().await;
    answers_are_those_of_a_comparison_with_each_face(gallery, is_exact).await;
}

async fn a_rebuilt_and_a_purged_index_answer_the_same(
    gallery: &mut Gallery<'_>,
    twin: &mut Gallery<'_>,
    is_exact: bool,
) {
    let (under_test, collections) = (gallery.under_test, &gallery.under_test.collections);
    let position = gallery.collection().await.index_position();
    let contents = async || collections.index.contents(&position).await.unwrap();
    let before = contents().await;
    assert_eq!(before.state, under_test.state);
    assert!(before.rows.is_none_or(|rows| rows == position.enrolled));
    collections.index.rebuild(&position).await.unwrap();
    assert_eq!(contents().await.rows, before.rows);
    assert_eq!(contents().await.state, before.state);
    answers_are_those_of_a_comparison_with_each_face(gallery, is_exact).await;
    let now = collections.clock.now();
    let erasures = &under_test.store;
    assert!(erasures.rewrite_erased(now).await.unwrap());
    collections.index.purge().await.unwrap();
    answers_are_those_of_a_comparison_with_each_face(gallery, is_exact).await;
    answers_are_those_of_a_comparison_with_each_face(twin, is_exact).await;
    assert_eq!(contents().await.state, before.state);
}
