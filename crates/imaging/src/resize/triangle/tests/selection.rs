//! Compares complete images: those of the float kernels, and those of the kernels that are chosen.

use image::RgbImage;

use crate::{
    resize::{
        triangle::{
            CHANNELS,
            rounded::{RoundedRows, rounded},
            unrounded,
        },
        view::View,
    },
    synthetic::{antialiased, noise},
};

/// Returns all samples of a resized image.
pub(super) fn samples(mut rows: RoundedRows<'_>, view: &View) -> Vec<f64> {
    let width = view.columns.range.len();
    let mut samples = Vec::new();
    while let Some(row) = rows.next() {
        let pixels = row[..width].iter();
        samples.extend(pixels.flat_map(|&[r, g, b, _]| [r, g, b].map(f64::from)));
    }
    samples
}

/// Returns the definition's samples, unrounded.
fn exact(image: &RgbImage, target: (u32, u32)) -> Vec<f64> {
    let planes = antialiased(image, target);
    let plane = planes.len() / CHANNELS;
    let pixels = (0..plane).map(|at| [0, 1, 2].map(|channel| planes[channel * plane + at]));
    pixels.flatten().collect()
}

fn assert_within(ours: &[f64], exact: &[f64], bound: f64, kernels: &str) {
    assert_eq!(ours.len(), exact.len(), "{kernels}");
    for (ours, exact) in ours.iter().zip(exact) {
        assert!(
            (ours - exact).abs() <= bound,
            "{kernels}: {ours}, exactly {exact}"
        );
    }
}

#[test]
fn rows_are_within_a_level_of_the_definition() {
    for (source, target) in [
        ((128, 96), (56, 42)),
        ((300, 200), (40, 30)),
        ((60, 50), (60, 50)),
    ] {
        let (image, view) = (noise(source.0, source.1), View::full(source, target));
        let exact = exact(&image, target);
        // The weights of each pass are off by far less than a tenth of a level here.
        let float = samples(RoundedRows::float(&image, &view), &view);
        assert_within(&float, &exact, 0.6, "float");
        let chosen = samples(rounded(&image, &view), &view);
        assert_within(&chosen, &exact, 0.7, "chosen");
        let mut rows = unrounded(&image, &view);
        let mut levels = Vec::new();
        while let Some(row) = rows.next() {
            let pixels = row.as_flattened().as_chunks::<4>().0;
            let pixels = pixels.iter().take(view.columns.range.len());
            levels.extend(pixels.flat_map(|&[r, g, b, _]| [r, g, b].map(f64::from)));
        }
        assert_within(&levels, &exact, 1e-3, "unrounded");
    }
}

#[test]
fn images_that_grow_or_are_narrow_take_the_float_kernels() {
    for (source, target) in [((100, 50), (150, 100)), ((30, 90), (20, 40))] {
        let (image, view) = (noise(source.0, source.1), View::full(source, target));
        let chosen = samples(rounded(&image, &view), &view);
        assert_eq!(chosen, samples(RoundedRows::float(&image, &view), &view));
        assert_within(&chosen, &exact(&image, target), 0.6, "float");
    }
}
