//! The faces of a library, with their nearest neighbours.

use crate::{error::ClusteringError, marks::Marks};

/// The largest number of faces: the labels of faces and of people together fit into `u32`.
pub(crate) const MAX_FACES: usize = 1 << 30;

/// An entry in the list of the nearest faces of a face.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Neighbour {
    /// The number of the neighbour: its position in [`Faces`].
    pub face: u32,
    /// The cosine similarity, from −1 to 1.
    pub similarity: f32,
}

/// What is known of a face apart from its neighbours.
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
/// A face takes 28 bytes, and each neighbour takes 8: for 1,000,000 faces with 32 neighbours, 284 MB.
#[derive(Clone, Debug, Default)]
pub struct Faces {
    faces: Vec<Face>,
    /// The end of the list of each face in `neighbours`.
    ends: Vec<usize>,
    neighbours: Vec<Neighbour>,
}

impl Faces {
    /// Creates an empty library with room for `faces` faces, each with `neighbours` neighbours.
    pub fn with_capacity(faces: usize, neighbours: usize) -> Self {
        Self {
            faces: Vec::with_capacity(faces),
            ends: Vec::with_capacity(faces),
            neighbours: Vec::with_capacity(faces * neighbours),
        }
    }

    /// Adds a face with its nearest faces, the most similar first, without the face itself.
    ///
    /// The list may name faces that are added later. A list may name a face whose list does not name it in turn.
    pub fn push(&mut self, face: Face, neighbours: &[Neighbour]) {
        self.neighbours.extend_from_slice(neighbours);
        self.faces.push(face);
        self.ends.push(self.neighbours.len());
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
    pub fn neighbours(&self, face: u32) -> &[Neighbour] {
        &self.neighbours[self.start(face)..self.ends[face as usize]]
    }

    /// Returns the position of the first neighbour of a face among the neighbours of all faces.
    pub(crate) fn start(&self, face: u32) -> usize {
        match face {
            0 => 0,
            face => self.ends[face as usize - 1],
        }
    }

    /// Returns the number of all neighbours of all faces.
    pub(crate) fn total_neighbours(&self) -> usize {
        self.neighbours.len()
    }

    /// Returns the length of the longest list.
    pub(crate) fn longest_list(&self) -> usize {
        let lengths = self.iter().map(|(face, _)| self.neighbours(face).len());
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
            let list = self.neighbours(face);
            for &Neighbour {
                face: neighbour,
                similarity,
            } in list
            {
                if neighbour as usize >= self.len() {
                    return Err(ClusteringError::UnknownFace { face, neighbour });
                }
                if neighbour == face {
                    return Err(ClusteringError::Itself(face));
                }
                if !similarity.is_finite() {
                    return Err(ClusteringError::NotFinite(face));
                }
                if seen.contains(neighbour) {
                    return Err(ClusteringError::Twice { face, neighbour });
                }
                seen.add(neighbour);
            }
            if !list.is_sorted_by(|a, b| a.similarity >= b.similarity) {
                return Err(ClusteringError::NotSorted(face));
            }
        }
        Ok(())
    }
}
