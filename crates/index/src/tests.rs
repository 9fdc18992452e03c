//! Tests of the crate through its interface.

use std::sync::Arc;

use super::*;

mod accuracy;
mod changes;
mod errors;
mod kernels;
mod proposals;

/// A source of pseudo-random numbers (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number from −1 to 1.
    fn signed(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    }

    /// Returns a vector of length 1 whose direction is uniform: sums of uniform numbers are nearly normal.
    fn unit(&mut self, dim: usize) -> Vec<f32> {
        let normal = |_| (0..6).map(|_| self.signed()).sum();
        let vector: Vec<f32> = (0..dim).map(normal).collect();
        let length = cosine(&vector, &vector).1.sqrt();
        vector.iter().map(|x| x / length as f32).collect()
    }
}

/// Returns the cosine similarity of two vectors, and their product.
fn cosine(a: &[f32], b: &[f32]) -> (f64, f64) {
    let product = |a: &[f32], b: &[f32]| -> f64 {
        let pairs = a.iter().zip(b);
        pairs.map(|(&a, &b)| f64::from(a) * f64::from(b)).sum()
    };
    let product_of_lengths = (product(a, a) * product(b, b)).sqrt();
    (product(a, b) / product_of_lengths, product(a, b))
}

/// Returns the best `k` rows for each query, with one scan of each segment and a merge as a caller does it.
fn search(snapshot: &Snapshot, queries: &[Query], k: usize) -> Vec<Vec<Proposal>> {
    let mut merged: Vec<_> = queries.iter().map(|_| TopK::new(k)).collect();
    for segment in snapshot.segments() {
        let mut best: Vec<_> = queries.iter().map(|_| TopK::new(k)).collect();
        segment.scan(queries, &mut best);
        for (merged, best) in merged.iter_mut().zip(best) {
            merged.merge(best);
        }
    }
    merged.into_iter().map(TopK::into_sorted).collect()
}

fn ids(proposals: &[Proposal]) -> Vec<u64> {
    proposals.iter().map(|proposal| proposal.row).collect()
}

fn query(vector: &[f32]) -> Query {
    Query::new(vector.len(), vector).unwrap()
}
