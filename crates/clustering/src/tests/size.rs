//! Large libraries. Each test would take hours if a step needed quadratic time.

use std::collections::BTreeSet;

use super::*;

const FACES: u32 = 20_000;

#[test]
fn many_faces_are_grouped() {
    // People with 100 faces each. The neighbors of a face are 32 others of its person, in no order of their own.
    let mut random = Rng::with_seed(4);
    let mut library = Library::new(FACES);
    for face in 0..FACES {
        for at in 0..32u8 {
            let other = face / 100 * 100 + (face + 1 + 3 * u32::from(at)) % 100;
            let similarity = 0.9 - (f32::from(at) + signed(&mut random) * 0.1) / 100.0;
            library.list(face, other, similarity);
        }
    }
    let found = library.full();
    let pairs = (0..).zip(&found).map(|(face, found)| (*found, face / 100));
    let pairs: BTreeSet<(Assignment, u32)> = pairs.collect();
    let people: BTreeSet<Assignment> = found.iter().copied().collect();
    // No group has faces of two people. Chinese whispers leaves some people in two groups, because all faces of a person here
    // have about the same number of equally similar neighbors.
    assert_eq!(pairs.len(), people.len());
    assert!((200..=220).contains(&people.len()), "{}", people.len());
}

#[test]
fn a_face_that_is_in_all_lists_is_no_obstacle() {
    let mut library = Library::new(FACES);
    for face in 1..FACES {
        let other = if face % 2 == 0 { face - 1 } else { face + 1 };
        if other < FACES {
            library.list(face, other, 0.7);
        }
        library.list(face, 0, 0.55);
    }
    let found = library.full();
    for face in (1..FACES as usize - 1).step_by(2) {
        assert_eq!(found[face], found[face + 1]);
    }
}

#[test]
fn an_image_with_all_faces_is_no_obstacle() {
    let mut library = Library::new(FACES);
    let half: Vec<u32> = (0..FACES / 2).collect();
    library.show_together(&half, 0);
    for face in FACES / 2..FACES {
        library.list(face, face % 100, 0.7);
    }
    let found = library.full();
    let first: BTreeSet<Assignment> = found.iter().take(half.len()).copied().collect();
    assert_eq!(first.len(), half.len());
}
