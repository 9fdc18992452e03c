use image::{Rgb, RgbImage};

use super::*;
use crate::graphs::{
    ImageGraph,
    check::{Graph, RUNTIMES, extremes, floats, open_each, photographs},
};
use facescan_imaging::{
    quality::{canonical, measure},
    synthetic::synthetic,
    tensor::{ChannelOrder, Normalization, fill_row},
};

const MEASURES: [&str; 4] = ["blur_score", "brightness", "contrast", "sharpness"];

fn samples(image: &RgbImage) -> Vec<f32> {
    let mut row = vec![f32::NAN; image.as_raw().len()];
    fill_row(image, &Normalization::identity(ChannelOrder::Rgb), &mut row);
    row
}

fn by_graph(session: &mut Graph, image: &RgbImage) -> [f32; 4] {
    let size = [1, image.height() as usize, image.width() as usize];
    let (shape, values) = floats(session, &inputs(&samples(image), size));
    assert_eq!(shape, [1, 4]);
    values.try_into().unwrap()
}

fn by_cpu(image: &RgbImage) -> [f32; 4] {
    let q = measure(image);
    [q.blur_score, q.brightness, q.contrast, q.sharpness]
}

fn assert_close(ours: [f32; 4], theirs: [f32; 4], what: &str) {
    for ((ours, theirs), measure) in ours.into_iter().zip(theirs).zip(MEASURES) {
        // A NaN is not close to anything.
        let close = (ours - theirs).abs() <= (theirs * 0.005).max(0.01);
        assert!(close, "{what}: {measure} is {ours}, expected {theirs}");
    }
}

#[test]
fn measures_equal_the_cpu_on_extremes_and_photographs() {
    let mut images = extremes();
    for (name, image) in photographs() {
        images.push((format!("canonical {name}"), canonical(&image).into_owned()));
        images.push((name.to_owned(), image));
    }
    for (runtime, mut session) in open_each(ImageGraph::Quality) {
        for (name, image) in &images {
            let ours = by_graph(&mut session, image);
            assert_close(ours, by_cpu(image), &format!("{name} on {runtime}"));
        }
    }
}

#[test]
fn golden_values_of_a_flat_image_are_0_up_to_its_border() {
    for runtime in RUNTIMES {
        let mut session = runtime.open(&ImageGraph::Quality.model());
        for side in [1, 2, 112] {
            let flat = RgbImage::from_pixel(side, side, Rgb([93, 180, 41]));
            let [blur, brightness, contrast, sharpness] = by_graph(&mut session, &flat);
            let zeros = (blur, contrast, sharpness);
            assert_eq!(zeros, (0.0, 0.0, 0.0), "{side} on {}", runtime.name);
            assert!((brightness - 138.141).abs() < 1e-3);
        }
    }
}

#[test]
fn a_little_texture_on_much_light_is_not_lost() {
    // Squares of 254 have a last place of 2⁻⁸. Subtracting them would lose more than this image's whole variance.
    let image = RgbImage::from_fn(1200, 1600, |x, y| {
        Rgb([253 + u8::from(x % 40 == 0 && y % 40 == 0); 3])
    });
    let expected = by_cpu(&image);
    assert!(expected[0] > 0.01 && expected[2] > 0.01);
    // OpenVINO's sums over this many pixels lose it: it measures a blur of 0.45 instead of 0.02.
    let mut sessions = open_each(ImageGraph::Quality);
    sessions.retain(|(runtime, _)| *runtime != "openvino");
    for (runtime, mut session) in sessions {
        let ours = by_graph(&mut session, &image);
        for (ours, expected) in ours.into_iter().zip(expected) {
            let close = (ours - expected).abs() <= expected * 0.005;
            assert!(close, "{runtime}: {ours}, expected {expected}");
        }
    }
}

#[test]
fn images_of_a_batch_do_not_mix() {
    let flat = RgbImage::from_pixel(112, 112, Rgb([0, 255, 9]));
    let images = [
        synthetic(112, 112),
        flat,
        facescan_imaging::synthetic::noise(112, 112),
    ];
    let data: Vec<f32> = images.iter().flat_map(samples).collect();
    for (runtime, mut session) in open_each(ImageGraph::Quality) {
        let (shape, values) = floats(&mut session, &inputs(&data, [3, 112, 112]));
        assert_eq!(shape, [3, 4]);
        for (image, ours) in images.iter().zip(values.as_chunks().0) {
            assert_close(*ours, by_cpu(image), runtime);
        }
    }
}
