//! What holds for every library.

use fastrand::Rng;
use proptest::prelude::*;

use super::*;

/// Faces and links of a random library. Similarities are rounded, so many are equal.
fn libraries() -> impl Strategy<Value = Library> {
    let face = (
        prop::option::weighted(0.6, 0u32..8),
        prop::option::weighted(0.5, 0u32..4),
        prop::bool::weighted(0.8),
        prop::bool::weighted(0.2),
    );
    let face = face.prop_map(|(image, person, is_acceptable, is_pinned)| Face {
        image,
        person,
        is_acceptable,
        is_pinned,
    });
    let link = (
        any::<prop::sample::Index>(),
        any::<prop::sample::Index>(),
        0u8..10,
        0u8..4,
    );
    let parts = (
        prop::collection::vec(face, 1..24),
        prop::collection::vec(link, 0..120),
    );
    parts.prop_map(|(faces, links)| {
        let count = faces.len();
        let lists = vec![Vec::new(); count];
        let mut library = Library { faces, lists };
        for (a, b, similarity, sides) in links {
            let (a, b) = (a.index(count) as u32, b.index(count) as u32);
            let is_linked = |of: u32, face| {
                library.lists[of as usize]
                    .iter()
                    .any(|entry| entry.face == face)
            };
            if a == b || is_linked(a, b) || is_linked(b, a) {
                continue;
            }
            let similarity = f32::from(similarity) / 10.0;
            library.list(a, b, similarity);
            if sides > 0 {
                library.list(b, a, similarity);
            }
        }
        library
    })
}

fn any_settings() -> impl Strategy<Value = Settings> {
    let numbers = (0u32..4, 0u32..4, 1u32..4, 1u32..20, any::<u64>());
    numbers.prop_map(|(shared, core, min_faces, passes, seed)| Settings {
        shared,
        core,
        min_faces,
        passes,
        seed,
        ..settings()
    })
}

/// Checks what every result promises.
fn check(library: &Library, settings: &Settings, scope: Scope, found: &[Assignment]) {
    assert_eq!(found.len(), library.faces.len());
    let keeps = |face: &Face| face.is_pinned || scope == Scope::New && face.person.is_some();
    for (face, &found) in library.faces.iter().zip(found) {
        if keeps(face) {
            let kept = face.person.map_or(Assignment::None, Assignment::Person);
            assert_eq!(found, kept);
        }
        if let Assignment::Person(person) = found {
            assert!(library.faces.iter().any(|face| face.person == Some(person)));
        }
    }
    let faces = || library.faces.iter().zip(found);
    for (at, (face, found)) in faces().enumerate() {
        let others = faces()
            .take(at)
            .filter(|(other, _)| face.image.is_some() && other.image == face.image);
        for (other, other_found) in others {
            let is_apart = found != other_found || *found == Assignment::None;
            assert!(is_apart || keeps(face) && keeps(other));
        }
    }
    let new = found.iter().filter_map(|found| match found {
        Assignment::New(number) => Some(*number),
        _ => None,
    });
    for number in 0..new.max().map_or(0, |last| last + 1) {
        let founders = faces()
            .filter(|(face, found)| face.is_acceptable && **found == Assignment::New(number));
        assert!(founders.count() >= settings.min_faces as usize);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn every_result_keeps_the_promises(library in libraries(), settings in any_settings()) {
        for scope in [Scope::Full, Scope::New] {
            let found = library.group(&settings, scope);
            check(&library, &settings, scope, &found);
            prop_assert_eq!(library.group(&settings, scope), found);
        }
    }

    #[test]
    fn the_order_of_the_faces_does_not_matter_if_similarities_differ(
        library in libraries(),
        settings in any_settings(),
        seed in any::<u64>(),
    ) {
        let mut random = Rng::with_seed(seed);
        let count = library.faces.len();
        let mut places: Vec<u32> = (0..count as u32).collect();
        random.shuffle(&mut places);
        // The people are left out: equal overlaps depend on the order.
        let mut here = Library::new(count as u32);
        let mut there = here.clone();
        for (at, face) in library.faces.iter().enumerate() {
            let face = Face { person: None, is_pinned: false, ..*face };
            here.faces[at] = face;
            there.faces[places[at] as usize] = face;
        }
        for (of, list) in (0..).zip(&library.lists) {
            for entry in list {
                let similarity = entry.similarity + signed(&mut random) * 0.04;
                here.list(of, entry.face, similarity);
                there.list(places[of as usize], places[entry.face as usize], similarity);
            }
        }
        let [here, there] = [here, there].map(|library| library.group(&settings, Scope::Full));
        let moved: Vec<Assignment> = places.iter().map(|&place| there[place as usize]).collect();
        prop_assert_eq!(partition(&moved), partition(&here));
    }
}
