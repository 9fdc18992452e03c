//! What decides how faces are grouped.

use crate::error::ClusteringError;

/// What decides how faces are grouped.
///
/// The thresholds depend on the embedder and on the number of faces, so they have no default.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// The cosine similarity that connects two faces without further evidence, from −1 to 1.
    ///
    /// Among `n` faces, use a threshold whose false accept rate is at most about `0.02 / n`, or the lowest rate of the
    /// calibration.
    pub threshold: f32,
    /// The cosine similarity that connects two faces if they share neighbors, at most `threshold`.
    ///
    /// With the value of `threshold`, there are no weak edges.
    pub weak_threshold: f32,
    /// The cosine similarity that connects two faces although no third face is connected with both.
    ///
    /// Below it, such an edge only connects faces that are the most similar ones to each other. A single wrong edge then
    /// joins two faces, but not two people with many faces.
    pub bridge_threshold: f32,
    /// The number of neighbors that the lists of two faces have in common at least, if their edge is weak.
    pub shared: u32,
    /// The number of edges to acceptable faces that make a core face. A face next to a core face hears only core faces.
    pub core: u32,
    /// The smallest number of acceptable faces that found a new person.
    pub min_faces: u32,
    /// The largest number of passes over all faces after the first one. They end earlier if nothing changes.
    pub passes: u32,
    /// Selects the order in which faces are visited.
    pub seed: u64,
}

impl Settings {
    /// Returns the default settings with these thresholds. A bridge needs 0.05 more than `threshold`.
    pub fn new(threshold: f32, weak_threshold: f32) -> Self {
        Self {
            threshold,
            weak_threshold,
            bridge_threshold: threshold + 0.05,
            shared: 16,
            core: 2,
            min_faces: 2,
            passes: 20,
            seed: 0,
        }
    }

    /// Checks the thresholds.
    pub(crate) fn check(&self) -> Result<(), ClusteringError> {
        let (weak, strong, bridge) = (self.weak_threshold, self.threshold, self.bridge_threshold);
        if [weak, strong, bridge]
            .iter()
            .all(|threshold| threshold.is_finite())
            && weak <= strong
        {
            return Ok(());
        }
        Err(ClusteringError::Thresholds {
            weak,
            strong,
            bridge,
        })
    }
}

/// Which faces are grouped again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// All faces that are not pinned.
    Full,
    /// Faces without a person that are not pinned. Every face with a person keeps it.
    New,
}
