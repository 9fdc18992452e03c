//! The priority of an image.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The queue that the images of a request wait in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Priority {
    /// A person waits for the response.
    Interactive,
    /// Work that runs when no interactive work waits.
    Bulk,
}

impl Priority {
    /// Returns the name in metrics and options.
    pub fn name(self) -> &'static str {
        match self {
            Self::Interactive => "interactive",
            Self::Bulk => "bulk",
        }
    }
}
