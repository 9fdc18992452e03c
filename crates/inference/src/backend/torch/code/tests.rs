use image::RgbImage;

use super::*;
use crate::graphs::{
    check::{Graph, extremes, floats, image, photographs},
    enhance::{Plan, Steps},
    process::{BilinearPlan, Rounding, TwoTapPlan},
    quality::inputs,
};
use facescan_imaging::{
    enhance::{Apply, EnhanceOptions, Upscale, automatic_factor, enhance},
    preprocess::Placement,
    quality::{canonical, measure},
    resize::{Filter, resize},
    synthetic::{antialiased, assert_within, noise},
    tensor::{ChannelOrder, Letterbox, Normalization, fill_row, letterbox_into, preprocess_into},
};

const LEVELS: Normalization = Normalization {
    order: ChannelOrder::Rgb,
    mean: [0.0; 3],
    scale: [1.0; 3],
};

const IMAGENET: Normalization = Normalization {
    order: ChannelOrder::Bgr,
    mean: [123.675, 116.28, 103.53],
    scale: [0.017_124_754, 0.017_507_003, 0.017_429_194],
};

fn code(code: ImageGraph) -> Graph {
    Box::new(TensorCode::new(code, Device::Cpu))
}

/// Images with one difficulty each, and two photographs.
fn images() -> Vec<(String, RgbImage)> {
    let photographs = photographs().into_iter();
    extremes()
        .into_iter()
        .chain(photographs.map(|(name, image)| (name.to_owned(), image)))
        .collect()
}

fn samples(image: &RgbImage) -> Vec<f32> {
    let mut row = vec![f32::NAN; image.as_raw().len()];
    fill_row(image, &LEVELS, &mut row);
    row
}

/// Returns the largest difference between rows.
fn apart(ours: &[f32], theirs: &[f32]) -> f32 {
    assert_eq!(ours.len(), theirs.len());
    let pairs = ours.iter().zip(theirs);
    pairs
        .map(|(ours, theirs)| {
            assert!(ours.is_finite());
            (ours - theirs).abs()
        })
        .fold(0.0, f32::max)
}

#[test]
fn quality_equals_the_cpu() {
    let mut worst = 0.0f32;
    for (name, image) in images() {
        let image = canonical(&image);
        let data = samples(&image);
        let size = [1, image.height() as usize, image.width() as usize];
        let (shape, ours) = floats(&mut code(ImageGraph::Quality), &inputs(&data, size));
        assert_eq!(shape, [1, 4]);
        let q = measure(&image);
        let theirs = [q.blur_score, q.brightness, q.contrast, q.sharpness];
        for (ours, theirs) in ours.into_iter().zip(theirs) {
            let off = (ours - theirs).abs();
            // A NaN is not close to anything.
            assert!(
                off <= (theirs * 0.005).max(0.01),
                "{name}: {ours}, expected {theirs}"
            );
            worst = worst.max(off / theirs.max(1.0));
        }
    }
    println!("quality: {worst:e} of a measure apart");
}

#[test]
fn crops_of_a_batch_are_measured_alone() {
    let crops = [
        noise(112, 112),
        RgbImage::from_pixel(112, 112, image::Rgb([7, 8, 9])),
    ];
    let data: Vec<f32> = crops.iter().flat_map(samples).collect();
    let (shape, both) = floats(
        &mut code(ImageGraph::Quality),
        &inputs(&data, [2, 112, 112]),
    );
    assert_eq!(shape, [2, 4]);
    for (crop, ours) in crops.iter().zip(both.chunks_exact(4)) {
        let data = samples(crop);
        let (_, alone) = floats(
            &mut code(ImageGraph::Quality),
            &inputs(&data, [1, 112, 112]),
        );
        assert!(apart(ours, &alone) < 1e-3, "{ours:?} and {alone:?}");
    }
    assert_eq!(both[4], 0.0, "a flat crop has no blur score");
}

#[test]
fn the_recipe_equals_the_cpu_byte_for_byte() {
    for (name, source) in images() {
        let (width, height) = source.dimensions();
        let source = if width > 240 {
            resize(&source, 240, 240 * height / width, Filter::Area)
        } else {
            source
        };
        let (width, height) = source.dimensions();
        for (contrast, sharpen) in [(true, true), (true, false), (false, false)] {
            let factor = automatic_factor(width, height);
            let plan = Plan::new((width, height), (width * factor, height * factor));
            let steps = ImageGraph::Enhance(Steps { contrast, sharpen });
            let ours = image(&mut code(steps), &plan.inputs(&source));
            let apply = |step| if step { Apply::Always } else { Apply::Never };
            let options = EnhanceOptions {
                upscale: Upscale::Factor(factor as f32),
                contrast: apply(contrast),
                sharpen: apply(sharpen),
                ..EnhanceOptions::default()
            };
            assert_within(&ours, &enhance(&source, &options).image, 0, &name);
        }
    }
}

#[test]
fn a_letterboxed_row_is_the_cpus_to_the_last_bit() {
    let large = [("large noise".to_owned(), noise(701, 499))];
    for (name, source) in images().into_iter().chain(large) {
        for side in [(640, 640), (33, 20), (1, 1)] {
            let letterbox = Letterbox::fit(source.dimensions(), side);
            let mut expected = vec![f32::NAN; letterbox.row_len()];
            letterbox_into(&source, &letterbox, &IMAGENET, &mut expected);
            let plan = TwoTapPlan::letterbox(source.dimensions(), &letterbox);
            let inputs = plan.inputs(&source, [0; 3], &IMAGENET);
            let (shape, row) = floats(&mut code(ImageGraph::BilinearTwoTap), &inputs);
            assert_eq!(shape, [1, 3, side.1 as usize, side.0 as usize], "{name}");
            assert!(row == expected, "{name} to {side:?}");
        }
    }
}

#[test]
fn preprocessing_equals_the_cpu_to_a_level() {
    for (name, source) in images() {
        for to in [(224, 224), (9, 31)] {
            let mut expected = vec![f32::NAN; 3 * (to.0 * to.1) as usize];
            preprocess_into(&source, to, &LEVELS, &mut expected);
            let plan = BilinearPlan::new(source.dimensions(), &Placement::stretch(to));
            let inputs = plan.inputs(&source, [0; 3], &LEVELS);
            let once = ImageGraph::Bilinear(Rounding::Once);
            let (_, row) = floats(&mut code(once), &inputs);
            assert!(apart(&row, &expected) <= 1.0, "{name}");
        }
    }
}

#[test]
fn the_jax_profile_is_the_definition_to_a_thousandth_of_a_level() {
    let source = noise(120, 90);
    let plan = BilinearPlan::new((120, 90), &Placement::stretch((37, 41)));
    let exactly = ImageGraph::Bilinear(Rounding::None);
    let (_, row) = floats(&mut code(exactly), &plan.inputs(&source, [0; 3], &LEVELS));
    let expected: Vec<f32> = antialiased(&source, (37, 41))
        .into_iter()
        .map(|v| v as f32)
        .collect();
    let apart = apart(&row, &expected);
    println!("jax profile: {apart:e} of a level apart");
    assert!(apart < 1e-3, "{apart}");
}

#[test]
fn a_row_is_normalized_as_the_cpu_does_and_padded_with_the_pad_value() {
    let source = noise(32, 24);
    let mut expected = vec![f32::NAN; 3 * 32 * 24];
    preprocess_into(&source, (32, 24), &IMAGENET, &mut expected);
    let mut once = code(ImageGraph::Bilinear(Rounding::Once));
    let plan = BilinearPlan::new((32, 24), &Placement::stretch((32, 24)));
    let (_, row) = floats(&mut once, &plan.inputs(&source, [0; 3], &IMAGENET));
    for (ours, expected) in row.iter().zip(&expected) {
        assert!(
            (ours - expected).abs() <= 1e-5 * expected.abs(),
            "{ours}, expected {expected}"
        );
    }
    let placed = Placement {
        scaled: (32, 24),
        output: (40, 24),
        at: (8, 0),
    };
    let plan = BilinearPlan::new((32, 24), &placed);
    let (_, row) = floats(&mut once, &plan.inputs(&source, [7, 114, 255], &LEVELS));
    assert_eq!(row[..8], [7.0; 8]);
    assert_eq!(row[40 * 24..40 * 24 + 8], [114.0; 8]);
    assert_eq!(row[8], f32::from(source.as_raw()[0]));
}

#[test]
fn an_input_that_is_missing_or_does_not_fit_is_an_error() {
    let source = noise(8, 6);
    let plan = TwoTapPlan::letterbox((8, 6), &Letterbox::fit((8, 6), (4, 4)));
    let mut letterbox = code(ImageGraph::BilinearTwoTap);
    let mut inputs = plan.inputs(&source, [0; 3], &LEVELS);
    inputs.pop();
    let error = letterbox.run(&inputs).unwrap_err();
    assert!(
        error.to_string().contains("the input scale is missing"),
        "{error}"
    );
    let rows = [Input::f32("images", &[1, 3, 5, 5], vec![0.0; 7])];
    let error = code(ImageGraph::Quality).run(&rows).unwrap_err();
    assert!(matches!(error, BackendError::Run { .. }), "{error}");
}
