//! Integer products of rows with a query.
//!
//! # Method
//! [`LANES`] sums run side by side, and are added at the end of a row. The compiler extends the codes to 16 bits and uses
//! instructions that multiply and add pairs (`vpmaddwd` on x86-64). The sums are exact, so their order does not matter.
//!
//! # CPU
//! The loops are plain Rust, compiled for several instruction sets; the best one that the CPU has is used.

use multiversion::multiversion;

/// The number of rows that are compared with a query at a time, at most. A `u64` has a bit for each.
pub(crate) const TILE_ROWS: usize = 64;

/// The number of sums of a row that run side by side. With 32, LLVM multiplies whole AVX-512 registers; with 16, halves.
const LANES: usize = 32;

/// Computes the product of the query with each row of a tile.
///
/// `rows` holds at most [`TILE_ROWS`] rows of the query's dimension, as `i8` or as [`widen`]ed codes. Sums after the last
/// row stay as they are.
pub(crate) fn products<C: Copy + Into<i32>>(
    rows: &[C],
    query: &[i16],
    sums: &mut [i32; TILE_ROWS],
) {
    // The loop over a row of known length is unrolled.
    match query.len() {
        128 => products_of::<C, 128>(rows, query, sums),
        512 => products_of::<C, 512>(rows, query, sums),
        _ => products_of::<C, 0>(rows, query, sums),
    }
}

/// Computes the products for rows of `DIM` codes; 0 stands for the length of the query.
#[multiversion(targets = "simd")]
fn products_of<C: Copy + Into<i32>, const DIM: usize>(
    rows: &[C],
    query: &[i16],
    sums: &mut [i32; TILE_ROWS],
) {
    let dim = if DIM == 0 { query.len() } else { DIM };
    let query = &query[..dim];
    for (row, sum) in rows.chunks_exact(dim).zip(sums) {
        *sum = dot(row, query);
    }
}

/// Returns the product of a row with a query of the same dimension.
#[inline(always)]
fn dot<C: Copy + Into<i32>>(row: &[C], query: &[i16]) -> i32 {
    let (row_blocks, row_rest) = row.as_chunks::<LANES>();
    let (query_blocks, query_rest) = query.as_chunks::<LANES>();
    let mut lanes = [0; LANES];
    for (row, query) in row_blocks.iter().zip(query_blocks) {
        for ((lane, &a), &b) in lanes.iter_mut().zip(row).zip(query) {
            *lane += a.into() * i32::from(b);
        }
    }
    let rest = row_rest.iter().zip(query_rest);
    let rest: i32 = rest.map(|(&a, &b)| a.into() * i32::from(b)).sum();
    lanes.iter().sum::<i32>() + rest
}

/// Extends the codes of a tile to 16 bits, so that this happens once for all queries.
#[multiversion(targets = "simd")]
pub(crate) fn widen(codes: &[i8], wide: &mut [i16]) {
    for (wide, &code) in wide.iter_mut().zip(codes) {
        *wide = i16::from(code);
    }
}

/// Returns the similarity that a sum stands for.
#[inline(always)]
pub(crate) fn similarity(sum: i32, scale: f32) -> f32 {
    sum as f32 * scale
}

/// Returns the rows of a tile whose similarity is at least `threshold`: bit `i` stands for row `i`.
///
/// A row with the scale NaN never reaches a threshold.
#[multiversion(targets = "simd")]
pub(crate) fn reaching(sums: &[i32; TILE_ROWS], scales: &[f32; TILE_ROWS], threshold: f32) -> u64 {
    let mut rows = 0;
    for (at, (&sum, &scale)) in sums.iter().zip(scales).enumerate() {
        rows |= u64::from(similarity(sum, scale) >= threshold) << at;
    }
    rows
}
