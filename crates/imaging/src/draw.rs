//! Annotated images: draws boxes and landmarks for people to look at.

use image::{Rgb, RgbImage};
use imageproc::drawing::{draw_filled_circle_mut, draw_filled_rect_mut};
use imageproc::rect::Rect;

use super::geometry::{BBox, Landmarks};

/// A face to draw.
#[derive(Clone, Copy, Debug)]
pub struct Annotation {
    /// The box in pixels.
    pub bbox: BBox,
    /// The five points in pixels.
    pub landmarks: Option<Landmarks>,
    /// The detector's score, 0..=1. The box is green for 1 and red for 0.
    pub score: Option<f32>,
}

const LANDMARK_COLORS: [Rgb<u8>; 5] = [
    Rgb([0, 160, 255]),
    Rgb([0, 255, 255]),
    Rgb([255, 220, 0]),
    Rgb([255, 0, 200]),
    Rgb([255, 140, 200]),
];

/// Draws boxes and landmarks. Lines are 1/400 of the long side thick, at least 1 px, and lie inside the box.
/// Coordinates that are outside the image or non-finite are skipped.
pub fn annotate(image: &mut RgbImage, faces: &[Annotation]) {
    let thickness = (image.width().max(image.height()) / 400).max(1) as i32;
    for face in faces {
        let green = (face.score.unwrap_or(1.0).clamp(0.0, 1.0) * 255.0) as u8;
        draw_box(image, &face.bbox, thickness, Rgb([255 - green, green, 0]));
        for (point, color) in face.landmarks.iter().flatten().zip(LANDMARK_COLORS) {
            draw_point(image, *point, thickness + 1, color);
        }
    }
}

fn draw_box(image: &mut RgbImage, bbox: &BBox, thickness: i32, color: Rgb<u8>) {
    // Clamping keeps NaN, which is cast to 0 and results in an empty box.
    let clipped = bbox.clipped(image.width(), image.height());
    let [x1, y1, x2, y2] = clipped.to_array().map(|v| v.round() as i32);
    let (width, height) = (x2 - x1, y2 - y1);
    let (down, across) = (thickness.min(height), thickness.min(width));
    let lines = [
        (x1, y1, width, down),
        (x1, y2 - down, width, down),
        (x1, y1, across, height),
        (x2 - across, y1, across, height),
    ];
    for (x, y, width, height) in lines {
        if width > 0 && height > 0 {
            let line = Rect::at(x, y).of_size(width.unsigned_abs(), height.unsigned_abs());
            draw_filled_rect_mut(image, line, color);
        }
    }
}

fn draw_point(image: &mut RgbImage, [x, y]: [f32; 2], radius: i32, color: Rgb<u8>) {
    let inside = |v: f32, side: u32| (0.0..side as f32).contains(&v);
    if inside(x, image.width()) && inside(y, image.height()) {
        let center = (x.round() as i32, y.round() as i32);
        draw_filled_circle_mut(image, center, radius, color);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLACK: Rgb<u8> = Rgb([0; 3]);

    fn face(bbox: [f32; 4]) -> Annotation {
        Annotation {
            bbox: bbox.into(),
            landmarks: None,
            score: Some(1.0),
        }
    }

    #[test]
    fn a_box_is_an_outline_and_points_are_discs() {
        let mut image = RgbImage::new(100, 80);
        let mut annotation = face([10.0, 20.0, 50.0, 60.0]);
        annotation.landmarks = Some([
            [20.0, 30.0],
            [40.0, 30.0],
            [30.0, 40.0],
            [22.0, 50.0],
            [38.0, 50.0],
        ]);
        annotate(&mut image, &[annotation]);
        let green = Rgb([0, 255, 0]);
        for (x, y) in [(10, 20), (49, 20), (10, 59), (49, 59), (30, 20), (10, 40)] {
            assert_eq!(*image.get_pixel(x, y), green, "{x} {y}");
        }
        for (x, y) in [(9, 20), (50, 20), (30, 19), (30, 60), (15, 25)] {
            assert_eq!(*image.get_pixel(x, y), BLACK, "{x} {y}");
        }
        assert_eq!(*image.get_pixel(30, 40), LANDMARK_COLORS[2]);
        assert_eq!(*image.get_pixel(32, 40), LANDMARK_COLORS[2]);
    }

    #[test]
    fn lines_grow_with_the_image() {
        let mut image = RgbImage::new(2000, 100);
        annotate(&mut image, &[face([100.0, 10.0, 300.0, 90.0])]);
        assert_ne!(*image.get_pixel(104, 50), BLACK);
        assert_eq!(*image.get_pixel(105, 50), BLACK);
    }

    #[test]
    fn what_cannot_be_drawn_is_left_out() {
        let mut image = RgbImage::new(20, 20);
        let mut nan = face([f32::NAN; 4]);
        nan.landmarks = Some([
            [f32::NAN; 2],
            [-5.0, 3.0],
            [f32::INFINITY; 2],
            [1e30, 1.0],
            [20.0, 20.0],
        ]);
        nan.score = Some(f32::NAN);
        annotate(
            &mut image,
            &[
                nan,
                face([30.0, 30.0, 40.0, 40.0]),
                face([5.0, 5.0, 5.0, 9.0]),
            ],
        );
        assert!(image.pixels().all(|p| *p == BLACK));
        annotate(&mut image, &[face([-1e9, -1e9, 1e9, 1e9])]);
        assert_ne!(*image.get_pixel(0, 19), BLACK);
    }
}
