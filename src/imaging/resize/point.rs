//! Bilinear sampling between the four nearest samples in OpenCV's fixed-point arithmetic (`INTER_LINEAR` on 8-bit
//! pixels, 5.0.0), bit for bit: weights of 11 bits, rows of 4 bits less, and one rounding at the end. Detectors are
//! sensitive to it: rounding after each of the two passes moves boxes by half a pixel.

use image::RgbImage;

const WEIGHT_BITS: u32 = 11;
const ONE: f32 = (1 << WEIGHT_BITS) as f32;

/// The two samples that a target position lies between, and their weights, which sum to 2^11.
#[derive(Clone, Copy)]
struct Tap {
    first: usize,
    second: usize,
    weights: [i32; 2],
}

/// The taps along one axis.
fn taps(from: u32, to: u32) -> impl Iterator<Item = Tap> {
    let scale = f64::from(from) / f64::from(to);
    let last = i64::from(from) - 1;
    (0..to).map(move |target| {
        let centre = ((f64::from(target) + 0.5) * scale - 0.5) as f32;
        let floor = centre.floor();
        let share = centre - floor;
        // Beyond the outermost centres the border sample stands for both.
        let sample = |index: i64| index.clamp(0, last) as usize;
        let weight = |share: f32| (share * ONE).round_ties_even() as i32;
        Tap {
            first: sample(floor as i64),
            second: sample(floor as i64 + 1),
            weights: [weight(1.0 - share), weight(share)],
        }
    })
}

/// A source row sampled along x, and which row it is.
struct Line {
    row: Option<usize>,
    samples: Vec<i32>,
}

impl Line {
    fn new(len: usize) -> Self {
        Self {
            row: None,
            samples: vec![0; len],
        }
    }

    fn fill(&mut self, row: usize, source: &[u8], taps: &[Tap]) {
        if self.row == Some(row) {
            return;
        }
        self.row = Some(row);
        for (out, tap) in self.samples.chunks_exact_mut(3).zip(taps) {
            let (first, second) = (
                &source[tap.first * 3..][..3],
                &source[tap.second * 3..][..3],
            );
            for channel in 0..3 {
                let sum = i32::from(first[channel]) * tap.weights[0]
                    + i32::from(second[channel]) * tap.weights[1];
                out[channel] = sum >> 4;
            }
        }
    }
}

/// Resizes to `width` × `height`; both pictures have pixels.
pub(super) fn resize(picture: &RgbImage, width: u32, height: u32) -> RgbImage {
    let across: Vec<Tap> = taps(picture.width(), width).collect();
    let stride = picture.width() as usize * 3;
    let row_of = |row: usize| &picture.as_raw()[row * stride..][..stride];
    let mut target = RgbImage::new(width, height);
    let line_len = width as usize * 3;
    let (mut upper, mut lower) = (Line::new(line_len), Line::new(line_len));
    for (line, tap) in target
        .chunks_exact_mut(line_len)
        .zip(taps(picture.height(), height))
    {
        // Going down, the lower row of one line is often the upper row of the next.
        if lower.row == Some(tap.first) {
            std::mem::swap(&mut upper, &mut lower);
        }
        upper.fill(tap.first, row_of(tap.first), &across);
        lower.fill(tap.second, row_of(tap.second), &across);
        let [above, below] = tap.weights;
        for ((out, &upper), &lower) in line.iter_mut().zip(&upper.samples).zip(&lower.samples) {
            let sum = ((above * upper) >> 16) + ((below * lower) >> 16);
            *out = ((sum + 2) >> 2).clamp(0, 255) as u8;
        }
    }
    target
}
