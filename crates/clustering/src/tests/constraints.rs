//! Images and the decisions of users.

use super::*;

use Assignment::{New, None as Nobody, Person};

#[test]
fn faces_of_one_image_are_never_together() {
    let mut library = Library::new(3);
    library.link(0, 1, 0.9);
    library.link(0, 2, 0.9);
    library.link(1, 2, 0.7);
    library.show_together(&[0, 1], 5);
    library.assert_with_any_seed(&[0, 1, 0].map(Some));
}

#[test]
fn the_loser_of_an_image_is_unassigned_if_one_face_is_too_few() {
    let mut library = Library::new(3);
    library.link(0, 2, 0.9);
    library.link(1, 2, 0.7);
    library.show_together(&[0, 1], 5);
    let found = library.full_with(|settings| settings.min_faces = 2);
    assert_eq!(found, [New(0), Nobody, New(0)]);
}

#[test]
fn twins_who_share_images_become_two_people() {
    let mut library = Library::new(10);
    for image in 0..5 {
        library.show_together(&[image, image + 5], image);
        for other in 0..image {
            library.link(image, other, 0.8);
            library.link(image + 5, other + 5, 0.8);
            library.link(image, other + 5, 0.75);
            library.link(image + 5, other, 0.75);
        }
    }
    library.assert_with_any_seed(&[0, 0, 0, 0, 0, 5, 5, 5, 5, 5].map(Some));
}

#[test]
fn only_one_poor_face_of_an_image_is_attached_to_a_person() {
    let mut library = Library::new(5);
    library.link(0, 1, 0.7);
    library.link(0, 2, 0.9);
    library.link(1, 3, 0.6);
    library.blur(&[1, 2]);
    library.show_together(&[1, 2], 5);
    assert_eq!(
        partition(&library.full()),
        [Some(0), Some(1), Some(0), Some(1), Some(4)]
    );
}

#[test]
fn pinned_faces_keep_their_person_and_pass_it_on() {
    let mut library = Library::new(6);
    library.link_all(&[0, 1, 2], 0.7);
    library.link_all(&[3, 4], 0.7);
    library.pin(&[0, 5], Some(7));
    library.pin(&[3], Some(9));
    let expected = [7, 7, 7, 9, 9, 7].map(Person);
    assert_eq!(library.full(), expected);
    assert_eq!(library.group(&settings(), Scope::New), expected);
}

#[test]
fn one_pinned_face_names_its_whole_group() {
    let mut library = Library::new(8);
    library.link_all(&[0, 1, 2, 3, 4, 5, 6, 7], 0.8);
    for pinned in 0..8 {
        let mut library = library.clone();
        library.pin(&[pinned], Some(7));
        assert_eq!(library.full(), [Person(7); 8]);
        assert_eq!(library.group(&settings(), Scope::New), [Person(7); 8]);
    }
}

#[test]
fn a_pinned_face_does_not_name_a_group_of_another_person() {
    let mut library = Library::new(6);
    library.link_all(&[0, 1, 2, 3, 4, 5], 0.8);
    library.give(&[0, 1, 2], 1);
    library.pin(&[5], Some(7));
    let expected = [1, 1, 1, 1, 1, 7].map(Person);
    assert_eq!(library.full(), expected);
}

#[test]
fn pinned_faces_of_one_image_may_be_one_person() {
    let mut library = Library::new(3);
    library.pin(&[0, 1], Some(7));
    library.link(0, 2, 0.9);
    library.show_together(&[0, 1, 2], 5);
    assert_eq!(library.full(), [Person(7), Person(7), New(0)]);
}

#[test]
fn a_face_that_is_pinned_to_nobody_stays_so_and_connects_nobody() {
    let mut library = Library::new(3);
    library.link(0, 1, 0.9);
    library.link(1, 2, 0.9);
    library.pin(&[1], None);
    assert_eq!(library.full(), [New(0), Nobody, New(1)]);
}

#[test]
fn a_pinned_face_of_poor_quality_keeps_its_person_and_does_not_pass_it_on() {
    let mut library = Library::new(2);
    library.link(0, 1, 0.9);
    library.pin(&[0], Some(7));
    library.blur(&[0]);
    assert_eq!(library.full(), [Person(7), New(0)]);
}

#[test]
fn a_face_that_a_user_moves_is_not_followed() {
    let mut library = Library::new(6);
    library.link_all(&[0, 1, 2, 3], 0.8);
    library.link_all(&[4, 5], 0.8);
    library.give(&[0, 1, 2, 3], 1);
    library.give(&[4, 5], 2);
    library.pin(&[0], Some(2));
    let expected = [2, 1, 1, 1, 2, 2].map(Person);
    assert_eq!(library.full(), expected);
    // A new face that is similar to all of them goes to the three others.
    library.faces.push(library.faces[1]);
    library.faces[6].person = None;
    library.lists.push(Vec::new());
    (0..4).for_each(|face| library.link(6, face, 0.8));
    assert_eq!(library.full()[..6], expected);
    assert_eq!(library.full()[6], Person(1));
}

#[test]
fn the_last_face_of_a_person_is_not_absorbed_through_a_moved_face() {
    let mut library = Library::new(2);
    library.link(0, 1, 0.9);
    library.give(&[1], 1);
    library.pin(&[0], Some(2));
    assert_eq!(library.full(), [Person(2), Person(1)]);
}

#[test]
fn merges_and_splits_of_users_survive() {
    let mut library = Library::new(12);
    let [first, second, third] = [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]];
    [first, second, third]
        .iter()
        .for_each(|faces| library.link_all(faces, 0.8));
    library.give(&first, 1);
    // The user has merged all faces of another person into the first, and has split the third person.
    library.pin(&second, Some(1));
    library.give(&[8, 9], 3);
    library.pin(&[10, 11], Some(4));
    let expected = [1, 1, 1, 1, 1, 1, 1, 1, 3, 3, 4, 4].map(Person);
    for seed in 0..20 {
        let found = library.full_with(|settings| settings.seed = seed);
        assert_eq!(found, expected);
    }
}

#[test]
fn pinned_faces_win_their_images_from_a_group_that_joins_them() {
    let mut library = Library::new(4);
    library.link_all(&[0, 1, 2], 0.8);
    library.give(&[0, 1, 2], 1);
    library.pin(&[3], Some(1));
    library.show_together(&[2, 3], 5);
    assert_eq!(library.full(), [Person(1), Person(1), Nobody, Person(1)]);
}
