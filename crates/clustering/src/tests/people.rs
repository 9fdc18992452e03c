//! Which person a group is.

use super::*;

use Assignment::{New, None as Nobody, Person};

#[test]
fn a_group_takes_the_person_with_the_largest_overlap() {
    let mut library = Library::new(5);
    library.link_all(&[0, 1, 2, 3, 4], 0.8);
    library.give(&[0, 1], 3);
    library.give(&[2, 3, 4], 8);
    assert_eq!(library.full(), [Person(8); 5]);
}

#[test]
fn equal_overlaps_choose_the_lower_person() {
    let mut library = Library::new(4);
    library.link_all(&[0, 1, 2, 3], 0.8);
    library.give(&[0, 1], 8);
    library.give(&[2, 3], 3);
    assert_eq!(library.full(), [Person(3); 4]);
}

#[test]
fn a_person_goes_to_one_group() {
    let mut library = Library::new(6);
    library.link_all(&[0, 1], 0.8);
    library.link_all(&[2, 3, 4], 0.8);
    library.give(&[0, 1, 2, 3, 4], 3);
    library.give(&[5], 4);
    library.link(1, 5, 0.8);
    assert_eq!(library.full(), [4, 4, 3, 3, 3, 4].map(Person));
    library.faces[5].person = None;
    assert_eq!(
        library.full(),
        [New(0), New(0), Person(3), Person(3), Person(3), New(0)]
    );
}

#[test]
fn few_faces_found_no_person_but_keep_one() {
    let mut library = Library::new(7);
    library.link_all(&[0, 1, 2], 0.8);
    library.link_all(&[3, 4], 0.8);
    library.give(&[5], 7);
    library.pin(&[6], Some(9));
    let expected = [New(0), New(0), New(0), Nobody, Nobody, Person(7), Person(9)];
    let found = library.full_with(|settings| settings.min_faces = 3);
    assert_eq!(found, expected);
}

#[test]
fn a_poor_face_takes_the_person_with_the_greatest_weight() {
    let mut library = Library::new(6);
    library.link_all(&[0, 1, 2], 0.9);
    library.link_all(&[3, 4], 0.9);
    library.blur(&[5]);
    (0..3).for_each(|face| library.link(5, face, 0.62));
    library.link(5, 3, 0.7);
    assert_eq!(library.full()[5], New(0));
    library.link(5, 4, 0.85);
    assert_eq!(library.full()[5], New(1));
}

#[test]
fn new_people_are_numbered_by_their_first_face() {
    let mut library = Library::new(5);
    library.link(1, 4, 0.8);
    library.link(2, 3, 0.8);
    assert_eq!(library.full(), [New(0), New(1), New(2), New(2), New(1)]);
}
