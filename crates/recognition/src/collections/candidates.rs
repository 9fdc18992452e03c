//! The candidates of a search: as responses show them, and as a batch stores them.

use std::collections::{BTreeSet, HashMap};

use facescan_store::{CollectionKey, LiveRow};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use super::{
    Collections,
    search::{Candidate, IndexUsed, SearchResult},
    similar::SimilarFace,
};
use crate::{calibration::FarEstimate, error::RecognitionError};

/// The rows that are read at a time.
const ROWS: usize = 1024;

/// The candidates of a search.
#[derive(Debug, Serialize, ToSchema)]
pub struct FoundCandidates {
    /// The id of the search in the audit trail.
    search_id: Uuid,
    /// Always `candidates_only`: a person must decide whether a candidate is the person in the image.
    #[schema(example = "candidates_only")]
    decision: &'static str,
    /// The candidates, the most similar one first.
    candidates: Vec<CandidateResponse>,
    /// The cosine from which a face is a candidate.
    threshold: f32,
    /// The false accept rate of one comparison at the threshold. Null if the vector space has no calibration.
    #[schema(required)]
    far: Option<FarEstimate>,
    /// The number of enrolled faces that were compared.
    n_searched: u64,
    /// The number of strangers among them that reach the threshold on average. Null if the vector space has no calibration.
    #[schema(required)]
    expected_false_matches: Option<f64>,
    /// The index that was used.
    index: IndexUsed,
}

/// A subject or a face that may show the person.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Candidate)]
pub struct CandidateResponse {
    /// The place among the candidates, from 1.
    rank: usize,
    /// The subject. Absent in libraries.
    #[serde(skip_serializing_if = "Option::is_none")]
    subject_id: Option<Uuid>,
    /// The person of a library, if a clustering or a user has assigned the face to one.
    #[serde(skip_serializing_if = "Option::is_none")]
    person_id: Option<Uuid>,
    /// The caller's id of the subject.
    #[serde(skip_serializing_if = "Option::is_none")]
    external_id: Option<String>,
    /// The id of the enrolled face.
    enrollment_id: Uuid,
    /// The stored face that it came from.
    #[serde(skip_serializing_if = "Option::is_none")]
    face_id: Option<Uuid>,
    /// The cosine, -1 to 1, rounded down to hundredths. Candidates with the same one are in the order of their enrollment.
    similarity: f32,
    /// The false accept rate of one comparison at this cosine. Null if the vector space has no calibration.
    #[schema(required)]
    far: Option<FarEstimate>,
}

impl CandidateResponse {
    fn new(rank: usize, candidate: Candidate) -> Self {
        let row = candidate.face.row;
        Self {
            rank,
            subject_id: row.enrollment.subject_id,
            person_id: row.person_id,
            external_id: row.external_id,
            enrollment_id: row.enrollment.id,
            face_id: row.enrollment.face_id,
            similarity: candidate.face.similarity,
            far: candidate.far,
        }
    }
}

impl From<SearchResult> for FoundCandidates {
    fn from(result: SearchResult) -> Self {
        let candidates = (1..).zip(result.candidates);
        let strangers = |far: &FarEstimate| far.value * result.searched as f64;
        Self {
            search_id: result.id,
            decision: "candidates_only",
            candidates: candidates
                .map(|(rank, candidate)| CandidateResponse::new(rank, candidate))
                .collect(),
            threshold: result.threshold,
            expected_false_matches: result.far.as_ref().map(strangers),
            far: result.far,
            n_searched: result.searched,
            index: result.index,
        }
    }
}

/// The result of a search as a batch stores it.
///
/// It has nothing of a candidate but the number of a row. So what is erased later leaves no name and no id behind, and
/// [`Collections::restore`] leaves it out.
pub type StoredSearch = SearchResult<StoredCandidate>;

/// A candidate as a batch stores it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StoredCandidate {
    row: u64,
    similarity: f32,
    far: Option<FarEstimate>,
}

impl From<SearchResult> for StoredSearch {
    fn from(result: SearchResult) -> Self {
        result.convert(|candidate| {
            Some(StoredCandidate {
                row: candidate.face.row.row,
                similarity: candidate.face.similarity,
                far: candidate.far,
            })
        })
    }
}

impl Collections {
    /// Returns stored results of searches in a collection, without candidates who were erased, whose time is over, or who are in
    /// a suppression collection by now.
    pub async fn restore(
        &self,
        key: CollectionKey<'_>,
        stored: Vec<StoredSearch>,
    ) -> Result<Vec<FoundCandidates>, RecognitionError> {
        let candidates = stored.iter().flat_map(|search| &search.candidates);
        let rows: BTreeSet<u64> = candidates.map(|candidate| candidate.row).collect();
        let live = self.candidates(key, rows.into_iter().collect()).await?;
        let candidate = |stored: StoredCandidate| {
            let face = SimilarFace {
                row: live.get(&stored.row)?.clone(),
                similarity: stored.similarity,
            };
            Some(Candidate {
                face,
                far: stored.far,
            })
        };
        let restored = stored.into_iter().map(|search| search.convert(candidate));
        Ok(restored.map(FoundCandidates::from).collect())
    }

    /// Returns the rows of a collection that may be candidates now, without their vectors.
    async fn candidates(
        &self,
        key: CollectionKey<'_>,
        rows: Vec<u64>,
    ) -> Result<HashMap<u64, LiveRow>, RecognitionError> {
        let mut candidates = HashMap::with_capacity(rows.len());
        let Some(collection) = self.store.collection(key).await? else {
            return Ok(candidates);
        };
        let suppressions = self.suppressions(&collection).await?;
        for rows in rows.chunks(ROWS) {
            let live = self.store.live_rows(key, rows, self.clock.now()).await?;
            let vectors: Vec<&[f32]> = live.iter().map(|row| &row.vector[..]).collect();
            let suppressed = self.suppressed(&suppressions, &vectors).await?;
            let allowed = live.into_iter().zip(suppressed);
            let allowed = allowed.filter(|(_, is_suppressed)| !is_suppressed);
            candidates.extend(allowed.map(|(row, _)| {
                let vector = Vec::new();
                (row.row, LiveRow { vector, ..row })
            }));
        }
        Ok(candidates)
    }
}
