//! Large libraries. Each test would take hours if a step needed quadratic time.

use super::*;

const FACES: u32 = 20_000;

/// Returns people with 100 faces each. The neighbors of a face are 32 others of its person, in no order of their own.
fn people() -> Faces {
    let mut random = Rng::with_seed(4);
    let mut faces = Faces::with_capacity(FACES as usize, 32);
    for face in 0..FACES {
        let first = face / 100 * 100;
        let neighbors = (0..32u8).map(|at| Neighbor {
            face: first + (face + 1 + 3 * u32::from(at)) % 100,
            similarity: 0.9 - (f32::from(at) + signed(&mut random) * 0.1) / 100.0,
        });
        faces.push(acceptable(), &neighbors.collect::<Vec<_>>());
    }
    faces
}

fn acceptable() -> Face {
    Face {
        is_acceptable: true,
        ..Face::default()
    }
}

#[test]
fn many_faces_are_grouped() {
    let found = group(&people(), &settings(), Scope::Full).unwrap();
    let pairs: Vec<_> = (0..)
        .zip(&found)
        .map(|(face, found)| (*found, face / 100))
        .collect();
    let pairs: std::collections::BTreeSet<(Assignment, u32)> = pairs.into_iter().collect();
    let people: std::collections::BTreeSet<Assignment> = found.into_iter().collect();
    // No group has faces of two people. Chinese whispers leaves some people in two groups, because all faces of a person here
    // have about the same number of equally similar neighbors.
    assert_eq!(pairs.len(), people.len());
    assert!((200..=220).contains(&people.len()), "{}", people.len());
}

#[test]
fn a_face_that_is_in_all_lists_is_no_obstacle() {
    let mut faces = Faces::default();
    faces.push(acceptable(), &[]);
    for face in 1..FACES {
        let other = if face % 2 == 0 { face - 1 } else { face + 1 };
        let entry = |face, similarity| Neighbor { face, similarity };
        let pair = (other < FACES).then(|| entry(other, 0.7));
        let list: Vec<Neighbor> = pair.into_iter().chain([entry(0, 0.55)]).collect();
        faces.push(acceptable(), &list);
    }
    let found = group(&faces, &settings(), Scope::Full).unwrap();
    for face in (1..FACES as usize - 1).step_by(2) {
        assert_eq!(found[face], found[face + 1]);
    }
}

#[test]
fn an_image_with_all_faces_is_no_obstacle() {
    let mut faces = Faces::default();
    for face in 0..FACES {
        let mut list = Vec::new();
        if face >= FACES / 2 {
            list.push(Neighbor {
                face: face % 100,
                similarity: 0.7,
            });
        }
        let image = (face < FACES / 2).then_some(0);
        faces.push(
            Face {
                image,
                ..acceptable()
            },
            &list,
        );
    }
    let found = group(&faces, &settings(), Scope::Full).unwrap();
    let mut first = found[..FACES as usize / 2].to_vec();
    first.sort_unstable();
    first.dedup();
    assert_eq!(first.len(), FACES as usize / 2);
}
