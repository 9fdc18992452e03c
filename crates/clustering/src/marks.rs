//! A set of faces that is emptied in constant time.

/// A set of faces. [`clear`](Self::clear) does not visit them.
pub(crate) struct Marks {
    round: u32,
    /// The round in which each face was added last; 0 means never.
    rounds: Vec<u32>,
}

impl Marks {
    /// Creates an empty set for the faces below `faces`.
    pub(crate) fn new(faces: usize) -> Self {
        Self {
            round: 1,
            rounds: vec![0; faces],
        }
    }

    /// Removes all faces.
    pub(crate) fn clear(&mut self) {
        if self.round == u32::MAX {
            self.rounds.fill(0);
            self.round = 0;
        }
        self.round += 1;
    }

    /// Adds a face.
    pub(crate) fn add(&mut self, face: u32) {
        self.rounds[face as usize] = self.round;
    }

    /// Returns whether a face is in the set.
    pub(crate) fn contains(&self, face: u32) -> bool {
        self.rounds[face as usize] == self.round
    }
}
