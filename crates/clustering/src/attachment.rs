//! Faces of poor quality take the person of their neighbors.

use std::{cmp::Reverse, collections::BTreeMap};

use crate::{edges::Edges, grouping::Assignment, images::Holders, settings::Scope};

/// Gives each face that is not acceptable the person with the greatest weight among its acceptable neighbors.
///
/// A face with a greater weight chooses first. No face takes a person that another face of its image has.
pub(crate) fn attach(edges: &Edges, scope: Scope, assignments: &mut [Assignment]) {
    let faces = edges.faces();
    let waiting = faces
        .iter()
        .filter(|&(_, face)| !face.is_acceptable && !scope.keeps(face));
    let mut choices: Vec<(u32, Vec<Choice>)> = waiting
        .map(|(at, _)| (at, choices(edges, assignments, at)))
        .filter(|(_, choices)| !choices.is_empty())
        .collect();
    if choices.is_empty() {
        return;
    }
    choices.sort_by_key(|(_, choices)| choices[0]);
    let mut holders = Holders::new(faces);
    for (at, _) in faces.iter() {
        let assignment = assignments[at as usize];
        if assignment != Assignment::None {
            holders.hold(at, assignment);
        }
    }
    for (at, choices) in choices {
        let mut people = choices.into_iter().map(|(_, person)| person);
        if let Some(person) = people.find(|&person| holders.rival(at, person).is_none()) {
            holders.hold(at, person);
            assignments[at as usize] = person;
        }
    }
}

/// A person that a face can take, with its weight. The best sorts first.
type Choice = (Reverse<u64>, Assignment);

/// Returns the people of the acceptable neighbors of a face, the best first.
fn choices(edges: &Edges, assignments: &[Assignment], face: u32) -> Vec<Choice> {
    let mut weights = BTreeMap::new();
    for edge in edges.acceptable(face) {
        let assignment = assignments[edge.face as usize];
        if assignment != Assignment::None {
            *weights.entry(assignment).or_insert(0) += edges.weight(edge);
        }
    }
    let mut choices: Vec<Choice> = weights
        .into_iter()
        .map(|(person, weight)| (Reverse(weight), person))
        .collect();
    choices.sort_unstable();
    choices
}
