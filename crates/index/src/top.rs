//! The best rows that a search has seen.

use std::{cmp::Ordering, collections::BinaryHeap};

/// A row that may be among the nearest to a query.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Proposal {
    /// The id of the row.
    pub row: u64,
    /// The approximate cosine similarity, from −1 to 1 apart from the error of the codes.
    pub similarity: f32,
}

/// The `k` proposals with the highest similarity. Of equal ones, those with the lowest ids.
///
/// The result does not depend on the order of the proposals.
pub struct TopK {
    k: usize,
    heap: BinaryHeap<WorstFirst>,
}

impl TopK {
    /// Creates an empty list that keeps at most `k` proposals.
    pub fn new(k: usize) -> Self {
        Self {
            k,
            heap: BinaryHeap::new(),
        }
    }

    /// Returns the lowest similarity that a new proposal needs: that of the worst one, or −∞ until there are `k`.
    pub fn threshold(&self) -> f32 {
        if self.heap.len() < self.k {
            return f32::NEG_INFINITY;
        }
        self.heap
            .peek()
            .map_or(f32::INFINITY, |worst| worst.0.similarity)
    }

    /// Adds a proposal if it is among the best. A similarity of NaN never is.
    pub fn push(&mut self, proposal: Proposal) {
        if proposal.similarity.is_nan() {
            return;
        }
        let entry = WorstFirst(proposal);
        if self.heap.len() < self.k {
            self.heap.push(entry);
        } else if let Some(mut worst) = self.heap.peek_mut()
            && entry < *worst
        {
            *worst = entry;
        }
    }

    /// Adds the proposals of another list.
    pub fn merge(&mut self, other: Self) {
        for WorstFirst(proposal) in other.heap {
            self.push(proposal);
        }
    }

    /// Returns the proposals by descending similarity, and equal ones by ascending row.
    pub fn into_sorted(self) -> Vec<Proposal> {
        let sorted = self.heap.into_sorted_vec();
        sorted.into_iter().map(|entry| entry.0).collect()
    }
}

/// Orders proposals from the best to the worst, so that a heap has the worst on top.
struct WorstFirst(Proposal);

impl Ord for WorstFirst {
    fn cmp(&self, other: &Self) -> Ordering {
        let descending = other.0.similarity.total_cmp(&self.0.similarity);
        descending.then(self.0.row.cmp(&other.0.row))
    }
}

impl PartialOrd for WorstFirst {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for WorstFirst {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for WorstFirst {}
