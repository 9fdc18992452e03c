//! The label of each face, and which faces pass theirs on.

use crate::{
    edges::Edges,
    face::{Face, Faces},
    settings::{Scope, Settings},
};

/// A face without a label.
const NONE: u32 = u32::MAX;

/// The labels of all faces.
///
/// The label of a person is the number of faces plus the position of the person among all people. Every other label is the
/// number of the face that began with it.
pub(crate) struct Labels {
    labels: Vec<u32>,
    roles: Vec<Role>,
    /// The people that the faces have now, ascending.
    people: Vec<u32>,
}

/// What a face does while labels spread.
#[derive(Clone, Copy, Default)]
struct Role {
    /// Its label may change.
    is_free: bool,
    /// It is acceptable, and other faces hear it.
    spreads: bool,
    /// It has enough edges to be heard by every neighbor.
    is_core: bool,
    /// It hears only core faces, because it has one as a neighbor.
    hears_core: bool,
}

impl Labels {
    /// Gives a label to each face: that of its person if it keeps it, or its own.
    pub(crate) fn new(edges: &Edges, settings: &Settings, scope: Scope) -> Self {
        let faces = edges.faces();
        let people = people(faces);
        let mut labels = vec![NONE; faces.len()];
        for (at, face) in faces.iter() {
            labels[at as usize] = match face.person {
                Some(person) if scope.keeps(face) => label(faces, &people, person),
                _ if face.is_acceptable && !face.is_pinned => at,
                _ => NONE,
            };
        }
        let roles = roles(edges, settings, scope);
        Self {
            labels,
            roles,
            people,
        }
    }

    /// Returns the number of labels, used or not.
    pub(crate) fn count(&self) -> usize {
        self.labels.len() + self.people.len()
    }

    /// Returns the label of a face.
    pub(crate) fn get(&self, face: u32) -> Option<u32> {
        let label = self.labels[face as usize];
        (label != NONE).then_some(label)
    }

    /// Gives a label to a face, or takes it.
    pub(crate) fn set(&mut self, face: u32, label: Option<u32>) {
        self.labels[face as usize] = label.unwrap_or(NONE);
    }

    /// Returns whether the label of a face may change.
    pub(crate) fn is_free(&self, face: u32) -> bool {
        self.roles[face as usize].is_free
    }

    /// Returns whether other faces hear a face.
    pub(crate) fn spreads(&self, face: u32) -> bool {
        self.roles[face as usize].spreads
    }

    /// Returns the label of `other` if `face`, its neighbor, hears it.
    pub(crate) fn heard(&self, face: u32, other: u32) -> Option<u32> {
        let (role, other_role) = (self.roles[face as usize], self.roles[other as usize]);
        let is_heard = other_role.spreads && (other_role.is_core || !role.hears_core);
        is_heard.then(|| self.get(other)).flatten()
    }

    /// Returns the person of a label, or `None` if it is the label of a face.
    pub(crate) fn person(&self, label: u32) -> Option<u32> {
        let at = (label as usize).checked_sub(self.labels.len())?;
        self.people.get(at).copied()
    }
}

impl Scope {
    /// Returns whether a face keeps what it has.
    pub(crate) fn keeps(self, face: Face) -> bool {
        face.is_pinned || self == Self::New && face.person.is_some()
    }
}

/// Returns all people, ascending.
fn people(faces: &Faces) -> Vec<u32> {
    let mut people: Vec<u32> = faces.iter().filter_map(|(_, face)| face.person).collect();
    people.sort_unstable();
    people.dedup();
    people
}

/// Returns the label of a person.
fn label(faces: &Faces, people: &[u32], person: u32) -> u32 {
    (faces.len() + people.partition_point(|&other| other < person)) as u32
}

/// Returns the role of each face.
fn roles(edges: &Edges, settings: &Settings, scope: Scope) -> Vec<Role> {
    let faces = edges.faces();
    let core = settings.core as usize;
    let is_core = |at| edges.acceptable(at).take(core).count() == core;
    let role = |(at, face): (u32, Face)| Role {
        is_free: face.is_acceptable && !scope.keeps(face),
        spreads: face.is_acceptable && !face.is_nobody(),
        is_core: face.is_acceptable && !face.is_nobody() && is_core(at),
        hears_core: false,
    };
    let mut roles: Vec<Role> = faces.iter().map(role).collect();
    for (at, _) in faces.iter() {
        let hears_core = edges.of(at).any(|edge| roles[edge.face as usize].is_core);
        roles[at as usize].hears_core = hears_core;
    }
    roles
}
