//! Face alignment: a five-point similarity to the ArcFace template, sampled bilinearly.

use image::RgbImage;

use super::geometry::Landmarks;

/// The side of an aligned face in pixels.
pub const ALIGNED_SIDE: u32 = 112;

/// Where the five points of an aligned 112 × 112 face lie (ArcFace, Deng et al. 2019; InsightFace's `arcface_dst`).
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
    /// Where a point goes.
    pub fn apply(&self, [x, y]: [f64; 2]) -> [f64; 2] {
        [
            self.a * x - self.b * y + self.tx,
            self.b * x + self.a * y + self.ty,
        ]
    }

    /// The uniform scale.
    pub fn scale(&self) -> f64 {
        self.a.hypot(self.b)
    }

    /// The transform back.
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

/// The similarity without reflection that brings `from` to `to` with the least squared error.
///
/// This is Umeyama's estimate (1991) with scale; in two dimensions it has a closed form. `None` where the points
/// fix no transform: they coincide, the best scale is zero, or a coordinate is not finite.
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
    let turned = Similarity {
        a,
        b,
        tx: 0.0,
        ty: 0.0,
    };
    let [x, y] = turned.apply(from_mean);
    let similarity = Similarity {
        tx: to_mean[0] - x,
        ty: to_mean[1] - y,
        ..turned
    };
    // Points within a thousandth of a pixel of each other are one point.
    let usable = spread > 1e-6 && similarity.scale() > 1e-9 && similarity.scale().is_finite();
    usable.then_some(similarity)
}

fn mean(points: &Landmarks) -> [f64; 2] {
    let sum = |axis: usize| points.iter().map(|p| f64::from(p[axis])).sum::<f64>();
    [sum(0) / 5.0, sum(1) / 5.0]
}

/// Cuts the face at `points` (in pixels of `picture`) as an upright 112 × 112 crop on [`ARCFACE_TEMPLATE`].
///
/// Bilinear, black outside the picture: OpenCV's `warpAffine(INTER_LINEAR, borderValue 0)`. Faces much larger
/// than 112 px are deliberately not smoothed first, because embeddings are compared with those of OpenCV's crops.
/// `None` where [`similarity`] is.
pub fn align_face(picture: &RgbImage, points: &Landmarks) -> Option<RgbImage> {
    let to_picture = similarity(points, &ARCFACE_TEMPLATE)?.inverse();
    let mut crop = RgbImage::new(ALIGNED_SIDE, ALIGNED_SIDE);
    for (x, y, pixel) in crop.enumerate_pixels_mut() {
        pixel.0 = sample(picture, to_picture.apply([f64::from(x), f64::from(y)]));
    }
    Some(crop)
}

/// The picture at a fractional position; pixels outside count as black.
fn sample(picture: &RgbImage, [x, y]: [f64; 2]) -> [u8; 3] {
    let (width, height) = (f64::from(picture.width()), f64::from(picture.height()));
    if !(x > -1.0 && y > -1.0 && x < width && y < height) {
        return [0; 3];
    }
    let (left, top) = (x.floor(), y.floor());
    let (fx, fy) = ((x - left) as f32, (y - top) as f32);
    let (left, top) = (left as i64, top as i64);
    let at = |x: i64, y: i64| -> [f32; 3] {
        let inside = u32::try_from(x).ok().zip(u32::try_from(y).ok());
        inside
            .and_then(|(x, y)| picture.get_pixel_checked(x, y))
            .map_or([0.0; 3], |pixel| pixel.0.map(f32::from))
    };
    let corners = [
        at(left, top),
        at(left + 1, top),
        at(left, top + 1),
        at(left + 1, top + 1),
    ];
    std::array::from_fn(|c| {
        let [a, b, d, e] = corners.map(|corner| corner[c]);
        let upper = a + fx * (b - a);
        let lower = d + fx * (e - d);
        (upper + fy * (lower - upper)).round() as u8
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::imaging::synthetic::{picture, reference, synthetic};

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
    fn points_that_fix_no_transform() {
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
            let theirs = picture(name);
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

    #[test]
    fn an_aligned_face_is_its_own_crop() {
        let source = synthetic(112, 112);
        assert_eq!(align_face(&source, &ARCFACE_TEMPLATE), Some(source));
    }
}
