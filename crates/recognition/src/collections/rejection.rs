//! Why a face is not enrolled.

use facescan_imaging::quality::acceptance::Reason;
use facescan_pipeline::results::ErrorEntry;
use serde_json::Value;
use thiserror::Error;
use uuid::Uuid;

/// Why a face is not enrolled.
#[derive(Clone, Debug, PartialEq, Error)]
#[expect(missing_docs, reason = "the messages say what the errors are")]
pub enum Rejection {
    #[error(
        "no face was found in the image; send an image that shows a face, or a lower min_score"
    )]
    NoFace,
    #[error("the image shows {faces} faces; choose one with face=largest or face=central")]
    SeveralFaces { faces: usize },
    #[error(
        "the quality of the face is too low: {}; send a better image, or allow_low_quality=true",
        names(.reasons)
    )]
    LowQuality { reasons: Vec<Reason> },
    #[error("the vector has another vector space than the collection; use vectors of that one")]
    VectorSpaceMismatch,
    #[error(
        "the face is similar to one of the subject {subject_id}, with the cosine {similarity:.2}; send allow_conflicts=true if they are two people"
    )]
    Conflict { subject_id: Uuid, similarity: f32 },
    #[error("the person is in a suppression collection, so the face is not enrolled")]
    Suppressed,
    /// [`Conflict`](Self::Conflict) or [`Suppressed`](Self::Suppressed), for a caller who may not know which.
    #[error("the face conflicts with another person's; a key with the scope `search` learns more")]
    Hidden,
    /// The image has no result.
    #[error("{}", .0.detail)]
    Image(ErrorEntry),
}

impl Rejection {
    /// Returns what a caller may know. To say to whom a face is similar is a search, which needs its own scope.
    #[must_use]
    pub fn shown(self, may_search: bool) -> Self {
        match self {
            Self::Conflict { .. } | Self::Suppressed if !may_search => Self::Hidden,
            rejection => rejection,
        }
    }

    /// Returns the name in responses.
    pub fn name(&self) -> &'static str {
        match self {
            Self::NoFace => "no_face",
            Self::SeveralFaces { .. } => "several_faces",
            Self::LowQuality { .. } => "low_quality",
            Self::VectorSpaceMismatch => "vector_space_mismatch",
            Self::Conflict { .. } | Self::Hidden => "conflict",
            Self::Suppressed => "suppressed",
            Self::Image(_) => "image",
        }
    }
}

fn names(reasons: &[Reason]) -> String {
    let names: Vec<String> = reasons
        .iter()
        .filter_map(|reason| match serde_json::to_value(reason) {
            Ok(Value::String(name)) => Some(name),
            _ => None,
        })
        .collect();
    names.join(", ")
}
