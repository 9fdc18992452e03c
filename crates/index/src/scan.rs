//! One pass over the rows of a segment for all queries.

use crate::{
    dot::{TILE_ROWS, products, reaching, similarity, widen},
    query::Query,
    segment::Segment,
    top::{Proposal, TopK},
};

/// The number of codes of a tile, at most. At 16 bits each they fit into the L1 cache beside a query.
const TILE_CODES: usize = 16 * 1024;

/// The lowest number of rows of a tile. Tiles of many dimensions need the L2 cache.
const MIN_TILE_ROWS: usize = 8;

/// The lowest number of queries for which it is faster to widen the codes of a tile once.
const MIN_WIDENED: usize = 8;

impl Segment {
    /// Offers the live rows to `best[i]` with their similarity to `queries[i]`.
    ///
    /// The memory of the segment is read once, whatever the number of queries. The results do not depend on which other
    /// queries take part. The error of a similarity comes from the codes: on random vectors of 128 dimensions it is below
    /// 0.005.
    ///
    /// # Panics
    /// Panics if the lengths differ, or if a query has another dimension than the segment.
    pub fn scan(&self, queries: &[Query], best: &mut [TopK]) {
        let dim = self.dim();
        assert_eq!(
            queries.len(),
            best.len(),
            "each query needs one list of proposals"
        );
        assert!(
            queries.iter().all(|query| query.dim() == dim),
            "a query has another dimension than the segment"
        );
        let tile_rows = (TILE_CODES / dim).clamp(MIN_TILE_ROWS, TILE_ROWS);
        let mut wide = match queries.len() {
            MIN_WIDENED.. => vec![0; tile_rows * dim],
            _ => Vec::new(),
        };
        let codes = self.codes().chunks(tile_rows * dim);
        let scales = self.scales().chunks(tile_rows);
        for ((rows, scales), codes) in self.rows().chunks(tile_rows).zip(scales).zip(codes) {
            let tile = Tile::new(rows, scales);
            if wide.is_empty() {
                tile.offer(codes, queries, best);
            } else {
                let wide = &mut wide[..codes.len()];
                widen(codes, wide);
                tile.offer(wide, queries, best);
            }
        }
    }
}

/// Rows that are compared with every query while their codes are in the cache.
struct Tile<'a> {
    rows: &'a [u64],
    /// The scale of each row. NaN after the last row, so that no comparison accepts what follows.
    scales: [f32; TILE_ROWS],
}

impl<'a> Tile<'a> {
    fn new(rows: &'a [u64], from: &[f32]) -> Self {
        let mut scales = [f32::NAN; TILE_ROWS];
        scales[..from.len()].copy_from_slice(from);
        Self { rows, scales }
    }

    /// Offers the rows to the list of each query.
    fn offer<C: Copy + Into<i32>>(&self, codes: &[C], queries: &[Query], best: &mut [TopK]) {
        let mut sums = [0; TILE_ROWS];
        for (query, best) in queries.iter().zip(best) {
            products(codes, query.codes(), &mut sums);
            let mut rows = reaching(&sums, &self.scales, best.threshold());
            while rows != 0 {
                let at = rows.trailing_zeros() as usize;
                rows &= rows - 1;
                best.push(Proposal {
                    row: self.rows[at],
                    similarity: similarity(sums[at], self.scales[at]),
                });
            }
        }
    }
}
