//! Vectors of faces, and the comparison of each with a query.

use std::ops::Range;

use super::photographs::Photographs;

/// The cosine of a query and its mate. Two photographs of one person have such a cosine with the default embedder.
const MATE: f32 = 0.6;

/// Vectors of length 1 that are enrolled, and those that are searched for.
pub(super) struct Vectors {
    dim: usize,
    values: Vec<f32>,
    queries: Queries,
}

/// The vectors that are searched for.
enum Queries {
    /// New vectors of random people who have this many faces each.
    Synthetic { faces_of_person: usize },
    /// Photographs of people of whom others are enrolled.
    Photographs {
        faces: Vec<Vec<f32>>,
        /// The first enrolled vector of a stranger.
        first_stranger: usize,
    },
}

impl Vectors {
    /// Makes random vectors.
    pub(super) fn random(count: usize, dim: usize, faces_of_person: usize) -> Self {
        let faces_of_person = faces_of_person.max(1);
        let mut random = fastrand::Rng::with_seed(7);
        let mut values = Vec::with_capacity(count * dim);
        for face in 0..count {
            values.extend(synthetic(face / faces_of_person, dim, &mut random));
        }
        Self {
            dim,
            values,
            queries: Queries::Synthetic { faces_of_person },
        }
    }

    /// Takes the faces of photographs, and adds strangers until there are `count` vectors.
    pub(super) fn among_strangers(photographs: Photographs, count: usize) -> Self {
        let mut random = fastrand::Rng::with_seed(7);
        let mut values = Vec::with_capacity(count * photographs.dim());
        photographs
            .enrolled
            .iter()
            .for_each(|face| values.extend(face));
        for _ in photographs.enrolled.len()..count {
            values.extend(photographs.stranger(&mut random));
        }
        Self {
            dim: photographs.dim(),
            values,
            queries: Queries::Photographs {
                first_stranger: photographs.enrolled.len(),
                faces: photographs.queries,
            },
        }
    }

    pub(super) fn dim(&self) -> usize {
        self.dim
    }

    pub(super) fn len(&self) -> usize {
        self.values.len() / self.dim
    }

    pub(super) fn of(&self, face: usize) -> &[f32] {
        &self.values[face * self.dim..][..self.dim]
    }

    /// Returns a vector of an enrolled person that is not enrolled itself.
    pub(super) fn query(&self, random: &mut fastrand::Rng) -> Vec<f32> {
        match &self.queries {
            Queries::Photographs { faces, .. } => faces[random.usize(..faces.len())].clone(),
            Queries::Synthetic { faces_of_person } => {
                let person = random.usize(..self.len()) / faces_of_person;
                synthetic(person, self.dim, random)
            }
        }
    }

    /// Returns all vectors to search for, if their number is limited.
    pub(super) fn all_queries(&self) -> Option<&[Vec<f32>]> {
        match &self.queries {
            Queries::Photographs { faces, .. } => Some(faces),
            Queries::Synthetic { .. } => None,
        }
    }

    /// Returns the enrolled vectors of strangers.
    pub(super) fn strangers(&self) -> Range<usize> {
        match &self.queries {
            Queries::Photographs { first_stranger, .. } => *first_stranger..self.len(),
            Queries::Synthetic { .. } => 0..0,
        }
    }

    /// Returns the faces whose cosine is at least `threshold`, the most similar one first.
    pub(super) fn matches(&self, query: &[f32], threshold: f32) -> Vec<usize> {
        let rows = self.values.chunks_exact(self.dim);
        let cosines = rows.map(|row| dot(row, query)).enumerate();
        let mut matches: Vec<_> = cosines.filter(|(_, cosine)| *cosine >= threshold).collect();
        matches.sort_by(|a, b| b.1.total_cmp(&a.1));
        matches.into_iter().map(|(face, _)| face).collect()
    }
}

/// Returns a new vector of a person. Two vectors of a person have a cosine of about [`MATE`], because each has the root of it
/// to the same direction.
fn synthetic(person: usize, dim: usize, random: &mut fastrand::Rng) -> Vec<f32> {
    let mut of_person = fastrand::Rng::with_seed(u64::MAX - person as u64);
    let common = direction(&mut of_person, dim);
    let own = direction(random, dim);
    let (a, b) = (MATE.sqrt(), (1.0 - MATE).sqrt());
    let mixed = common.iter().zip(own);
    unit(mixed.map(|(common, own)| common * a + own * b).collect())
}

pub(super) fn direction(random: &mut fastrand::Rng, dim: usize) -> Vec<f32> {
    unit((0..dim).map(|_| nearly_normal(random)).collect())
}

/// Returns a random value around 0: a sum of uniform ones, which is nearly normal.
pub(super) fn nearly_normal(random: &mut fastrand::Rng) -> f32 {
    (0..4).map(|_| random.f32() - 0.5).sum()
}

pub(super) fn unit(mut vector: Vec<f32>) -> Vec<f32> {
    let norm = dot(&vector, &vector).sqrt();
    vector.iter_mut().for_each(|value| *value /= norm);
    vector
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
    let (a, b) = (a.chunks_exact(8), b.chunks_exact(8));
    let rest: f32 = a
        .remainder()
        .iter()
        .zip(b.remainder())
        .map(|(a, b)| a * b)
        .sum();
    let mut sums = [0.0; 8];
    for (a, b) in a.zip(b) {
        for (sum, (a, b)) in sums.iter_mut().zip(a.iter().zip(b)) {
            *sum += a * b;
        }
    }
    sums.iter().sum::<f32>() + rest
}
