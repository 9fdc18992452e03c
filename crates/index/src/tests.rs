//! Tests of the crate through its interface.

use std::sync::Arc;

use fastrand::Rng;

use super::*;

mod accuracy;
mod changes;
mod errors;
mod kernels;
mod proposals;

/// Returns a vector of length 1 whose direction is uniform: sums of uniform numbers are nearly normal.
fn unit(random: &mut Rng, dim: usize) -> Vec<f32> {
    let normal = |_| (0..6).map(|_| 2.0 * random.f32() - 1.0).sum();
    let vector: Vec<f32> = (0..dim).map(normal).collect();
    let length = cosine(&vector, &vector).1.sqrt();
    vector.iter().map(|x| x / length as f32).collect()
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
fn search(segments: &[Arc<Segment>], queries: &[Query], k: usize) -> Vec<Vec<Proposal>> {
    let mut merged: Vec<_> = queries.iter().map(|_| TopK::new(k)).collect();
    for segment in segments {
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
