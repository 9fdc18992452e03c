use image::{Rgb, RgbImage};

use super::*;
use crate::{
    backend::BackendError,
    graphs::{
        ImageGraph,
        check::{Graph, extremes, floats, open_each, photographs},
    },
};
use facescan_imaging::{
    preprocess::Placement,
    synthetic::{assert_within, fixture_image, noise, synthetic},
    tensor::{Letterbox, letterbox_into, preprocess_into},
};

fn imagenet(order: ChannelOrder) -> Normalization {
    Normalization {
        order,
        mean: [123.675, 116.28, 103.53],
        scale: [0.017_124_754, 0.017_507_003, 0.017_429_194],
    }
}

const LEVELS: Normalization = Normalization {
    order: ChannelOrder::Rgb,
    mean: [0.0; 3],
    scale: [1.0; 3],
};

fn assert_letterboxed(session: &mut Graph, source: &RgbImage, side: (u32, u32), what: &str) {
    for order in [ChannelOrder::Rgb, ChannelOrder::Bgr] {
        let normalization = imagenet(order);
        let letterbox = Letterbox::fit(source.dimensions(), side);
        let mut expected = vec![f32::NAN; letterbox.row_len()];
        letterbox_into(source, &letterbox, &normalization, &mut expected);
        let plan = TwoTapPlan::letterbox(source.dimensions(), &letterbox);
        let (shape, row) = floats(session, &plan.inputs(source, [0; 3], &normalization));
        assert_eq!(shape, [1, 3, side.1 as usize, side.0 as usize], "{what}");
        assert!(row == expected, "{what} to {side:?}");
    }
}

#[test]
fn a_letterboxed_row_is_the_cpus_to_the_last_bit() {
    for (runtime, mut session) in open_each(ImageGraph::BilinearTwoTap) {
        let mut assert_equal = |source: &RgbImage, side: (u32, u32), name: &str| {
            assert_letterboxed(&mut session, source, side, &format!("{name} on {runtime}"));
        };
        for (name, source) in extremes() {
            for side in [(1, 1), (33, 20), (64, 64)] {
                assert_equal(&source, side, &name);
            }
        }
        for (name, source) in photographs() {
            for side in [(640, 640), (320, 192)] {
                assert_equal(&source, side, name);
            }
        }
        // A product of 26 bits that f32 rounds is wrong in one sample of a million. Each of these has one.
        for side in [(640, 640), (633, 601)] {
            assert_equal(&noise(701, 499), side, "large noise");
        }
    }
}

/// Returns a row of levels as an image.
fn as_image(row: &[f32], (width, height): (u32, u32)) -> RgbImage {
    let plane = (width * height) as usize;
    assert_eq!(row.len(), 3 * plane);
    RgbImage::from_fn(width, height, |x, y| {
        Rgb([0, 1, 2].map(|c: usize| {
            let level = row[c * plane + (y * width + x) as usize];
            assert!(
                level.fract() == 0.0 && (0.0..=255.0).contains(&level),
                "{level}"
            );
            level as u8
        }))
    })
}

fn stretched(session: &mut Graph, source: &RgbImage, to: (u32, u32)) -> Vec<f32> {
    let plan = BilinearPlan::new(source.dimensions(), &Placement::stretch(to));
    let (shape, row) = floats(session, &plan.inputs(source, [0; 3], &LEVELS));
    assert_eq!(shape, [1, 3, to.1 as usize, to.0 as usize]);
    row
}

/// Returns the number of samples that differ.
fn different(ours: &RgbImage, theirs: &RgbImage) -> usize {
    let samples = ours.as_raw().iter().zip(theirs.as_raw());
    samples.filter(|(a, b)| a != b).count()
}

#[test]
fn rounded_profiles_equal_pillow() {
    let source = synthetic(97, 61);
    for to in [(40, 25), (150, 100)] {
        let name = format!("bilinear_{}.png", to.0);
        let pillow = fixture_image(&name);
        let [each, once] = [Rounding::EachPass, Rounding::Once].map(|rounding| {
            let sessions = open_each(ImageGraph::Bilinear(rounding)).into_iter();
            let counts = sessions.map(|(runtime, mut session)| {
                let ours = as_image(&stretched(&mut session, &source, to), to);
                assert_within(&ours, &pillow, 1, &format!("{name} on {runtime}"));
                different(&ours, &pillow)
            });
            counts.collect::<Vec<_>>()
        });
        for (each, once) in each.into_iter().zip(once) {
            // Pillow's weights are cut to 22 bits, which decides some halves. Rounding only once moves far more samples.
            assert!(100 * each < pillow.as_raw().len(), "{each} differ");
            assert!(5 * each < once, "{each} and {once} differ");
        }
    }
}

#[test]
fn the_torchvision_profile_is_the_cpus_to_one_level() {
    let sources = extremes().into_iter();
    let photographs = photographs().into_iter();
    let sources = sources.chain(photographs.map(|(name, source)| (name.to_owned(), source)));
    let mut sessions = open_each(ImageGraph::Bilinear(Rounding::Once));
    for (name, source) in sources {
        for to in [(224, 224), (9, 31)] {
            let mut expected = vec![f32::NAN; 3 * (to.0 * to.1) as usize];
            preprocess_into(&source, to, &LEVELS, &mut expected);
            for (runtime, session) in &mut sessions {
                let ours = as_image(&stretched(session, &source, to), to);
                let what = format!("{name} on {runtime}");
                assert_within(&ours, &as_image(&expected, to), 1, &what);
            }
        }
    }
}

#[test]
fn inputs_that_do_not_fit_are_an_error() {
    let source = noise(8, 6);
    let plan = TwoTapPlan::letterbox((8, 6), &Letterbox::fit((8, 6), (4, 4)));
    for (runtime, mut session) in open_each(ImageGraph::BilinearTwoTap) {
        let mut inputs = plan.inputs(&source, [0; 3], &LEVELS);
        inputs.pop();
        let refused = session.run(&inputs);
        assert!(matches!(refused, Err(BackendError::Run(_))), "{runtime}");
        let inputs = plan.inputs(&source, [0; 3], &LEVELS);
        let outputs = session.run(&inputs).unwrap();
        assert_eq!(outputs.len(), 1, "{runtime} still runs");
    }
}

#[test]
#[should_panic(expected = "an image of the plan's size")]
fn an_image_of_another_size_is_refused() {
    let plan = BilinearPlan::new((8, 6), &Placement::stretch((4, 4)));
    plan.inputs(&noise(6, 8), [0; 3], &LEVELS);
}
