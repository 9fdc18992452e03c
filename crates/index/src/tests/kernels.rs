//! The integer loops against plain arithmetic.

use super::*;
use crate::{
    dot::{TILE_ROWS, products, reaching, widen},
    query::UNIT,
};

#[test]
fn products_are_exact() {
    let mut random = Rng::with_seed(1);
    for dim in [1, 2, 31, 32, 33, 64, 100, 127, 128, 129, 512, 513, 4096] {
        for rows in [1, 3, TILE_ROWS] {
            let codes: Vec<i8> = (0..rows * dim).map(|_| random.u8(0..255) as i8).collect();
            let limit = i64::from(UNIT) / (dim as f64).sqrt() as i64;
            let query: Vec<i16> = (0..dim)
                .map(|_| random.i64(1 - limit..limit) as i16)
                .collect();
            let mut sums = [-1; TILE_ROWS];
            products(&codes, &query, &mut sums);
            for (row, sum) in codes.chunks(dim).zip(sums) {
                let pairs = row.iter().zip(&query);
                let exact: i64 = pairs.map(|(&a, &b)| i64::from(a) * i64::from(b)).sum();
                assert_eq!(i64::from(sum), exact, "dim {dim}");
            }
            assert!(sums[rows..].iter().all(|&sum| sum == -1));
            let mut wide = vec![0; codes.len()];
            widen(&codes, &mut wide);
            let mut wide_sums = [-1; TILE_ROWS];
            products(&wide, &query, &mut wide_sums);
            assert_eq!(sums, wide_sums);
        }
    }
}

#[test]
fn the_largest_sums_fit() {
    for dim in [1, 128, 4096] {
        let largest = query(&vec![-f32::MAX; dim]);
        let sum: i64 = largest.codes().iter().map(|&b| 127 * i64::from(b)).sum();
        assert!(sum >= i64::from(i32::MIN));
        let mut sums = [0; TILE_ROWS];
        products(&vec![127i8; dim], largest.codes(), &mut sums);
        assert_eq!(i64::from(sums[0]), sum, "dim {dim}");
    }
}

#[test]
fn only_rows_at_the_threshold_reach_it() {
    let mut sums = [0; TILE_ROWS];
    let mut scales = [0.5; TILE_ROWS];
    sums[0] = 4;
    sums[5] = 3;
    sums[62] = 100;
    sums[63] = 5;
    scales[62] = f32::NAN;
    assert_eq!(reaching(&sums, &scales, 2.0), 1 | 1 << 63);
    assert_eq!(reaching(&sums, &scales, f32::NEG_INFINITY), !(1 << 62));
    assert_eq!(reaching(&sums, &scales, f32::INFINITY), 0);
}

#[test]
fn codes_are_rounded() {
    assert_eq!(query(&[30.0, -40.0]).codes(), [19_660, -26_214]);
}
