//! The faces of a collection that are most similar to a vector.

use std::collections::HashSet;

use facescan_pipeline::core::scan::cosine;
use facescan_store::{Collection, LiveRow};
use uuid::Uuid;

use super::{Collections, disclosure::round_down, key};
use crate::{
    error::RecognitionError,
    index::{IndexQuery, Proposals},
};

/// The fewest rows that the index proposes. The approximate similarities of more rows differ too little to order them.
const MIN_ROWS: usize = 64;

/// The most rows that the index proposes.
const MAX_ROWS: usize = 4096;

/// A face of a collection, and its similarity to the vector that was searched for.
#[derive(Clone, Debug, PartialEq)]
pub struct SimilarFace {
    /// The face.
    pub row: LiveRow,
    /// The cosine.
    pub similarity: f32,
}

/// What is looked for.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// The lowest cosine.
    pub threshold: f32,
    /// The most faces, or subjects.
    pub limit: usize,
    /// Whether only the most similar face of each subject is wanted.
    pub by_subject: bool,
    /// Whether every face must be compared, also if that takes longer.
    pub must_be_exact: bool,
}

/// The similar faces for one vector.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SimilarFaces {
    /// The faces, the most similar one first.
    pub faces: Vec<SimilarFace>,
    /// Whether no more similar face was left out. An index that does not compare all faces cannot know it.
    pub is_exact: bool,
    /// The number of faces that were compared.
    pub searched: u64,
    /// The position of the collection that the index had.
    pub position: u64,
}

impl Collections {
    /// Returns the faces of a collection that are most similar to a vector, without those whose subject's time is over.
    pub async fn similar(
        &self,
        collection: &Collection,
        vector: &[f32],
        wanted: Wanted,
    ) -> Result<SimilarFaces, RecognitionError> {
        let vectors = [vector.to_vec()];
        let mut rows = (4 * wanted.limit).max(MIN_ROWS);
        loop {
            let query = IndexQuery {
                collection: collection.index_position(),
                vectors: &vectors,
                rows,
                must_be_exact: wanted.must_be_exact,
            };
            let proposals = self.index.propose(query).await?;
            let proposed = proposals.rows.first().map_or(0, Vec::len);
            let found = self.rescore(collection, vector, &proposals).await?;
            let is_below = |face: &SimilarFace| face.similarity < wanted.threshold;
            let reaches_below = found.last().is_some_and(is_below);
            let faces = select(found, wanted);
            // One subject can have all proposed rows, and subjects whose time is over can have them. Then more rows are
            // needed, unless the rows are below the threshold.
            let is_complete = faces.len() >= wanted.limit || proposed < rows || reaches_below;
            if is_complete || rows >= MAX_ROWS {
                return Ok(SimilarFaces {
                    is_exact: is_complete && proposals.is_exact,
                    faces,
                    searched: proposals.searched,
                    position: proposals.position,
                });
            }
            rows = (4 * rows).min(MAX_ROWS);
        }
    }

    /// Reads the proposed rows, and orders them by their similarity.
    async fn rescore(
        &self,
        collection: &Collection,
        vector: &[f32],
        proposals: &Proposals,
    ) -> Result<Vec<SimilarFace>, RecognitionError> {
        let proposals = proposals.rows.first().map_or(&[][..], Vec::as_slice);
        let rows: Vec<u64> = proposals.iter().map(|proposal| proposal.row).collect();
        let live = self
            .store
            .live_rows(key(collection), &rows, self.clock.now())
            .await?;
        let faces = live.into_iter().map(|row| SimilarFace {
            similarity: cosine(vector, &row.vector).clamp(-1.0, 1.0),
            row,
        });
        let mut faces: Vec<SimilarFace> = faces.collect();
        sort(&mut faces);
        Ok(faces)
    }
}

/// Sorts faces by their similarity, and those with the same one by their rows.
fn sort(faces: &mut [SimilarFace]) {
    faces.sort_by(|a, b| {
        let by_similarity = b.similarity.total_cmp(&a.similarity);
        by_similarity.then(a.row.row.cmp(&b.row.row))
    });
}

/// Removes what is finer than a step from the similarities, also from the order of the faces, and keeps the first `limit`.
pub(crate) fn disclose(mut faces: Vec<SimilarFace>, limit: usize) -> Vec<SimilarFace> {
    for face in &mut faces {
        face.similarity = round_down(face.similarity);
    }
    sort(&mut faces);
    faces.truncate(limit);
    faces
}

/// Keeps the faces that are wanted. They are ordered by their similarity.
fn select(faces: Vec<SimilarFace>, wanted: Wanted) -> Vec<SimilarFace> {
    let mut subjects = HashSet::new();
    faces
        .into_iter()
        .take_while(|face| face.similarity >= wanted.threshold)
        .filter(|face| !wanted.by_subject || subjects.insert(shown_by(&face.row)))
        .take(wanted.limit)
        .collect()
}

/// Returns the id of the subject or of the person that a face shows. A face of nobody stands for itself.
fn shown_by(row: &LiveRow) -> Uuid {
    let enrollment = &row.enrollment;
    let known = enrollment.subject_id.or(row.person_id);
    known.unwrap_or(enrollment.id)
}
