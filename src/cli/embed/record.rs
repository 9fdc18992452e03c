//! The records that are written for an image.

use std::path::Path;

use facescan_pipeline::{
    core::scan::{Embedding, Face},
    results::ErrorEntry,
};
use serde::Serialize;

use crate::cli::files;

/// A vector and its subject.
#[derive(Debug, PartialEq)]
pub struct Vector {
    /// The face. It is `None` if the vector is of the whole image.
    pub face: Option<FacePlace>,
    pub embedding: Embedding,
}

/// A face of an image.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FacePlace {
    /// The index of the face in its image, the largest face first.
    pub face: usize,
    /// `[x1, y1, x2, y2]` in pixels of the upright image.
    pub bbox: [f32; 4],
    /// The detection score. It is `None` for aligned crops.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub score: Option<f32>,
}

impl Vector {
    /// Returns the vector of a face, or `None` if the face has none because it cannot be aligned.
    pub fn from_face((number, face): (usize, Face)) -> Option<Self> {
        Some(Self {
            face: Some(FacePlace {
                face: number,
                bbox: face.bbox.to_array(),
                score: face.score,
            }),
            embedding: face.embedding?,
        })
    }
}

/// One line: a vector, an image without a face, or a failed image.
pub struct Record {
    pub path: String,
    pub vector: Option<Vector>,
    /// The error, if the image failed.
    pub error: Option<ErrorEntry>,
}

impl Record {
    /// Creates the lines of one image, at least one.
    pub fn from_vectors(path: &Path, vectors: Result<Vec<Vector>, ErrorEntry>) -> Vec<Self> {
        let path = files::name(path);
        let without = |error| Self {
            path: path.clone(),
            vector: None,
            error,
        };
        match vectors {
            Err(error) => vec![without(Some(error))],
            Ok(vectors) if vectors.is_empty() => vec![without(None)],
            Ok(vectors) => vectors
                .into_iter()
                .map(|vector| Self {
                    vector: Some(vector),
                    ..without(None)
                })
                .collect(),
        }
    }
}
