//! Tests of the crate through its interface.

use fastrand::Rng;

use super::*;

mod constraints;
mod edges;
mod errors;
mod metrics;
mod people;
mod properties;
mod size;
mod vectors;

/// Faces with the similarities of some pairs.
#[derive(Clone, Debug)]
struct Library {
    faces: Vec<Face>,
    lists: Vec<Vec<Neighbor>>,
}

impl Library {
    /// Creates acceptable faces, each in an image of its own.
    fn new(faces: u32) -> Self {
        let face = Face {
            is_acceptable: true,
            ..Face::default()
        };
        Self {
            faces: vec![face; faces as usize],
            lists: vec![Vec::new(); faces as usize],
        }
    }

    /// Adds `face` to the list of `of`.
    fn list(&mut self, of: u32, face: u32, similarity: f32) {
        self.lists[of as usize].push(Neighbor { face, similarity });
    }

    /// Adds two faces to the lists of each other.
    fn link(&mut self, a: u32, b: u32, similarity: f32) {
        self.list(a, b, similarity);
        self.list(b, a, similarity);
    }

    /// Links all pairs of the faces.
    fn link_all(&mut self, faces: &[u32], similarity: f32) {
        for (at, &a) in faces.iter().enumerate() {
            faces[..at]
                .iter()
                .for_each(|&b| self.link(a, b, similarity));
        }
    }

    fn change(&mut self, faces: &[u32], change: impl Fn(&mut Face)) {
        for &face in faces {
            change(&mut self.faces[face as usize]);
        }
    }

    /// Gives the person to the faces.
    fn give(&mut self, faces: &[u32], person: u32) {
        self.change(faces, |face| face.person = Some(person));
    }

    /// Pins the faces to the person.
    fn pin(&mut self, faces: &[u32], person: Option<u32>) {
        self.change(faces, |face| {
            (face.person, face.is_pinned) = (person, true);
        });
    }

    /// Puts the faces into one image.
    fn show_together(&mut self, faces: &[u32], image: u32) {
        self.change(faces, |face| face.image = Some(image));
    }

    /// Marks the faces as not acceptable.
    fn blur(&mut self, faces: &[u32]) {
        self.change(faces, |face| face.is_acceptable = false);
    }

    fn faces(&self) -> Faces {
        let mut faces = Faces::with_capacity(self.faces.len(), 8);
        for (&face, list) in self.faces.iter().zip(&self.lists) {
            let mut list = list.clone();
            list.sort_by(|a, b| b.similarity.total_cmp(&a.similarity));
            faces.push(face, &list);
        }
        faces
    }

    fn group(&self, settings: &Settings, scope: Scope) -> Vec<Assignment> {
        group(&self.faces(), settings, scope).unwrap()
    }

    fn full(&self) -> Vec<Assignment> {
        self.full_with(|_| ())
    }

    /// Groups all faces with the settings that `change` makes of the usual ones.
    fn full_with(&self, change: impl FnOnce(&mut Settings)) -> Vec<Assignment> {
        let mut settings = settings();
        change(&mut settings);
        self.group(&settings, Scope::Full)
    }

    /// Asserts that all faces have these assignments with every seed.
    fn assert_with_any_seed(&self, expected: &[Option<usize>]) {
        for seed in 0..20 {
            let found = self.full_with(|settings| settings.seed = seed);
            assert_eq!(partition(&found), expected);
        }
    }
}

/// Returns the settings of most tests: a single face founds a person, so each group is visible.
fn settings() -> Settings {
    Settings {
        threshold: 0.5,
        weak_threshold: 0.4,
        bridge_threshold: 0.6,
        shared: 2,
        core: 1,
        min_faces: 1,
        passes: 20,
        seed: 0,
    }
}

/// Returns the number of the first face with the assignment of each face, or `None` without a person.
fn partition(assignments: &[Assignment]) -> Vec<Option<usize>> {
    let first = |assignment| assignments.iter().position(|other| other == assignment);
    let is_person = |assignment: &&Assignment| **assignment != Assignment::None;
    assignments
        .iter()
        .map(|assignment| Some(assignment).filter(is_person).and_then(first))
        .collect()
}

/// Returns a number from −1 to 1.
fn signed(random: &mut Rng) -> f32 {
    2.0 * random.f32() - 1.0
}
