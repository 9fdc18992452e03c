//! The faces of a library, with their nearest neighbors.

use crate::{error::ClusteringError, marks::Marks};

/// The largest number of faces: the labels of faces and of people together fit into `u32`.
pub(crate) const MAX_FACES: usize = 1 << 30;

/// An entry in the list of the nearest faces of a face.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Neighbor {
    /// The number of the neighbor: its position in [`Faces`].
    pub face: u32,
    /// The cosine similarity, from −1 to 1.
    pub similarity: f32,
}

/// What is known of a face apart from its neighbors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Face {
    /// The image that shows the face. Faces of one image have the same number.
    pub image: Option<u32>,
    /// The person that the face has now.
    pub person: Option<u32>,
    /// Whether the quality is good enough to found or extend a person.
    pub is_acceptable: bool,
    /// Whether a user has decided the person. Without a person, the user has decided that it is nobody.
    pub is_pinned: bool,
}

impl Face {
    /// Returns whether a user has decided that the face belongs to nobody.
    pub(crate) fn is_nobody(self) -> bool {
        self.is_pinned && self.person.is_none()
    }
}

/// All faces of a library, numbered from 0 in the order in which they are added.
///
/// A face takes 28 bytes, and each neighbor takes 8: for 1,000,000 faces with 32 neighbors, 284 MB.
#[derive(Clone, Debug, Default)]
pub struct Faces {
    faces: Vec<Face>,
    /// The end of the list of each face in `neighbors`.
    ends: Vec<usize>,
    neighbors: Vec<Neighbor>,
}

impl Faces {
    /// Creates an empty library with room for `faces` faces, each with `neighbors` neighbors.
    pub fn with_capacity(faces: usize, neighbors: usize) -> Self {
        Self {
            faces: Vec::with_capacity(faces),
            ends: Vec::with_capacity(faces),
            neighbors: Vec::with_capacity(faces * neighbors),
        }
    }

    /// Adds a face with its nearest faces, the most similar first, without the face itself.
    ///
    /// The list may name faces that are added later. A list may name a face whose list does not name it in turn.
    pub fn push(&mut self, face: Face, neighbors: &[Neighbor]) {
        self.neighbors.extend_from_slice(neighbors);
        self.faces.push(face);
        self.ends.push(self.neighbors.len());
    }

    /// Returns the number of faces.
    pub fn len(&self) -> usize {
        self.faces.len()
    }

    /// Returns whether there is no face.
    pub fn is_empty(&self) -> bool {
        self.faces.is_empty()
    }

    /// Returns a face.
    ///
    /// # Panics
    /// Panics if there is no face with this number.
    pub fn get(&self, face: u32) -> Face {
        self.faces[face as usize]
    }

    /// Returns all faces in the order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (u32, Face)> {
        (0..).zip(self.faces.iter().copied())
    }

    /// Returns the nearest faces of a face, the most similar first.
    ///
    /// # Panics
    /// Panics if there is no face with this number.
    pub fn neighbors(&self, face: u32) -> &[Neighbor] {
        &self.neighbors[self.start(face)..self.ends[face as usize]]
    }

    /// Returns the position of the first neighbor of a face among the neighbors of all faces.
    pub(crate) fn start(&self, face: u32) -> usize {
        match face {
            0 => 0,
            face => self.ends[face as usize - 1],
        }
    }

    /// Returns the number of all neighbors of all faces.
    pub(crate) fn total_neighbors(&self) -> usize {
        self.neighbors.len()
    }

    /// Returns the length of the longest list.
    pub(crate) fn longest_list(&self) -> usize {
        let lengths = self.iter().map(|(face, _)| self.neighbors(face).len());
        lengths.max().unwrap_or(0)
    }

    /// Checks the number of faces and every list.
    pub(crate) fn check(&self) -> Result<(), ClusteringError> {
        if self.len() > MAX_FACES {
            return Err(ClusteringError::TooManyFaces(self.len()));
        }
        let mut seen = Marks::new(self.len());
        for (face, _) in self.iter() {
            seen.clear();
            let list = self.neighbors(face);
            for &Neighbor {
                face: neighbor,
                similarity,
            } in list
            {
                if neighbor as usize >= self.len() {
                    return Err(ClusteringError::UnknownFace { face, neighbor });
                }
                if neighbor == face {
                    return Err(ClusteringError::Itself(face));
                }
                if !similarity.is_finite() {
                    return Err(ClusteringError::NotFinite(face));
                }
                if seen.contains(neighbor) {
                    return Err(ClusteringError::Twice { face, neighbor });
                }
                seen.add(neighbor);
            }
            if !list.is_sorted_by(|a, b| a.similarity >= b.similarity) {
                return Err(ClusteringError::NotSorted(face));
            }
        }
        Ok(())
    }
}
