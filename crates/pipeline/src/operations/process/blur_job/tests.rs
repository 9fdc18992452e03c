//! Compares blurs with OpenCV's results on every path: the CPU code, the ONNX graph, and libtorch if it is linked.

use proptest::prelude::*;

use super::*;
use facescan_imaging::{
    blur::gaussian_blur,
    synthetic::{assert_within, fixture_image, noise, synthetic},
};
use facescan_inference::graphs::{check::RUNTIMES, session::Values};

/// Calls `check` once for each path, with its name and a function that blurs.
fn on_every_path(mut check: impl FnMut(&str, &mut dyn FnMut(&BlurJob) -> RgbImage)) {
    check("cpu", &mut BlurJob::run_on_cpu);
    for runtime in RUNTIMES {
        let mut graphs = GraphSessions::new(Arc::new(|graph| Ok(runtime.open(graph))));
        check(runtime.name, &mut |work| {
            work.run_on_device(&mut graphs).unwrap()
        });
    }
}

fn whole(image: &RgbImage, (kernel, sigma): (u32, f32)) -> BlurJob {
    let region = Region::full(image.dimensions());
    BlurJob::new(image, region, &Gaussian::new(kernel, sigma).unwrap())
}

#[test]
fn golden_values_of_blurs() {
    let cases = [
        ("blur_7.png", (97, 61), (7, 1.5)),
        ("blur_21.png", (97, 61), (21, 5.0)),
        ("blur_small.png", (5, 3), (21, 5.0)),
    ];
    on_every_path(|path, blur| {
        for (name, (width, height), gaussian) in cases {
            let ours = blur(&whole(&synthetic(width, height), gaussian));
            assert_within(&ours, &fixture_image(name), 1, &format!("{name} on {path}"));
        }
    });
}

#[test]
fn golden_values_of_the_kernel() {
    let kernel = [
        0.036633, 0.111281, 0.216745, 0.270682, 0.216745, 0.111281, 0.036633,
    ];
    // The blur of a bright pixel is the kernel, rounded to levels.
    let mut source = RgbImage::new(31, 31);
    source.put_pixel(15, 15, image::Rgb([255; 3]));
    on_every_path(|path, blur| {
        let ours = blur(&whole(&source, (7, 1.5)));
        for (x, y, pixel) in ours.enumerate_pixels() {
            let weight = |at: u32| match at.checked_sub(12) {
                Some(at) => kernel.get(at as usize).copied().unwrap_or(0.0),
                None => 0.0,
            };
            let exact: f64 = 255.0 * weight(x) * weight(y);
            let apart = (f64::from(pixel[0]) - exact).abs();
            assert!(apart < 0.501, "{x} {y} on {path}: {pixel:?} and {exact}");
        }
    });
}

#[test]
fn a_flat_image_does_not_change_on_any_path() {
    on_every_path(|path, blur| {
        for (width, height) in [(1, 1), (1, 5), (5, 1), (2, 2), (300, 3)] {
            let flat = RgbImage::from_pixel(width, height, image::Rgb([0, 93, 255]));
            for gaussian in [(1, 1.0), (3, 0.5), (255, 40.0)] {
                let ours = blur(&whole(&flat, gaussian));
                assert!(ours == flat, "{width}x{height} by {gaussian:?} on {path}");
            }
        }
    });
}

#[test]
fn a_graph_that_returns_too_little_is_an_error() {
    let work = BlurJob::probe().unwrap();
    let plan = BlurPlan::new(work.image.dimensions(), work.region, &work.gaussian);
    assert!(plan.pixels(&[0; 17]).is_none());
    let right = work.run_on_cpu();
    let mut wrong = right.clone();
    wrong.put_pixel(3, 4, image::Rgb([right.get_pixel(3, 4)[0] ^ 16, 0, 0]));
    assert!(work.compare(&right, &right).is_ok());
    assert!(work.compare(&wrong, &right).is_err());
}

#[test]
fn pixels_that_tiles_read_are_counted() {
    let gaussian = |kernel| Gaussian::new(kernel, 2.0).unwrap();
    let region = |width, height| Region::full((width, height));
    // The counts must match the lists of rows and columns in the plan.
    for (size, kernel) in [
        ((150, 110), 7),
        ((1, 1), 255),
        ((9000, 2), 255),
        ((64, 64), 1),
    ] {
        let gaussian = gaussian(kernel);
        let tiles = Tiles::new(region(size.0, size.1), &gaussian);
        let source = RgbImage::new(size.0, size.1);
        let plan = BlurPlan::new(size, region(size.0, size.1), &gaussian);
        let inputs = plan.inputs(&source);
        let counts = [&inputs[1], &inputs[2]].map(|input| match &input.values {
            Values::I32(places) => places.len() as u64,
            other => panic!("{other:?}"),
        });
        assert_eq!(tiles.pixels_read(), counts[0] * counts[1], "{size:?}");
    }
    let read =
        |size: (u32, u32), kernel| Tiles::new(Region::full(size), &gaussian(kernel)).pixels_read();
    assert!(read((1920, 1080), 21) <= MAX_READ, "a usual image");
    assert!(read((65_000, 40), 255) > MAX_READ, "a long, thin image");
    assert!(read((10_000, 10_000), 3) > MAX_READ, "a huge image");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn every_path_gives_the_cpus_levels(
        (width, height) in (1u32..200, 1u32..200),
        corners in (0u32..200, 0u32..200, 0u32..200, 0u32..200),
        half in 0u32..60,
        spread in 0.1f32..2.0,
    ) {
        let region = Region {
            x1: corners.0.min(corners.2),
            y1: corners.1.min(corners.3),
            x2: corners.0.max(corners.2) + 1,
            y2: corners.1.max(corners.3) + 1,
        };
        let region = region.clipped((width, height));
        prop_assume!(!region.is_empty());
        let gaussian = (2 * half + 1, 0.2 + half as f32 * spread / 2.0);
        let gaussian = Gaussian::new(gaussian.0, gaussian.1).unwrap();
        let source = noise(width, height);
        let work = BlurJob::new(&source, region, &gaussian);
        let right = crop(&gaussian_blur(&source, &gaussian), region);
        prop_assert!(work.run_on_cpu() == right, "the cut region");
        let mut in_place = source.clone();
        blur_region(&mut in_place, region, &gaussian);
        prop_assert!(crop(&in_place, region) == right, "in place");
        on_every_path(|path, blur| assert_within(&blur(&work), &right, 1, path));
    }
}
