//! Proposals against brute force in f64.

use super::*;

struct Case {
    vectors: Vec<Vec<f32>>,
    slab: Slab,
    random: Rng,
}

impl Case {
    fn new(dim: usize, rows: u64, segment_rows: usize) -> Self {
        let mut random = Rng::with_seed(dim as u64);
        let mut slab = Slab::with_segment_rows(dim, segment_rows);
        let vectors: Vec<_> = (0..rows).map(|_| unit(&mut random, dim)).collect();
        for (row, vector) in vectors.iter().enumerate() {
            assert!(slab.insert(row as u64, vector).unwrap());
        }
        Self {
            vectors,
            slab,
            random,
        }
    }

    /// Returns the rows by descending exact similarity.
    fn exact(&self, query: &[f32]) -> Vec<(u64, f64)> {
        let vectors = self.vectors.iter().enumerate();
        let mut rows: Vec<_> = vectors
            .map(|(row, vector)| (row as u64, cosine(vector, query).0))
            .collect();
        rows.sort_by(|a, b| b.1.total_cmp(&a.1));
        rows
    }
}

#[test]
fn proposals_agree_with_brute_force() {
    for (dim, rows, bound) in [(128, 1500, 0.005), (512, 300, 0.003), (100, 700, 0.006)] {
        let mut case = Case::new(dim, rows, 400);
        for _ in 0..4 {
            let vector = unit(&mut case.random, dim);
            let found = search(&case.slab.snapshot(), &[query(&vector)], 64).remove(0);
            let exact = case.exact(&vector);
            assert_eq!(found.len(), 64);
            assert!(found.is_sorted_by(|a, b| a.similarity >= b.similarity));
            assert!(ids(&found).contains(&exact[0].0), "dim {dim}");
            for proposal in &found {
                let similarity = cosine(&case.vectors[proposal.row as usize], &vector).0;
                let error = (f64::from(proposal.similarity) - similarity).abs();
                assert!(error < bound, "dim {dim}: {proposal:?} is {similarity}");
            }
            // A row that was missed is at most twice the error better than the worst proposal.
            let missed = exact.iter().find(|(row, _)| !ids(&found).contains(row));
            let worst = f64::from(found[63].similarity);
            assert!(missed.is_none_or(|(_, similarity)| *similarity < worst + bound));
        }
    }
}

#[test]
fn lengths_of_vectors_do_not_matter() {
    for length in [1e-42, 1e-20, 3.0, 1e37] {
        let mut slab = Slab::new(2).unwrap();
        slab.insert(7, &[3.0 * length, 4.0 * length]).unwrap();
        for query_length in [1e-42, 1.0, 1e37] {
            let vector = [4.0 * query_length, 3.0 * query_length];
            let found = search(&slab.snapshot(), &[query(&vector)], 1).remove(0);
            assert!((found[0].similarity - 0.96).abs() < 0.005, "{found:?}");
        }
    }
}

#[test]
fn every_dimension_works() {
    for dim in [1, 2, 31, 33, 64, 127, 129, 500, 1024, 4096] {
        let mut case = Case::new(dim, 70, 64);
        let vector = unit(&mut case.random, dim);
        let found = search(&case.slab.snapshot(), &[query(&vector)], 70).remove(0);
        assert_eq!(found.len(), 70);
        for proposal in found {
            let similarity = cosine(&case.vectors[proposal.row as usize], &vector).0;
            let error = (f64::from(proposal.similarity) - similarity).abs();
            assert!(error < 0.01, "dim {dim}: {error}");
        }
    }
}

#[test]
fn several_queries_give_what_each_gives_alone() {
    for dim in [100, 128, 512] {
        let mut case = Case::new(dim, 500, 200);
        case.slab.remove(77);
        let snapshot = case.slab.snapshot();
        let queries: Vec<_> = (0..64)
            .map(|_| query(&unit(&mut case.random, dim)))
            .collect();
        let alone: Vec<_> = queries
            .iter()
            .map(|query| search(&snapshot, std::slice::from_ref(query), 10).remove(0))
            .collect();
        for count in [2, 7, 8, 64] {
            assert_eq!(search(&snapshot, &queries[..count], 10), alone[..count]);
        }
    }
}
