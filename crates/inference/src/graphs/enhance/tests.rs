use image::{Rgb, RgbImage};

use super::*;
use crate::graphs::{
    ImageGraph,
    check::{Graph, RUNTIMES, extremes, image, open_each, photographs},
};
use facescan_imaging::{
    enhance::{DeviceSteps, automatic_factor},
    resize::{Filter, resize},
    synthetic::{assert_within, fixture_image as reference, noise, synthetic},
};

const ALL: Steps = Steps::new(true, true);

fn by_graph(session: &mut Graph, source: &RgbImage, factor: u32) -> RgbImage {
    let (width, height) = source.dimensions();
    let plan = Plan::new((width, height), (width * factor, height * factor));
    image(session, &plan.inputs(source))
}

fn by_cpu(source: &RgbImage, factor: u32, steps: Steps) -> RgbImage {
    let (width, height) = source.dimensions();
    let steps = DeviceSteps {
        size: (width * factor, height * factor),
        contrast: steps.contrast,
        sharpen: steps.sharpen,
    };
    steps.apply(source)
}

#[test]
fn golden_values_of_an_enlargement() {
    let neither = ImageGraph::Enhance(Steps::new(false, false)).model();
    let plan = Plan::new((97, 61), (150, 100));
    let larger = synthetic(97, 61);
    for runtime in RUNTIMES {
        let ours = image(&mut runtime.open(&neither), &plan.inputs(&larger));
        assert_within(&ours, &reference("bicubic_150.png"), 0, runtime.name);
    }
}

#[test]
fn the_recipe_equals_the_cpu_byte_for_byte() {
    let small = photographs().into_iter().map(|(name, image)| {
        let (width, height) = image.dimensions();
        let small = resize(&image, 240, 240 * height / width, Filter::Area);
        (name.to_owned(), small)
    });
    let textures = [(211, 160), (400, 399), (130, 149)]
        .map(|(width, height)| (format!("noise {width}x{height}"), noise(width, height)));
    let mut sessions = open_each(ImageGraph::Enhance(ALL));
    for (name, source) in extremes().into_iter().chain(small).chain(textures) {
        let automatic = automatic_factor(source.width(), source.height());
        for factor in [1, 2, 3, automatic] {
            let theirs = by_cpu(&source, factor, ALL);
            for (runtime, session) in &mut sessions {
                let ours = by_graph(session, &source, factor);
                assert_within(
                    &ours,
                    &theirs,
                    0,
                    &format!("{name} times {factor} on {runtime}"),
                );
            }
        }
    }
}

/// The last bit of Pillow's weights decides how a half is rounded. A third of all samples near black show it.
#[test]
fn the_unsharp_mask_rounds_halves_as_the_cpu_does() {
    let steps = Steps::new(false, true);
    let mut sessions = open_each(ImageGraph::Enhance(steps));
    for most in [2, 3, 5, 9, 17, 40] {
        let mut source = noise(160, 120);
        // In single bright pixels on dark ones, the center outweighs its sides.
        source
            .as_mut()
            .iter_mut()
            .for_each(|v| *v = if *v > 230 { *v } else { *v % most });
        let theirs = by_cpu(&source, 1, steps);
        for (runtime, session) in &mut sessions {
            let ours = by_graph(session, &source, 1);
            assert_within(&ours, &theirs, 0, &format!("up to {most} on {runtime}"));
        }
    }
}

/// The mean of an image is rounded once, so one sample among millions can decide the result.
#[test]
fn the_mean_is_rounded_exactly_at_its_half() {
    let steps = Steps::new(true, false);
    let mut sessions = open_each(ImageGraph::Enhance(steps));
    let (width, height) = (2400, 1801);
    let half = width * height / 2;
    for brighter in [half - 1, half, half + 1] {
        // The dark half comes first, so that partial sums go far from the total.
        let source = RgbImage::from_fn(width, height, |x, y| {
            let at = y * width + x;
            // Levels that a different mean changes. Black and white would not change.
            let low = if at < half { 60 } else { 194 };
            Rgb([low + u8::from(at >= half - brighter / 2 && at < half + brighter.div_ceil(2)); 3])
        });
        let theirs = by_cpu(&source, 1, steps);
        for (runtime, session) in &mut sessions {
            let ours = by_graph(session, &source, 1);
            assert_within(
                &ours,
                &theirs,
                0,
                &format!("{brighter} brighter on {runtime}"),
            );
        }
    }
}

#[test]
fn halves_of_a_weight_are_the_weight() {
    let plan = AxisPlan::new(150, 449);
    let weights = plan.high.iter().zip(&plan.low);
    for ((high, low), weight) in weights.zip(&plan.taps.weights) {
        assert!(high.abs() <= 2304.0 && (0.0..2048.0).contains(low));
        assert_eq!(high * 2048.0 + low, *weight as f32);
    }
    assert!(
        plan.high.iter().any(|high| *high < 0.0),
        "bicubic weights go below 0"
    );
}

#[test]
#[should_panic(expected = "an axis has samples and grows")]
fn shrinking_is_refused() {
    Plan::new((10, 10), (10, 9));
}
