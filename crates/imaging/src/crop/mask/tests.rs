use super::*;
use image::Luma;
use proptest::prelude::*;

/// Returns a mask of (width, height) with `level` in the given rows and columns, both ends included.
fn mask(size: (u32, u32), [top, bottom, left, right]: [u32; 4], level: u8) -> GrayImage {
    GrayImage::from_fn(size.0, size.1, |x, y| {
        let inside = (left..=right).contains(&x) && (top..=bottom).contains(&y);
        Luma([if inside { level } else { MASK_HALF }])
    })
}

/// Rows and columns of the mask, the crop, the unmet constraints and whether the padding is clipped.
type Case = ([u32; 4], [u32; 4], &'static [Unmet], bool);

#[test]
fn crops_equal_the_definitions_table() {
    use Unmet::{Aspect, MinSize, Odd};
    let tall: &[Case] = &[
        ([609, 818, 21, 893], [0, 444, 1080, 984], &[], true),
        ([700, 709, 500, 509], [249, 449, 761, 961], &[], false),
        ([0, 4, 0, 4], [0, 0, 512, 512], &[], true),
        ([1435, 1439, 1075, 1079], [568, 928, 1080, 1440], &[], true),
        ([0, 1439, 500, 519], [150, 0, 870, 1440], &[], true),
        ([700, 719, 0, 1079], [0, 440, 1080, 980], &[], true),
    ];
    let odd: &[Case] = &[([0, 720, 0, 1280], [0, 0, 1281, 721], &[Odd], true)];
    let small: &[Case] = &[([10, 20, 10, 20], [0, 0, 401, 300], &[Odd, MinSize], false)];
    let long: &[Case] = &[(
        [0, 399, 0, 3999],
        [0, 0, 4000, 400],
        &[Aspect, MinSize],
        true,
    )];
    let frames = [
        ((1080, 1440), tall),
        ((1281, 721), odd),
        ((401, 300), small),
        ((4000, 400), long),
    ];
    for (frame, cases) in frames {
        for (at, expected, unmet, padding_clipped) in cases {
            let tight = mask_box(&mask(frame, *at, 255)).unwrap();
            let ours = mask_crop(frame, tight, &MaskCropOptions::default());
            let theirs = MaskCrop {
                region: Region::from(*expected),
                unmet: unmet.to_vec(),
                padding_clipped: *padding_clipped,
            };
            assert_eq!(ours, theirs, "{frame:?} {at:?}");
        }
    }
}

#[test]
fn padding_is_a_share_of_the_tight_box_rounded_down() {
    let options = MaskCropOptions {
        min_size: (0, 0),
        ..MaskCropOptions::default()
    };
    // 15 and 9 pixels are padded by 7 and 4; the odd sides then grow by a pixel after them.
    let ours = mask_crop((100, 100), Region::from([30, 40, 45, 49]), &options);
    assert_eq!(ours.region, Region::from([23, 36, 53, 54]));
    let at_the_end = mask_crop((100, 100), Region::from([90, 95, 93, 100]), &options);
    assert_eq!(at_the_end.region, Region::from([89, 92, 95, 100]));
    assert!(at_the_end.padding_clipped && at_the_end.unmet.is_empty());
}

#[test]
fn an_odd_side_grows_at_the_start_where_the_end_has_no_room() {
    let options = MaskCropOptions {
        padding_ratio: 0.0,
        min_size: (1, 1),
        max_aspect: 10.0,
    };
    let even = |frame, at| mask_crop(frame, Region::from(at), &options);
    assert_eq!(
        even((10, 10), [3, 7, 6, 10]).region,
        Region::from([3, 6, 7, 10])
    );
    let full = even((3, 10), [0, 7, 3, 10]);
    assert_eq!(full.region, Region::from([0, 6, 3, 10]));
    assert_eq!(full.unmet, [Unmet::Odd]);
}

#[test]
fn the_box_is_around_all_pixels_over_one_half() {
    let found = |rows_and_columns, level| mask_box(&mask((20, 10), rows_and_columns, level));
    assert_eq!(found([2, 3, 4, 5], 128), Some(Region::from([4, 2, 6, 4])));
    let to_the_edge = Some(Region::from([10, 3, 20, 9]));
    assert_eq!(found([3, 8, 10, 19], 255), to_the_edge);
    assert_eq!(found([2, 3, 4, 5], 127), None);
    assert_eq!(mask_box(&GrayImage::new(0, 5)), None);
    assert_eq!(mask_box(&GrayImage::new(5, 0)), None);
}

proptest! {
    #[test]
    fn a_crop_is_inside_the_frame_around_the_masks_and_lists_unmet_constraints(
        (width, height) in (1u32..1500, 1u32..1500),
        corners in (0.0..1.0, 0.0..1.0, 0.0..1.0, 0.0..1.0),
        padding_ratio in 0.0f32..2.0,
        min_size in (0u32..700, 0u32..700),
        max_aspect in 1.0f32..4.0,
    ) {
        let side = |a: f64, b: f64, length: u32| {
            let [a, b] = [a.min(b), a.max(b)].map(|share| (share * f64::from(length)) as u32);
            (a, b + 1)
        };
        let (x1, x2) = side(corners.0, corners.1, width);
        let (y1, y2) = side(corners.2, corners.3, height);
        let options = MaskCropOptions { padding_ratio, min_size, max_aspect };
        let MaskCrop { region, unmet, .. } =
            mask_crop((width, height), Region { x1, y1, x2, y2 }, &options);
        prop_assert!(region.x1 <= x1 && x2 <= region.x2 && region.x2 <= width);
        prop_assert!(region.y1 <= y1 && y2 <= region.y2 && region.y2 <= height);

        let (w, h) = (region.width(), region.height());
        // A side is odd or too short only if it is as long as the frame.
        prop_assert!((w % 2 == 0 || w == width) && (h % 2 == 0 || h == height));
        prop_assert_eq!(unmet.contains(&Unmet::Odd), w % 2 == 1 || h % 2 == 1);
        let small = w < min_size.0 || h < min_size.1;
        prop_assert!(w >= min_size.0.min(width) && h >= min_size.1.min(height));
        prop_assert_eq!(unmet.contains(&Unmet::MinSize), small);
        // Two pixels of tolerance: the rounding down and the even side.
        let (short, long) = (w.min(h) as f32, w.max(h) as f32);
        let held = long <= (short + 2.0) * max_aspect;
        prop_assert!(held || unmet.contains(&Unmet::Aspect));
        let full = if w < h { w == width } else { h == height };
        prop_assert!(full || !unmet.contains(&Unmet::Aspect));
    }
}
