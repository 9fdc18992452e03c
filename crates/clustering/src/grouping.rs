//! The grouping of faces, step by step.

use crate::{
    attachment,
    edges::Edges,
    error::ClusteringError,
    face::Faces,
    groups,
    labels::Labels,
    people,
    settings::{Scope, Settings},
    votes, whispers,
};

/// The person of a face after the grouping.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Assignment {
    /// A person that a face had before.
    Person(u32),
    /// A new person. New people are numbered from 0.
    New(u32),
    /// No person.
    None,
}

/// Groups faces into people, and returns the assignment of each face.
///
/// - Pinned faces keep their person, and those without a person stay without one. With [`Scope::New`], every face that has a
///   person keeps it.
/// - Faces of one image never get one person, unless they keep it.
/// - Fewer than [`Settings::min_faces`] acceptable faces found no new person.
/// - A group takes the existing person with which it shares the most faces. Each person goes to one group, and the pinned
///   faces of the person are always part of it.
///
/// The result is the same for the same faces in the same order. Another order or another seed can change which label wins
/// where the edges of a face lead to several groups.
///
/// # Errors
/// Returns an error if a list names an unknown face, its own face or a face twice, if a list is not in order, if a
/// similarity or a threshold is not finite, or if the weak threshold is higher than the other.
pub fn group(
    faces: &Faces,
    settings: &Settings,
    scope: Scope,
) -> Result<Vec<Assignment>, ClusteringError> {
    settings.check()?;
    faces.check()?;
    let edges = Edges::find(faces, settings);
    let mut labels = Labels::new(&edges, settings, scope);
    whispers::spread(&edges, settings, &mut labels);
    let groups = groups::find(&edges, &labels);
    let votes = votes::count(&edges, &labels, &groups);
    drop(labels);
    let mut assignments = people::assign(faces, &groups, &votes, settings.min_faces);
    attachment::attach(&edges, scope, &mut assignments);
    Ok(assignments)
}
