use super::*;
use crate::synthetic::noise;

#[test]
fn the_margin_is_a_share_of_each_side() {
    let at = Region::from([40, 50, 60, 90]);
    assert_eq!(
        padded((200, 200), at, 0.25),
        Region::from([35, 40, 65, 100])
    );
    assert_eq!(padded((62, 95), at, 0.25), Region::from([35, 40, 62, 95]));
    assert_eq!(
        padded((200, 200), at, f32::INFINITY),
        Region::from([0, 0, 200, 200])
    );
    for nothing in [0.0, -1.0, f32::NAN] {
        assert_eq!(padded((200, 200), at, nothing), at);
    }
}

#[test]
fn a_crop_contains_the_pixels_of_its_region() {
    let image = noise(13, 9);
    let cropped = crop(&image, Region::from([2, 3, 7, 20]));
    assert_eq!(cropped.dimensions(), (5, 6));
    for (x, y, pixel) in cropped.enumerate_pixels() {
        assert_eq!(pixel, image.get_pixel(x + 2, y + 3));
    }
    assert_eq!(crop(&image, Region::full((13, 9))), image);
    for empty in [[5, 5, 5, 8], [7, 2, 3, 8], [13, 0, 20, 9], [0, 9, 4, 9]] {
        assert!(Region::from(empty).clipped((13, 9)).is_empty());
        assert!(crop(&image, Region::from(empty)).is_empty());
    }
    assert!(crop(&RgbImage::new(0, 5), Region::from([0, 0, 5, 5])).is_empty());
}

#[test]
fn sizes_equal_the_examples_of_the_definition() {
    let size = |width, height| bounded_size((width, height), &Bounds::default());
    assert_eq!(size(1080, 540), (1072, 528));
    assert_eq!(size(720, 1440), (640, 1280));
    assert_eq!(size(1281, 721), (1136, 640));
    assert_eq!(size(401, 300), (400, 288));
    // The long side is limited after the short one.
    assert_eq!(size(1000, 5000), (256, 1280));
    assert_eq!(size(9, 15), (16, 16));
    assert_eq!(size(0, 0), (16, 16));
    assert_eq!(size(u32::MAX, 1), (1280, 16));
    let none = Bounds {
        short: 0,
        long: 0,
        multiple: 0,
    };
    assert_eq!(bounded_size((3, 5), &none), (1, 1));
}
