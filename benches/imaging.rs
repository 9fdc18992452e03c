//! Measures the pixel work of one image. Run it with `cargo bench --bench imaging`. Decoding is measured only if
//! `scripts/setup` has fetched `.runtime/pictures/t1.jpg`.

use std::{hint::black_box, path::Path};

use criterion::{Criterion, criterion_group, criterion_main};
use facescan_imaging::{
    decode::{DecodeOptions, decode},
    geometry::BBox,
    limits::Limits,
    tensor::{ChannelOrder, Letterbox, Normalization, fill_row, letterbox_into, preprocess_into},
    warp::{ALIGNED_SIDE, align_face},
};
use facescan_inference::heads::{Candidate, nms};
use image::{Rgb, RgbImage};

/// A generator of pseudo-random numbers, which are the same in every run.
struct Numbers(u32);

impl Numbers {
    fn next(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        self.0 >> 8
    }

    /// Returns a number from 0 to `below`, excluding `below`.
    fn up_to(&mut self, below: f32) -> f32 {
        self.next() as f32 / (1 << 24) as f32 * below
    }
}

fn noise(width: u32, height: u32) -> RgbImage {
    let mut numbers = Numbers(1);
    RgbImage::from_fn(width, height, |_, _| {
        let [a, b, c, _] = numbers.next().to_le_bytes();
        Rgb([a, b, c])
    })
}

fn row(width: u32, height: u32) -> Vec<f32> {
    vec![0.0; 3 * width as usize * height as usize]
}

fn decoding(criterion: &mut Criterion) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(".runtime/pictures/t1.jpg");
    let Ok(bytes) = std::fs::read(&path) else {
        eprintln!("{} is missing; decoding is not measured", path.display());
        return;
    };
    let options = DecodeOptions {
        limits: Limits::default(),
        background: [0; 3],
    };
    criterion.bench_function("decode/t1.jpg", |b| b.iter(|| decode(&bytes, &options)));
}

fn rows(criterion: &mut Criterion) {
    let identity = Normalization::identity(ChannelOrder::Bgr);
    for (width, height) in [(1280, 886), (970, 2204), (910, 1137), (4000, 3000)] {
        let image = noise(width, height);
        let mut row = row(640, 640);
        let letterbox = Letterbox::fit((width, height), (640, 640));
        criterion.bench_function(&format!("letterbox/{width}x{height} to 640"), |b| {
            b.iter(|| letterbox_into(black_box(&image), &letterbox, &identity, &mut row));
        });
    }
    let imagenet = Normalization {
        order: ChannelOrder::Rgb,
        mean: [123.675, 116.28, 103.53],
        scale: [0.017_124_754, 0.017_507_003, 0.017_429_194],
    };
    let image = noise(512, 512);
    let mut small = row(224, 224);
    criterion.bench_function("preprocess/512x512 to 224", |b| {
        b.iter(|| preprocess_into(black_box(&image), (224, 224), &imagenet, &mut small));
    });
    let crop = noise(ALIGNED_SIDE, ALIGNED_SIDE);
    let mut aligned = row(ALIGNED_SIDE, ALIGNED_SIDE);
    criterion.bench_function("fill_row/112", |b| {
        b.iter(|| fill_row(black_box(&crop), &imagenet, &mut aligned));
    });
}

fn faces(criterion: &mut Criterion) {
    let image = noise(1280, 886);
    let points = [
        [500.0, 300.0],
        [620.0, 310.0],
        [560.0, 380.0],
        [510.0, 440.0],
        [610.0, 445.0],
    ];
    criterion.bench_function("align/112", |b| {
        b.iter(|| align_face(black_box(&image), &points));
    });
    let mut numbers = Numbers(2);
    let candidates: Vec<Candidate> = (0..500)
        .map(|_| {
            let (x1, y1) = (numbers.up_to(600.0), numbers.up_to(600.0));
            let side = 10.0 + numbers.up_to(80.0);
            Candidate {
                bbox: BBox {
                    x1,
                    y1,
                    x2: x1 + side,
                    y2: y1 + side,
                },
                score: numbers.up_to(1.0),
                landmarks: None,
            }
        })
        .collect();
    criterion.bench_function("nms/500", |b| {
        b.iter(|| nms(black_box(candidates.clone()), 0.3, None));
    });
}

criterion_group!(benches, decoding, rows, faces);
criterion_main!(benches);
