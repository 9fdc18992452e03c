//! Which faces are connected, and which connections are cut.

use super::*;
use crate::edges::Edges;

#[test]
fn the_threshold_connects_two_faces_alone() {
    let mut library = Library::new(4);
    library.link(0, 1, 0.5);
    library.link(2, 3, 0.499);
    assert_eq!(partition(&library.full()), [0, 0, 2, 3].map(Some));
}

#[test]
fn the_list_of_one_of_two_faces_connects_them() {
    let mut library = Library::new(3);
    library.list(0, 2, 0.7);
    library.list(1, 2, 0.7);
    assert_eq!(partition(&library.full()), [0, 0, 0].map(Some));
}

#[test]
fn a_weak_edge_needs_shared_neighbors_and_both_lists() {
    let group = |similarity, shared, is_mutual: bool| {
        let mut library = Library::new(4);
        library.list(0, 1, similarity);
        if is_mutual {
            library.list(1, 0, similarity);
        }
        for face in [0, 1] {
            library.link(face, 2, 0.3);
            library.link(face, 3, 0.3);
        }
        partition(&library.full_with(|settings| {
            settings.shared = shared;
            // Without the rule for bridges.
            settings.bridge_threshold = 0.0;
        }))
    };
    let [together, apart] = [[0, 0, 2, 3].map(Some), [0, 1, 2, 3].map(Some)];
    assert_eq!(group(0.4, 2, true), together);
    assert_eq!(group(0.4, 3, true), apart);
    assert_eq!(group(0.4, 2, false), apart);
    assert_eq!(group(0.39, 2, true), apart);
}

#[test]
fn a_weak_edge_needs_a_common_connected_face() {
    let mut library = Library::new(7);
    // These two share neighbors that are connected with neither.
    library.link(0, 1, 0.45);
    for face in [0, 1] {
        library.link(face, 2, 0.3);
        library.link(face, 3, 0.3);
    }
    library.link_all(&[4, 5, 6], 0.45);
    let found = library.full_with(|settings| settings.shared = 1);
    assert_eq!(partition(&found), [0, 1, 2, 3, 4, 4, 4].map(Some));
}

#[test]
fn a_bridge_stays_if_it_is_similar_enough_or_the_best_of_both_faces() {
    let group = |similarity| {
        let mut library = Library::new(3);
        library.link(0, 1, 0.58);
        library.link(1, 2, similarity);
        partition(&library.full())
    };
    assert_eq!(group(0.57), [0, 0, 2].map(Some));
    assert_eq!(group(0.6), [0, 1, 1].map(Some));
    let mut chain = Library::new(3);
    chain.link(0, 1, 0.7);
    chain.link(1, 2, 0.6);
    assert_eq!(partition(&chain.full()), [0, 0, 0].map(Some));
}

#[test]
fn a_common_face_counts_even_if_only_its_own_list_names_the_others() {
    let mut library = Library::new(4);
    library.link(0, 1, 0.55);
    library.list(2, 0, 0.58);
    library.list(2, 1, 0.58);
    // It makes this list the longest, so the others have room.
    library.list(2, 3, 0.1);
    library.link(0, 3, 0.56);
    let faces = library.faces();
    let edges = Edges::find(&faces, &settings());
    let of = |face| {
        let mut of: Vec<u32> = edges.of(face).map(|edge| edge.face).collect();
        of.sort_unstable();
        of
    };
    assert_eq!(
        [of(0), of(1), of(2), of(3)],
        [vec![1, 2], vec![0, 2], vec![0, 1], vec![]]
    );
}

#[test]
fn faces_of_poor_quality_connect_nobody() {
    let mut library = Library::new(5);
    library.link(0, 2, 0.9);
    library.link(1, 2, 0.8);
    library.link(3, 4, 0.9);
    library.blur(&[2, 3, 4]);
    let expected = [Some(0), Some(1), Some(0), None, None];
    assert_eq!(partition(&library.full()), expected);
}

#[test]
fn a_common_face_of_poor_quality_supports_no_bridge() {
    let mut library = Library::new(4);
    library.link(0, 1, 0.7);
    library.link(1, 2, 0.55);
    library.link(1, 3, 0.9);
    library.link(2, 3, 0.95);
    library.blur(&[3]);
    assert_eq!(partition(&library.full()), [0, 0, 2, 2].map(Some));
}

#[test]
fn a_face_hears_only_core_faces_if_it_has_any() {
    let mut library = Library::new(7);
    library.link_all(&[0, 1, 2, 3], 0.9);
    library.link(0, 4, 0.61);
    library.link(4, 5, 0.9);
    library.link(4, 6, 0.9);
    let group = |core| partition(&library.full_with(|settings| settings.core = core));
    assert_eq!(group(1), [0, 0, 0, 0, 4, 4, 4].map(Some));
    assert_eq!(group(3), [0; 7].map(Some));
}

#[test]
fn two_faces_without_a_core_face_stay_together() {
    let mut library = Library::new(2);
    library.link(0, 1, 0.9);
    let found = library.full_with(|settings| settings.core = 5);
    assert_eq!(partition(&found), [0, 0].map(Some));
}

#[test]
fn a_single_edge_between_two_groups_does_not_join_them() {
    let mut library = Library::new(8);
    library.link_all(&[0, 1, 2, 3], 0.7);
    library.link_all(&[4, 5, 6, 7], 0.7);
    library.link(3, 4, 0.65);
    library.assert_with_any_seed(&[0, 0, 0, 0, 4, 4, 4, 4].map(Some));
}
