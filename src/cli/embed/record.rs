//! What is written of a picture.

use std::path::Path;

use serde::Serialize;

use crate::pipeline::{answer::ErrorEntry, embed::Embedding, scan::Face};

/// A vector, and what it is of.
#[derive(Debug, PartialEq)]
pub struct Vector {
    /// The face, where it is not of the whole picture.
    pub face: Option<FacePlace>,
    /// The vector.
    pub embedding: Embedding,
}

/// Which of a picture's faces.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FacePlace {
    /// Its number in the picture, the largest first.
    pub face: usize,
    /// `[x1, y1, x2, y2]` in pixels of the upright picture.
    pub bbox: [f32; 4],
    /// The detection score; absent for aligned crops.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub score: Option<f32>,
}

impl Vector {
    /// A face's vector; `None` for a face that cannot be aligned and has none.
    pub fn of_face((number, face): (usize, Face)) -> Option<Self> {
        Some(Self {
            face: Some(FacePlace {
                face: number,
                bbox: face.bbox.to_array(),
                score: face.score,
            }),
            embedding: face.embedding?,
        })
    }

    /// A whole picture's vector.
    pub fn of_picture(embedding: Embedding) -> Self {
        Self {
            face: None,
            embedding,
        }
    }
}

/// One line: a vector, a picture that has none as it has no face, or one that failed.
pub struct Record {
    /// The picture's file.
    pub path: String,
    /// The vector.
    pub vector: Option<Vector>,
    /// Why there is none.
    pub error: Option<ErrorEntry>,
}

impl Record {
    /// The lines of one picture, at least one.
    pub fn of(path: &Path, vectors: Result<Vec<Vector>, ErrorEntry>) -> Vec<Self> {
        let path = path.display().to_string();
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
