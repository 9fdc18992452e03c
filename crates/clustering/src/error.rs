//! The reasons why faces are not grouped.

use thiserror::Error;

/// The reason why faces are not grouped.
#[derive(Clone, Copy, Debug, PartialEq, Error)]
pub enum ClusteringError {
    /// The numbers of the faces and people do not fit into 32 bits.
    #[error("{0} faces are too many: group at most {max}", max = crate::face::MAX_FACES)]
    TooManyFaces(usize),
    /// A list names a face that does not exist.
    #[error(
        "the neighbors of face {face} name face {neighbor}, which does not exist: add all faces"
    )]
    UnknownFace {
        /// The face with the list.
        face: u32,
        /// The number in the list.
        neighbor: u32,
    },
    /// A list names its own face.
    #[error("face {0} is its own neighbor: leave it out")]
    Itself(u32),
    /// A list names a face twice.
    #[error("the neighbors of face {face} name face {neighbor} twice: name each once")]
    Twice {
        /// The face with the list.
        face: u32,
        /// The number in the list.
        neighbor: u32,
    },
    /// A similarity is NaN or infinite.
    #[error("a similarity of face {0} is not finite: use finite numbers")]
    NotFinite(u32),
    /// A list is not in order.
    #[error("the neighbors of face {0} are not in order: put the most similar first")]
    NotSorted(u32),
    /// A threshold is not finite, or the weak one is the higher one.
    #[error(
        "the thresholds {weak}, {strong} and {bridge} cannot be used: use finite ones, and a weak one that is not higher"
    )]
    Thresholds {
        /// The lower threshold.
        weak: f32,
        /// The upper threshold.
        strong: f32,
        /// The threshold for bridges.
        bridge: f32,
    },
}
