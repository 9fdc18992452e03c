//! Face alignment: a five-point similarity to the ArcFace template, sampled bilinearly.

use image::RgbImage;
use multiversion::multiversion;

use super::{geometry::Landmarks, orientation::around, resize::Pixel};

/// The side of an aligned face in pixels.
pub const ALIGNED_SIDE: u32 = 112;

/// The five landmarks of an aligned 112 × 112 face (ArcFace, Deng et al. 2019; InsightFace's `arcface_dst`).
pub const ARCFACE_TEMPLATE: Landmarks = [
    [38.2946, 51.6963],
    [73.5318, 51.5014],
    [56.0252, 71.7366],
    [41.5493, 92.3655],
    [70.7299, 92.2041],
];

/// Rotation, uniform scale and translation: `x' = a·x − b·y + tx`, `y' = b·x + a·y + ty`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Similarity {
    /// Scale times the cosine of the angle.
    pub a: f64,
    /// Scale times the sine of the angle.
    pub b: f64,
    /// Translation along x.
    pub tx: f64,
    /// Translation along y.
    pub ty: f64,
}

impl Similarity {
    /// Maps a point.
    pub fn apply(&self, [x, y]: [f64; 2]) -> [f64; 2] {
        [
            self.a * x - self.b * y + self.tx,
            self.b * x + self.a * y + self.ty,
        ]
    }

    /// Returns the uniform scale.
    pub fn scale(&self) -> f64 {
        self.a.hypot(self.b)
    }

    /// Returns the inverse transform.
    fn inverse(&self) -> Self {
        let square = self.a * self.a + self.b * self.b;
        let (a, b) = (self.a / square, -self.b / square);
        Self {
            a,
            b,
            tx: -(a * self.tx - b * self.ty),
            ty: -(b * self.tx + a * self.ty),
        }
    }
}

/// Returns the similarity without reflection that maps `from` to `to` with the least squared error.
///
/// This is Umeyama's estimate (1991) with scale, which has a closed form in two dimensions. Returns `None` if the
/// points determine no transform: they coincide, the best scale is zero, or a coordinate is not finite.
pub fn similarity(from: &Landmarks, to: &Landmarks) -> Option<Similarity> {
    let (from_mean, to_mean) = (mean(from), mean(to));
    let (mut dot, mut cross, mut spread) = (0.0, 0.0, 0.0);
    for (p, q) in from.iter().zip(to) {
        let (px, py) = (
            f64::from(p[0]) - from_mean[0],
            f64::from(p[1]) - from_mean[1],
        );
        let (qx, qy) = (f64::from(q[0]) - to_mean[0], f64::from(q[1]) - to_mean[1]);
        dot += px * qx + py * qy;
        cross += px * qy - py * qx;
        spread += px * px + py * py;
    }
    let (a, b) = (dot / spread, cross / spread);
    let linear = Similarity {
        a,
        b,
        tx: 0.0,
        ty: 0.0,
    };
    let [x, y] = linear.apply(from_mean);
    let similarity = Similarity {
        tx: to_mean[0] - x,
        ty: to_mean[1] - y,
        ..linear
    };
    // Points within a thousandth of a pixel of each other count as one point.
    let usable = spread > 1e-6 && similarity.scale() > 1e-9 && similarity.scale().is_finite();
    usable.then_some(similarity)
}

fn mean(points: &Landmarks) -> [f64; 2] {
    let sum = |axis: usize| points.iter().map(|p| f64::from(p[axis])).sum::<f64>();
    [sum(0) / 5.0, sum(1) / 5.0]
}

/// Crops the face at `points` (in pixels of `image`), aligned to [`ARCFACE_TEMPLATE`]: upright, 112 × 112 pixels.
///
/// Sampling is bilinear, and pixels outside the image are black, as in OpenCV's
/// `warpAffine(INTER_LINEAR, borderValue 0)`. Faces much larger than 112 px are not smoothed first, because their
/// embeddings are compared with those of OpenCV's crops. Returns `None` if [`similarity`] returns `None`.
pub fn align_face(image: &RgbImage, points: &Landmarks) -> Option<RgbImage> {
    let to_image = similarity(points, &ARCFACE_TEMPLATE)?.inverse();
    let mut samples = Vec::with_capacity((ALIGNED_SIDE * ALIGNED_SIDE * 3) as usize);
    let mut line = Line::new();
    for y in 0..ALIGNED_SIDE {
        locate(&mut line, &to_image, f64::from(y));
        line.gather(image);
        interpolate(&mut line);
        samples.extend(line.pixels.iter().flat_map(|[r, g, b, _]| [r, g, b]));
    }
    RgbImage::from_raw(ALIGNED_SIDE, ALIGNED_SIDE, samples)
}

/// Returns how much [`align_face`] enlarges the face at `points`, in pixels of the crop per pixel of the image. Returns
/// `None` if [`similarity`] returns `None`.
pub fn alignment_scale(points: &Landmarks) -> Option<f64> {
    similarity(points, &ARCFACE_TEMPLATE).map(|similarity| similarity.scale())
}

/// Added to a small f64 integer, this leaves the integer in the low bits of the sum. It replaces a cast, which checks
/// the range and is not vectorized.
const INTEGER_BITS: f64 = (3u64 << 51) as f64;

const LINE: usize = ALIGNED_SIDE as usize;

/// One line of a crop, and the pixels that it is interpolated from.
struct Line {
    /// The column and the row of the upper left of the four pixels around each position.
    at: [[i32; LINE]; 2],
    /// The distance of the position from that pixel along x and y, 0..1.
    fractions: [[f32; LINE]; 2],
    /// The upper left, upper right, lower left and lower right pixel.
    corners: [[Pixel; LINE]; 4],
    pixels: [Pixel; LINE],
}

impl Line {
    fn new() -> Self {
        Self {
            at: [[0; LINE]; 2],
            fractions: [[0.0; LINE]; 2],
            corners: [[Pixel::default(); LINE]; 4],
            pixels: [Pixel::default(); LINE],
        }
    }

    /// Loads the pixels around the positions; pixels outside the image are black.
    fn gather(&mut self, image: &RgbImage) {
        let (width, samples) = (image.width() as usize, image.as_raw().as_slice());
        let stride = width * 3;
        let pair = |at: usize| samples.get(at..at + 8);
        for i in 0..LINE {
            let (left, top) = (self.at[0][i], self.at[1][i]);
            let inside = usize::try_from(left).ok().zip(usize::try_from(top).ok());
            let inside = inside.filter(|(left, _)| left + 1 < width);
            let pairs = inside.and_then(|(left, top)| {
                let at = top.checked_mul(stride)? + left * 3;
                Some((pair(at)?, pair(at + stride)?))
            });
            let corners = match pairs {
                // One load has both pixels of a row.
                Some((&[a, b, c, d, e, f, g, _], &[h, j, k, l, m, n, o, _])) => {
                    [[a, b, c, d], [d, e, f, g], [h, j, k, l], [l, m, n, o]]
                }
                _ => around_or_black(image, left, top),
            };
            for (all, corner) in self.corners.iter_mut().zip(corners) {
                all[i] = corner;
            }
        }
    }
}

/// Maps the positions of line `y` to the image.
#[multiversion(targets = "simd")]
fn locate(line: &mut Line, to_image: &Similarity, y: f64) {
    for i in 0..LINE {
        let position = to_image.apply([f64::from(i as i32), y]);
        for (axis, position) in position.into_iter().enumerate() {
            let floor = position.floor();
            // Positions outside every image are moved into the range of the integer conversion.
            let near = floor.clamp(-2.0, f64::from(i32::MAX));
            line.at[axis][i] = (near + INTEGER_BITS).to_bits() as i32;
            line.fractions[axis][i] = (position - floor) as f32;
        }
    }
}

/// Returns the four pixels at and after a position; pixels outside the image are black.
#[cold]
fn around_or_black(image: &RgbImage, left: i32, top: i32) -> [Pixel; 4] {
    around(image, left.into(), top.into(), [0; 3]).map(|[r, g, b]| [r, g, b, 0])
}

/// Interpolates between the four pixels around each position.
#[multiversion(targets = "simd")]
fn interpolate(line: &mut Line) {
    for i in 0..LINE {
        let corners = [0, 1, 2, 3].map(|corner: usize| u32::from_le_bytes(line.corners[corner][i]));
        let [fx, fy] = [line.fractions[0][i], line.fractions[1][i]];
        let mut pixel = 0;
        for channel in 0..3 {
            let [a, b, c, d] = corners.map(|word| ((word >> (8 * channel)) & 255) as i32 as f32);
            let upper = a + fx * (b - a);
            let lower = c + fx * (d - c);
            let level = upper + fy * (lower - upper);
            // Rounds halves up. Adding 0.5 first would round 0.49999997 up too.
            let floor = level.floor();
            let rounded = if level - floor >= 0.5 {
                floor + 1.0
            } else {
                floor
            };
            pixel |= ((rounded + 8_388_608.0).to_bits() & 255) << (8 * channel);
        }
        line.pixels[i] = pixel.to_le_bytes();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::{fixture_image, reference, synthetic};
    use image::Rgb;
    use proptest::prelude::*;

    fn points(value: &serde_json::Value) -> Landmarks {
        serde_json::from_value(value.clone()).unwrap()
    }

    #[test]
    fn the_estimate_equals_umeyama() {
        let align = &reference()["align"];
        let ours = similarity(&points(&align["points"]), &ARCFACE_TEMPLATE).unwrap();
        let theirs: [[f64; 3]; 2] = serde_json::from_value(align["matrix"].clone()).unwrap();
        let ours = [[ours.a, -ours.b, ours.tx], [ours.b, ours.a, ours.ty]];
        for (row, expected) in ours.iter().zip(&theirs) {
            for (value, expected) in row.iter().zip(expected) {
                assert!((value - expected).abs() < 1e-4, "{ours:?} {theirs:?}");
            }
        }
    }

    #[test]
    fn a_known_transform_is_found_and_inverted() {
        let known = Similarity {
            a: 1.5,
            b: -0.75,
            tx: 12.0,
            ty: -7.0,
        };
        let to = ARCFACE_TEMPLATE.map(|p| known.apply(p.map(f64::from)).map(|v| v as f32));
        let found = similarity(&ARCFACE_TEMPLATE, &to).unwrap();
        assert!((found.scale() - known.scale()).abs() < 1e-5);
        for p in ARCFACE_TEMPLATE {
            let back = found.inverse().apply(found.apply(p.map(f64::from)));
            assert!((back[0] - f64::from(p[0])).abs() < 1e-9);
            assert!((back[1] - f64::from(p[1])).abs() < 1e-9);
        }
    }

    #[test]
    fn points_that_determine_no_transform() {
        assert_eq!(similarity(&[[5.0, 5.0]; 5], &ARCFACE_TEMPLATE), None);
        assert_eq!(similarity(&ARCFACE_TEMPLATE, &[[1.0, 2.0]; 5]), None);
        let mut broken = ARCFACE_TEMPLATE;
        broken[2][0] = f32::NAN;
        assert_eq!(similarity(&broken, &ARCFACE_TEMPLATE), None);
        broken[2][0] = f32::INFINITY;
        assert_eq!(similarity(&broken, &ARCFACE_TEMPLATE), None);
        assert!(align_face(&synthetic(9, 9), &[[3.0, 3.0]; 5]).is_none());
    }

    #[test]
    fn crops_equal_the_reference() {
        let align = &reference()["align"];
        let source = synthetic(200, 180);
        for (name, at) in [("aligned.png", "points"), ("aligned_edge.png", "edge")] {
            let ours = align_face(&source, &points(&align[at])).unwrap();
            let theirs = fixture_image(name);
            let apart = ours
                .as_raw()
                .iter()
                .zip(theirs.as_raw())
                .map(|(a, b)| a.abs_diff(*b));
            let (over, worst) = apart.fold((0, 0), |(over, worst), d| {
                (over + usize::from(d > 1), worst.max(d))
            });
            assert!(
                over * 1000 <= theirs.as_raw().len(),
                "{name}: {over} over one level"
            );
            assert!(worst <= 3, "{name}: {worst} levels");
        }
    }

    /// Returns the image at a fractional position, by definition. Pixels outside the image are black.
    fn sample(image: &RgbImage, [x, y]: [f64; 2]) -> [u8; 3] {
        let (left, top) = (x.floor(), y.floor());
        let (fx, fy) = ((x - left) as f32, (y - top) as f32);
        let corners = around(image, left as i64, top as i64, [0; 3]);
        std::array::from_fn(|c| {
            let [a, b, d, e] = corners.map(|corner| f32::from(corner[c]));
            let upper = a + fx * (b - a);
            let lower = d + fx * (e - d);
            (upper + fy * (lower - upper)).round() as u8
        })
    }

    proptest! {
        #[test]
        fn crops_equal_the_definition_bit_for_bit(
            (width, height) in (1u32..150, 1u32..150),
            (a, b) in (-4.0..4.0, -4.0..4.0),
            (tx, ty) in (-300.0..300.0, -300.0..300.0),
        ) {
            let image = synthetic(width, height);
            let known = Similarity { a, b, tx, ty };
            let points = ARCFACE_TEMPLATE.map(|p| known.apply(p.map(f64::from)).map(|v| v as f32));
            let Some(found) = similarity(&points, &ARCFACE_TEMPLATE) else {
                return Ok(());
            };
            let to_image = found.inverse();
            let expected = RgbImage::from_fn(ALIGNED_SIDE, ALIGNED_SIDE, |x, y| {
                Rgb(sample(&image, to_image.apply([f64::from(x), f64::from(y)])))
            });
            prop_assert!(align_face(&image, &points) == Some(expected));
        }
    }

    #[test]
    fn faces_far_outside_are_black() {
        let far = ARCFACE_TEMPLATE.map(|[x, y]| [x * 1e6 - 4e12, y * 1e6 + 4e12]);
        let black = RgbImage::new(ALIGNED_SIDE, ALIGNED_SIDE);
        assert!(align_face(&synthetic(9, 9), &far) == Some(black));
    }

    #[test]
    fn an_aligned_face_is_its_own_crop() {
        let source = synthetic(112, 112);
        assert_eq!(align_face(&source, &ARCFACE_TEMPLATE), Some(source));
    }
}
