//! The most similar faces of each face of a library.

use std::{num::NonZeroUsize, sync::Arc};

use facescan_clustering::Neighbor;
use facescan_index::{Query, Segment, Slab, TopK};
use facescan_store::{IndexPosition, IndexRow};

use crate::index::{FaceIndex, IndexError, IndexQuery, Proposal};

/// The similar faces that a clustering looks at for each face.
pub(super) const NEIGHBORS: usize = 32;

/// The faces that are compared in one pass over the index. Searches of users wait for the pass, so it must be short.
const TOGETHER: usize = 16;

/// Finds the most similar faces in the index of a library.
pub(super) struct NeighborSearch<'a> {
    /// The index.
    pub index: &'a dyn FaceIndex,
    /// The library.
    pub library: IndexPosition,
    /// The rows of the faces in ascending order. The number of a face is its place here.
    pub rows: &'a [u64],
}

impl NeighborSearch<'_> {
    /// Returns the neighbors of each face, the most similar one first, with the number of the face.
    pub(crate) async fn of(
        &self,
        faces: Vec<IndexRow>,
    ) -> Result<Vec<(u32, Vec<Neighbor>)>, IndexError> {
        let mut found = Vec::with_capacity(faces.len());
        let (mut numbers, mut vectors) = (Vec::new(), Vec::new());
        for face in faces {
            // A face that was enrolled after the rows were read waits for the next clustering.
            if let Some(number) = self.number(face.row) {
                numbers.push(number);
                vectors.push(face.vector);
            }
        }
        for (numbers, vectors) in numbers.chunks(TOGETHER).zip(vectors.chunks(TOGETHER)) {
            let query = IndexQuery {
                collection: self.library.clone(),
                vectors,
                // The most similar row is the face itself.
                rows: NEIGHBORS + 1,
                must_be_exact: false,
            };
            let proposals = self.index.propose(query).await?;
            for (number, proposals) in numbers.iter().zip(proposals.rows) {
                found.push((*number, self.neighbors(*number, &proposals)));
            }
        }
        Ok(found)
    }

    fn number(&self, row: u64) -> Option<u32> {
        let number = self.rows.binary_search(&row).ok()?;
        u32::try_from(number).ok()
    }

    fn neighbors(&self, face: u32, proposals: &[Proposal]) -> Vec<Neighbor> {
        let neighbor = |proposal: &Proposal| {
            Some(Neighbor {
                face: self.number(proposal.row)?,
                similarity: proposal.similarity,
            })
        };
        let neighbors = proposals.iter().filter_map(neighbor);
        neighbors
            .filter(|neighbor| neighbor.face != face)
            .take(NEIGHBORS)
            .collect()
    }
}

/// The faces of one pass, if nothing else waits for the processor.
const TOGETHER_ALONE: usize = 64;

/// Returns the most similar faces of each vector among all of them, on every core. The number of a face is its place.
///
/// # Errors
/// Returns an error if the vectors differ in their dimension, or one has no length.
pub fn all_neighbors(
    vectors: &[Vec<f32>],
) -> Result<Vec<Vec<Neighbor>>, facescan_index::IndexError> {
    let Some(first) = vectors.first() else {
        return Ok(Vec::new());
    };
    let dim = first.len();
    let mut slab = Slab::new(dim)?;
    for (number, vector) in (0..).zip(vectors) {
        slab.insert(number, vector)?;
    }
    let queries = vectors.iter().map(|vector| Query::new(dim, vector));
    let queries = queries.collect::<Result<Vec<Query>, _>>()?;
    let snapshot = slab.snapshot();
    let threads = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let share = queries.len().div_ceil(threads);
    let shares = std::thread::scope(|scope| {
        let shares = (0..).step_by(share).zip(queries.chunks(share));
        let shares: Vec<_> = shares
            .map(|(first, queries)| {
                let snapshot = snapshot.clone();
                scope.spawn(move || scan(&snapshot, first, queries))
            })
            .collect();
        let shares = shares.into_iter().map(|share| share.join());
        shares.collect::<Vec<_>>()
    });
    let mut lists = Vec::with_capacity(vectors.len());
    for share in shares {
        lists.extend(share.unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
    }
    Ok(lists)
}

/// Returns the neighbors of some vectors. `first` is the number of the first one.
fn scan(segments: &[Arc<Segment>], first: u64, queries: &[Query]) -> Vec<Vec<Neighbor>> {
    let mut best: Vec<TopK> = queries.iter().map(|_| TopK::new(NEIGHBORS + 1)).collect();
    let passes = queries.chunks(TOGETHER_ALONE);
    for (queries, best) in passes.zip(best.chunks_mut(TOGETHER_ALONE)) {
        for segment in segments {
            segment.scan(queries, best);
        }
    }
    let neighbors = |(face, best): (u64, TopK)| {
        let proposals = best.into_sorted().into_iter();
        proposals
            .filter(|proposal| proposal.row != face)
            .take(NEIGHBORS)
            .map(|proposal| Neighbor {
                face: proposal.row as u32,
                similarity: proposal.similarity,
            })
            .collect()
    };
    (first..).zip(best).map(neighbors).collect()
}
