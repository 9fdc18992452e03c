//! Vectors of synthetic faces, and the comparison of each with a query.

/// The cosine of a query and its mate. Two photographs of one person have such a cosine with the default embedder.
const MATE: f32 = 0.6;

/// Random vectors of length 1, some for each person.
pub(super) struct Vectors {
    dim: usize,
    faces_of_person: usize,
    values: Vec<f32>,
}

impl Vectors {
    pub(super) fn random(count: usize, dim: usize, faces_of_person: usize) -> Self {
        let mut random = fastrand::Rng::with_seed(7);
        let mut vectors = Self {
            dim,
            faces_of_person: faces_of_person.max(1),
            values: Vec::with_capacity(count * dim),
        };
        for face in 0..count {
            let vector = vectors.another(face, &mut random);
            vectors.values.extend(vector);
        }
        vectors
    }

    /// Returns a new vector of the person of a face. Two vectors of a person have a cosine of about [`MATE`], because each has
    /// the root of it to the same direction.
    fn another(&self, face: usize, random: &mut fastrand::Rng) -> Vec<f32> {
        let person = face / self.faces_of_person;
        let mut of_person = fastrand::Rng::with_seed(u64::MAX - person as u64);
        let common = direction(&mut of_person, self.dim);
        let own = direction(random, self.dim);
        let (a, b) = (MATE.sqrt(), (1.0 - MATE).sqrt());
        let mixed = common.iter().zip(own);
        unit(mixed.map(|(common, own)| common * a + own * b).collect())
    }

    pub(super) fn len(&self) -> usize {
        self.values.len() / self.dim
    }

    pub(super) fn of(&self, face: usize) -> &[f32] {
        &self.values[face * self.dim..][..self.dim]
    }

    /// Returns a vector of the person of a face that is not enrolled.
    pub(super) fn mate(&self, face: usize, seed: u64) -> Vec<f32> {
        self.another(face, &mut fastrand::Rng::with_seed(seed))
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

/// Returns a random direction: each value is a sum of uniform ones, which is nearly normal.
fn direction(random: &mut fastrand::Rng, dim: usize) -> Vec<f32> {
    let mut value = || (0..4).map(|_| random.f32() - 0.5).sum();
    unit((0..dim).map(|_| value()).collect())
}

fn unit(mut vector: Vec<f32>) -> Vec<f32> {
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
