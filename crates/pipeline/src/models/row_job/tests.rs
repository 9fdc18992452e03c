//! Compares preprocessing with the results of the original libraries, on every path that makes rows: the CPU code, the
//! ONNX graphs, and libtorch if it is linked.

use std::sync::Arc;

use facescan_config::Dtype;
use half::{bf16, f16};
use image::{Rgb, RgbImage};

use super::*;
use crate::operations::preprocess::to_bytes;
use facescan_imaging::synthetic::{
    antialiased, antialiased_at, fixture, fixture_image, noise, synthetic,
};
use facescan_inference::graphs::check::RUNTIMES;

const MODES: [Mode; 4] = [
    Mode::Stretch,
    Mode::Letterbox,
    Mode::CenterCrop,
    Mode::ShortSide,
];

/// Calls `check` once for each path, with its name and a function that makes rows.
fn on_every_path(mut check: impl FnMut(&str, &mut dyn FnMut(&RowJob<RgbImage>) -> Vec<f32>)) {
    check("cpu", &mut |job| job.fill());
    for runtime in RUNTIMES {
        let mut graphs = GraphSessions::new(Arc::new(|graph| Ok(runtime.open(graph))));
        check(runtime.name, &mut |job| {
            assert!(job.has_graph());
            job.run_on_device(&mut graphs).unwrap()
        });
    }
}

/// Preprocessing to levels instead of normalized samples. `size` is width and height.
fn levels(size: (u32, u32), profile: Profile, mode: Mode) -> Preprocess {
    Preprocess {
        width: size.0,
        height: size.1,
        profile,
        mode,
        mean: [0.0; 3],
        std: [1.0 / 255.0; 3],
        ..Preprocess::default()
    }
}

/// Returns the largest difference and the mean difference.
fn apart(ours: &[f32], theirs: impl IntoIterator<Item = f64>) -> (f64, f64) {
    let theirs: Vec<f64> = theirs.into_iter().collect();
    assert_eq!(ours.len(), theirs.len());
    let pairs = ours.iter().zip(theirs);
    let (mut most, mut sum) = (0.0f64, 0.0);
    for (ours, theirs) in pairs {
        let apart = (f64::from(*ours) - theirs).abs();
        // The difference must not be NaN.
        assert!(apart.is_finite(), "{ours}");
        most = most.max(apart);
        sum += apart;
    }
    (most, sum / ours.len() as f64)
}

/// Returns the output of a library, pixel by pixel.
fn stored(name: &str) -> Vec<f64> {
    if name.ends_with(".png") {
        let levels = fixture_image(name).into_raw();
        return levels.into_iter().map(f64::from).collect();
    }
    let bytes = fixture(name);
    let values = bytes.as_chunks().0.iter();
    values.map(|v| f64::from(f32::from_le_bytes(*v))).collect()
}

#[test]
fn golden_values_of_the_profiles() {
    let (small, large) = ((97, 61), (1440, 1080));
    // The last value is the step between the stored lines.
    let cases = [
        ("torchvision_40.png", small, (40, 25), 1),
        ("torchvision_150.png", small, (150, 100), 1),
        ("torchvision_224.png", large, (224, 224), 16),
        ("jax_40.f32", small, (40, 25), 1),
        ("jax_150.f32", small, (150, 100), 16),
        ("jax_224.f32", large, (224, 224), 16),
        ("bilinear_40.png", small, (40, 25), 1),
        ("bilinear_150.png", small, (150, 100), 1),
        ("pil_224.png", large, (224, 224), 16),
        ("bilinear_point_40.png", small, (40, 25), 1),
        ("bilinear_point_150.png", small, (150, 100), 1),
        ("opencv_224.png", large, (224, 224), 16),
    ];
    let profiles = [
        (Profile::Torchvision, 1.0),
        (Profile::Jax, 1e-3),
        (Profile::Pil, 1.0),
        (Profile::Opencv, 0.0),
    ];
    let profiles = profiles.into_iter().flat_map(|profile| [profile; 3]);
    let cases: Vec<_> = cases.into_iter().zip(profiles).collect();
    on_every_path(|path, make| {
        for ((name, from, to, every), (profile, most)) in &cases {
            let preprocess = Preprocess {
                layout: Layout::Nhwc,
                ..levels(*to, *profile, Mode::Stretch)
            };
            let row = make(&RowJob::new(
                &Arc::new(synthetic(from.0, from.1)),
                &preprocess,
            ));
            let line = 3 * to.0 as usize;
            let lines: Vec<f32> = row
                .chunks(line)
                .step_by(*every)
                .flatten()
                .copied()
                .collect();
            let (off, _) = apart(&lines, stored(name));
            // The tolerance allows for the conversion from levels to floats and back.
            assert!(off <= most + 1e-4, "{name} on {path}: {off}");
        }
    });
}

#[test]
fn golden_values_between_the_profiles() {
    let source = Arc::new(synthetic(1440, 1080));
    let reference = facescan_imaging::synthetic::reference();
    on_every_path(|path, make| {
        let mut row = |profile| {
            let preprocess = levels((224, 224), profile, Mode::Stretch);
            make(&RowJob::new(&source, &preprocess))
        };
        let [torchvision, jax, pil, opencv] = Profile::ALL.map(&mut row);
        let of = |row: &[f32]| row.iter().copied().map(f64::from).collect::<Vec<_>>();
        let (most, mean) = apart(&jax, of(&pil));
        assert!(
            most <= 0.93 && (mean - 0.26).abs() < 0.01,
            "{path}: {most}, {mean}"
        );
        let (most, mean) = apart(&torchvision, of(&opencv));
        let theirs = &reference["profiles"]["torchvision_opencv"];
        let [their_most, their_mean] = ["max", "mean"].map(|key| theirs[key].as_f64().unwrap());
        assert!((most - their_most).abs() <= 1.0, "{path}: {most}");
        assert!((mean - their_mean).abs() <= 0.05, "{path}: {mean}");
    });
}

/// Returns the profile's definition without rounding, in planes: the antialiased image at the position that the mode
/// gives.
fn defined(preprocess: &Preprocess, source: &RgbImage) -> Vec<f64> {
    let placed = preprocess.placement(source.dimensions());
    let (w, h) = placed.scaled;
    let scaled = antialiased(source, placed.scaled);
    let (width, height) = placed.output;
    let mut planes = Vec::new();
    for c in 0..3 {
        for (y, x) in (0..height).flat_map(|y| (0..width).map(move |x| (y, x))) {
            let (x, y) = (i64::from(x) - placed.at.0, i64::from(y) - placed.at.1);
            let is_inside = (0..i64::from(w)).contains(&x) && (0..i64::from(h)).contains(&y);
            planes.push(if is_inside {
                scaled[(c * h as usize + y as usize) * w as usize + x as usize]
            } else {
                f64::from(preprocess.pad[c])
            });
        }
    }
    planes
}

#[test]
fn golden_values_of_the_modes() {
    let sources = [(97, 61), (61, 97), (19, 30), (40, 30)];
    // One rounding changes a level by at most 0.5. Two roundings and the integer weights of the CPU change it by less
    // than 1.5.
    let profiles = [
        (Profile::Jax, 1e-3),
        (Profile::Torchvision, 1.0),
        (Profile::Pil, 1.5),
    ];
    on_every_path(|path, make| {
        for source in sources.map(|(width, height)| Arc::new(noise(width, height))) {
            for (mode, (profile, most)) in MODES.into_iter().flat_map(|m| profiles.map(|p| (m, p)))
            {
                let planar = Preprocess {
                    pad: [7, 114, 255],
                    ..levels((40, 31), profile, mode)
                };
                let row = make(&RowJob::new(&source, &planar));
                let (off, _) = apart(&row, defined(&planar, &source));
                let what = format!(
                    "{mode:?} {profile:?} of {:?} on {path}",
                    source.dimensions()
                );
                assert!(off <= most, "{what}: {off}");
                let pixels = Preprocess {
                    layout: Layout::Nhwc,
                    ..planar
                };
                let pixels = make(&RowJob::new(&source, &pixels));
                assert!(pixels == interleave(&row), "{what}");
            }
        }
    });
}

#[test]
fn the_opencv_profile_has_the_same_bits_on_every_path() {
    let sources = [(97, 61), (61, 97), (19, 30), (40, 30), (3000, 2)];
    on_every_path(|path, make| {
        for source in sources.map(|(width, height)| Arc::new(noise(width, height))) {
            for mode in MODES {
                let preprocess = Preprocess {
                    profile: Profile::Opencv,
                    height: 31,
                    width: 40,
                    mode,
                    pad: [7, 114, 255],
                    ..Preprocess::default()
                };
                let job = RowJob::new(&source, &preprocess);
                let what = format!("{mode:?} of {:?} on {path}", source.dimensions());
                assert!(make(&job) == job.fill(), "{what}");
            }
        }
    });
}

#[test]
fn rows_that_need_too_much_memory_have_no_graph() {
    let has_graph = |from: (u32, u32), to: (u32, u32), profile| {
        let image = Arc::new(RgbImage::new(from.0, from.1));
        RowJob::new(&image, &levels(to, profile, Mode::Stretch)).has_graph()
    };
    for profile in Profile::ALL {
        assert!(has_graph((640, 480), (2048, 2048), profile), "{profile:?}");
        assert!(!has_graph((640, 480), (2049, 2048), profile), "{profile:?}");
        assert!(!has_graph((3, 3), (1, (1 << 16) + 1), profile));
    }
    // Long lines for a narrow, high row, and many weights for a wide row.
    assert!(!has_graph((1100, 1), (2, 1 << 16), Profile::Opencv));
    assert!(has_graph((1000, 1), (2, 1 << 16), Profile::Opencv));
    assert!(!has_graph((1100, 1), (1 << 16, 2), Profile::Pil));
    assert!(has_graph((1100, 1), (1 << 16, 2), Profile::Opencv));
}

#[test]
fn golden_values_of_normalized_levels() {
    // Every level occurs once in each channel. The image already has the output size, so no resize changes it.
    let source = Arc::new(RgbImage::from_fn(16, 16, |x, y| {
        Rgb([0, 85, 170].map(|c| (16 * y + x) as u8 ^ c))
    }));
    let Preprocess { mean, std, .. } = Preprocess::default();
    on_every_path(|path, make| {
        for (profile, (mean, std)) in Profile::ALL
            .into_iter()
            .flat_map(|p| [(mean, std), ([0.5; 3], [0.5; 3])].map(|values| (p, values)))
        {
            let preprocess = Preprocess {
                mean,
                std,
                layout: Layout::Nhwc,
                ..levels((16, 16), profile, Mode::Stretch)
            };
            let row = make(&RowJob::new(&source, &preprocess));
            for (at, (ours, level)) in row.iter().zip(source.as_raw()).enumerate() {
                let (mean, std) = (f64::from(mean[at % 3]), f64::from(std[at % 3]));
                let exact = (f64::from(*level) / 255.0 - mean) / std;
                let off = (f64::from(*ours) - exact).abs();
                assert!(
                    off <= 1e-5 * exact.abs(),
                    "{profile:?} on {path}: {ours}, {exact}"
                );
            }
        }
    });
}

#[test]
fn golden_values_in_half_precision() {
    let source = Arc::new(synthetic(1440, 1080));
    let exact = antialiased(&source, (224, 224));
    // Coordinates in half precision would change this image by up to 1.71 levels.
    let moved = antialiased_at(&source, (224, 224), |center| f16::from_f64(center).to_f64());
    let moved: Vec<f32> = moved.into_iter().map(|level| level as f32).collect();
    let (by_coordinates, _) = apart(&moved, exact.iter().copied());
    assert!(by_coordinates > 1.71, "{by_coordinates}");
    let scale = Preprocess::default().normalization().scale;
    on_every_path(|path, make| {
        let jax = levels((224, 224), Profile::Jax, Mode::Stretch);
        let row = make(&RowJob::new(&source, &jax));
        let (off, _) = apart(&row, exact.iter().copied());
        assert!(off <= 1e-3, "coordinates are in 32 bits on {path}: {off}");
        let row = make(&RowJob::new(&source, &Preprocess::default()));
        // The largest sample is 2.64, and a level is at least 0.0171. The error is 2⁻¹⁰ with 11 bits and 2⁻⁷ with 8
        // bits.
        for (dtype, most) in [(Dtype::F16, 0.058), (Dtype::Bf16, 0.46)] {
            let bytes = to_bytes(dtype, row.clone());
            let halves = bytes.as_chunks::<2>().0.iter().map(|v| match dtype {
                Dtype::F16 => f16::from_le_bytes(*v).to_f64(),
                _ => bf16::from_le_bytes(*v).to_f64(),
            });
            let plane = row.len() / 3;
            let in_levels = row
                .iter()
                .zip(halves)
                .enumerate()
                .map(|(at, (whole, half))| {
                    (f64::from(*whole) - half).abs() / f64::from(scale[at / plane])
                });
            let off = in_levels.fold(0.0, f64::max);
            assert!(
                off > 0.0 && off <= most,
                "{dtype:?} on {path}: {off} of a level"
            );
        }
    });
}
