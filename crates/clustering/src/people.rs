//! Which person each group is.

use std::collections::{HashMap, HashSet};

use crate::{face::Faces, grouping::Assignment, groups::Group, images::Holders};

/// Gives each group its person, and returns the assignment of every face.
///
/// Groups that keep a person have it. Then each other group takes the person with the largest overlap, as long as no group
/// with a larger overlap has taken it. The rest found new people, numbered by their first face, if they have at least
/// `min_faces` faces.
pub(crate) fn assign(faces: &Faces, groups: &[Group], min_faces: u32) -> Vec<Assignment> {
    let claims = claims(faces, groups);
    let mut assignments = vec![Assignment::None; faces.len()];
    for (at, face) in faces.iter() {
        if let (true, Some(person)) = (face.is_pinned, face.person) {
            assignments[at as usize] = Assignment::Person(person);
        }
    }
    let mut new = 0;
    for (group, claim) in groups.iter().zip(&claims) {
        let assignment = match group.person.or(*claim) {
            Some(person) => Assignment::Person(person),
            None if group.faces.len() >= min_faces as usize => {
                new += 1;
                Assignment::New(new - 1)
            }
            None => Assignment::None,
        };
        group
            .faces
            .iter()
            .for_each(|&face| assignments[face as usize] = assignment);
    }
    part_images(faces, groups, &claims, &mut assignments);
    assignments
}

/// Returns the person that each group without a person takes.
///
/// A group with pinned faces keeps its person, whatever the others take. It counts as the group of the person only if it has
/// the largest overlap. Otherwise a user who adds a single face to a person would take the person from its other faces.
fn claims(faces: &Faces, groups: &[Group]) -> Vec<Option<u32>> {
    let mut overlaps = Vec::new();
    for (at, group) in groups.iter().enumerate() {
        let free = group
            .faces
            .iter()
            .map(|&face| faces.get(face))
            .filter(|face| !face.is_pinned);
        let mut people: Vec<u32> = free.filter_map(|face| face.person).collect();
        people.sort_unstable();
        for of_person in people.chunk_by(|a, b| a == b) {
            if group.person.is_none_or(|person| person == of_person[0]) {
                overlaps.push((std::cmp::Reverse(of_person.len()), of_person[0], at));
            }
        }
    }
    overlaps.sort_unstable();
    let mut claims = vec![None; groups.len()];
    let mut taken = HashSet::new();
    for (_, person, at) in overlaps {
        if claims[at].is_none() && taken.insert(person) {
            claims[at] = Some(person);
        }
    }
    claims
}

/// Takes the person from faces of a group that joined the pinned faces of the person, if one of these has their image.
fn part_images(
    faces: &Faces,
    groups: &[Group],
    claims: &[Option<u32>],
    assignments: &mut [Assignment],
) {
    let kept = groups
        .iter()
        .filter_map(|group| Some((group.person?, group)));
    let kept: HashMap<u32, &Group> = kept.collect();
    let joined = groups
        .iter()
        .zip(claims)
        .filter(|(group, _)| group.person.is_none());
    let mut holders = None;
    for (group, claim) in joined {
        let Some((&person, kept)) = claim.as_ref().and_then(|person| kept.get_key_value(person))
        else {
            continue;
        };
        let holders = holders.get_or_insert_with(|| Holders::new(faces));
        kept.faces
            .iter()
            .for_each(|&face| holders.hold(face, person));
        for &face in &group.faces {
            if holders.rival(face, person).is_some() {
                assignments[face as usize] = Assignment::None;
            }
        }
    }
}
