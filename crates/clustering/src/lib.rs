//! Groups the faces of a library into people. No I/O, no threads, and no randomness but the seed.
//!
//! The caller finds the nearest faces of each face and fills [`Faces`]. [`group`] then runs these steps:
//!
//! 1. Edges: two faces are connected if they are similar, or if they are less similar and share neighbors. Edges that no
//!    third face supports are cut unless they are similar enough. Faces of one image are never connected.
//! 2. Chinese whispers: each face takes the label with the greatest weight among its neighbors. Kept faces do not change.
//! 3. Groups: connected faces of one label. Kept faces vote for the group that they would join.
//! 4. People: a group joins the person that voted for it, takes the existing person with which it shares the most faces, or
//!    founds a new person.
//! 5. Attachment: faces of poor quality take the person of their neighbors.
//!
//! Weights are integers, so no sum depends on the order of the faces.

mod attachment;
mod edges;
mod error;
mod face;
mod grouping;
mod groups;
mod images;
mod labels;
mod marks;
pub mod metrics;
mod people;
mod settings;
mod votes;
mod whispers;

#[cfg(test)]
mod tests;

pub use error::ClusteringError;
pub use face::{Face, Faces, Neighbor};
pub use grouping::{Assignment, group};
pub use settings::{Scope, Settings};
