//! What OpenCV says of blurs, on every path that makes them: the CPU's code, the ONNX graph, and libtorch where it is linked.

use proptest::prelude::*;

use super::*;
use crate::{
    imaging::synthetic::{assert_within, noise, picture, synthetic},
    inference::graphs::check::RUNTIMES,
};

/// Calls `check` with a name and a way to blur, once for each path.
fn on_every_path(mut check: impl FnMut(&str, &mut dyn FnMut(&Blurring) -> RgbImage)) {
    check("cpu", &mut Blurring::run_on_cpu);
    for runtime in RUNTIMES {
        let mut graphs = Graphs::new(Arc::new(|graph| Ok(runtime.open(graph))));
        check(runtime.name, &mut |work| {
            work.run_on_device(&mut graphs).unwrap()
        });
    }
}

fn blurring(picture: RgbImage, region: Region, (kernel, sigma): (u32, f32)) -> Blurring {
    Blurring {
        picture: Arc::new(picture),
        region,
        gaussian: Gaussian::new(kernel, sigma).unwrap(),
    }
}

fn whole(picture: RgbImage, gaussian: (u32, f32)) -> Blurring {
    let region = Region::whole(picture.dimensions());
    blurring(picture, region, gaussian)
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
            let ours = blur(&whole(synthetic(width, height), gaussian));
            assert_within(&ours, &picture(name), 1, &format!("{name} on {path}"));
        }
    });
}

#[test]
fn golden_values_of_the_kernel() {
    let kernel = [
        0.036633, 0.111281, 0.216745, 0.270682, 0.216745, 0.111281, 0.036633,
    ];
    // A bright point becomes the kernel, in 255ths and rounded.
    let mut source = RgbImage::new(31, 31);
    source.put_pixel(15, 15, image::Rgb([255; 3]));
    on_every_path(|path, blur| {
        let ours = blur(&whole(source.clone(), (7, 1.5)));
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
fn a_flat_picture_stays_on_every_path() {
    on_every_path(|path, blur| {
        for (width, height) in [(1, 1), (1, 5), (5, 1), (2, 2), (300, 3)] {
            let flat = RgbImage::from_pixel(width, height, image::Rgb([0, 93, 255]));
            for gaussian in [(1, 1.0), (3, 0.5), (255, 40.0)] {
                let ours = blur(&whole(flat.clone(), gaussian));
                assert!(ours == flat, "{width}x{height} by {gaussian:?} on {path}");
            }
        }
    });
}

#[test]
fn a_graph_that_gives_too_little_is_an_error() {
    let work = Blurring::known().unwrap();
    let plan = BlurPlan::new(work.picture.dimensions(), work.region, &work.gaussian);
    assert!(plan.pixels(&[0; 17]).is_none());
    let right = work.run_on_cpu();
    let mut wrong = right.clone();
    wrong.put_pixel(3, 4, image::Rgb([right.get_pixel(3, 4)[0] ^ 16, 0, 0]));
    assert!(work.compare(&right, &right).is_ok());
    assert!(work.compare(&wrong, &right).is_err());
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
        let work = blurring(noise(width, height), region, gaussian);
        let right = work.run_on_cpu();
        on_every_path(|path, blur| assert_within(&blur(&work), &right, 1, path));
    }
}
