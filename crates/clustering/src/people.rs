//! Which person each group is.

use std::{
    cmp::Reverse,
    collections::{HashMap, HashSet},
};

use crate::{face::Faces, grouping::Assignment, groups::Group, images::Holders};

/// Gives each group its person, and returns the assignment of every face.
///
/// Groups that keep a person have it. A group for which a person has voted joins the person. Then each other group takes the
/// person with the largest overlap, as long as no group with a larger overlap has taken it. The rest found new people,
/// numbered by their first face, if they have at least `min_faces` faces.
pub(crate) fn assign(
    faces: &Faces,
    groups: &[Group],
    votes: &[Option<u32>],
    min_faces: u32,
) -> Vec<Assignment> {
    let claims = claims(faces, groups, votes);
    let mut assignments = vec![Assignment::None; faces.len()];
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
        let members = group.faces.iter();
        members.for_each(|&face| assignments[face as usize] = assignment);
    }
    part_images(faces, groups, &claims, &mut assignments);
    assignments
}

/// The faces that a group and a person have in common: their number, the person, and the position of the group.
type Overlap = (Reverse<usize>, u32, usize);

/// Returns the person that each group without a person takes.
///
/// A group that keeps a person counts as the group of this person only if it has the largest overlap. Otherwise a user who
/// adds a single face to a person would take the person from its other faces. A person never wins a group of another
/// person's faces by votes.
fn claims(faces: &Faces, groups: &[Group], votes: &[Option<u32>]) -> Vec<Option<u32>> {
    let mut claims = vec![None; groups.len()];
    let mut all = Vec::new();
    for (at, group) in groups.iter().enumerate() {
        let overlaps = overlaps(faces, group, at);
        let largest = overlaps.iter().min().map(|&(_, person, _)| person);
        match votes[at] {
            Some(voter) if largest.is_none_or(|person| person == voter) => claims[at] = Some(voter),
            _ => all.extend(overlaps),
        }
    }
    all.sort_unstable();
    let mut taken = HashSet::new();
    for (_, person, at) in all {
        if claims[at].is_none() && taken.insert(person) {
            claims[at] = Some(person);
        }
    }
    claims
}

/// Returns the overlaps of a group with the people that its faces may have brought. Pinned faces do not count.
fn overlaps(faces: &Faces, group: &Group, at: usize) -> Vec<Overlap> {
    let members = group.faces.iter().map(|&face| faces.get(face));
    let free = members.filter(|face| !face.is_pinned);
    let mut people: Vec<u32> = free.filter_map(|face| face.person).collect();
    people.sort_unstable();
    let overlaps = people.chunk_by(|a, b| a == b);
    let overlaps = overlaps.map(|of_person| (Reverse(of_person.len()), of_person[0], at));
    let may_take = |person| group.person.is_none_or(|kept| kept == person);
    overlaps
        .filter(|&(_, person, _)| may_take(person))
        .collect()
}

/// Takes the person from faces of groups that joined a person's kept faces, if one of the person's faces has their image.
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
    let joined = groups.iter().zip(claims);
    let joined = joined.filter(|(group, _)| group.person.is_none());
    let joined = joined.filter_map(|(group, claim)| {
        let person = (*claim)?;
        Some((person, *kept.get(&person)?, group))
    });
    let joined: Vec<(u32, &Group, &Group)> = joined.collect();
    if joined.is_empty() {
        return;
    }
    let mut holders = Holders::new(faces);
    for (person, kept, _) in &joined {
        kept.faces
            .iter()
            .for_each(|&face| holders.hold(face, *person));
    }
    for (person, _, group) in joined {
        for &face in &group.faces {
            if holders.rival(face, person).is_some() {
                assignments[face as usize] = Assignment::None;
            } else {
                holders.hold(face, person);
            }
        }
    }
}
