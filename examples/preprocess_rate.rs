//! How many pictures a second one thread makes into rows: 32 of 512 × 512, antialiased to 224 × 224, normalised,
//! NCHW. `benches/preprocess` runs it in turn with what others do the same work with.

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use facescan::imaging::tensor::{ChannelOrder, Normalisation, preprocess_into};
use image::{Rgb, RgbImage};

const PICTURES: usize = 32;
const SIDE: u32 = 224;

fn main() {
    let mut state = 1u32;
    let pictures: Vec<RgbImage> = (0..PICTURES)
        .map(|_| {
            RgbImage::from_fn(512, 512, |_, _| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                Rgb([24, 16, 8].map(|shift| (state >> shift) as u8))
            })
        })
        .collect();
    let normalisation = Normalisation {
        order: ChannelOrder::Rgb,
        mean: [123.675, 116.28, 103.53],
        scale: [0.017_124_754, 0.017_507_003, 0.017_429_194],
    };
    let row_len = (3 * SIDE * SIDE) as usize;
    let mut rows = vec![0.0; PICTURES * row_len];
    let mut batch = || {
        for (picture, row) in pictures.iter().zip(rows.chunks_exact_mut(row_len)) {
            preprocess_into(black_box(picture), (SIDE, SIDE), &normalisation, row);
        }
        black_box(&mut rows);
    };
    batch();
    let (started, mut batches) = (Instant::now(), 0);
    while started.elapsed() < Duration::from_secs(1) {
        batch();
        batches += 1;
    }
    let rate = (batches * PICTURES) as f64 / started.elapsed().as_secs_f64();
    println!("{{\"facescan\": {rate:.1}}}");
}
