//! Compares every form of every kernel with the definition in f64. The tests call each form directly.

mod definition;
mod forms;
mod selection;

use proptest::prelude::*;

use super::{dot_product::DotProduct, prefix_sum::PrefixSum};
use crate::resize::{
    kernel_forms::{Form, assert_ran, has_features},
    view::Axis,
};
use forms::{Outcome, horizontal, vertical};

/// The axes that every form is compared on: enlarged, equal, shrunk a little, and shrunk to windows that lie far apart.
const AXES: [(u32, u32); 11] = [
    (1, 1),
    (1, 40),
    (2, 1),
    (40, 40),
    (160, 224),
    (512, 224),
    (512, 384),
    (600, 200),
    (700, 200),
    (1440, 224),
    (440, 20),
];

/// Compares a form with the definition on [`AXES`]. Returns whether it ran.
fn ran(compare: impl Fn(&Axis) -> Outcome) -> bool {
    let outcomes = AXES.map(|(source, target)| compare(&Axis::full(source, target)));
    let missing = outcomes.contains(&Outcome::MissingFeatures);
    assert!(
        !(missing && outcomes.contains(&Outcome::Compared)),
        "a form runs always or never"
    );
    outcomes.contains(&Outcome::Compared)
}

#[test]
fn every_form_that_this_cpu_supports_equals_the_definition() {
    let avx512_bw = has_features!("avx512f", "avx512bw");
    let avx512_vnni = has_features!("avx512f", "avx512bw", "avx512vbmi", "avx512vnni");
    assert_ran(&[
        Form::new("direct sum (portable)", true, ran(vertical::direct)),
        Form::new(
            "prefix sum (portable)",
            true,
            ran(vertical::prefix_portable),
        ),
        Form::new(
            "prefix sum (AVX-512)",
            avx512_bw,
            ran(vertical::prefix_avx512),
        ),
        Form::new("float taps (portable)", true, ran(horizontal::float)),
        Form::new(
            "dot product (portable)",
            true,
            ran(horizontal::dot_portable),
        ),
        Form::new(
            "dot product (AVX-512)",
            avx512_vnni,
            ran(horizontal::dot_avx512),
        ),
    ]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_horizontal_form_equals_the_definition_at_any_scale(
        source in 1u32..2000,
        target in 1u32..2000,
    ) {
        let axis = Axis::full(source, target);
        horizontal::float(&axis);
        horizontal::dot_portable(&axis);
        horizontal::dot_avx512(&axis);
    }

    #[test]
    fn every_vertical_form_equals_the_definition_at_any_scale_and_range(
        source in 1u32..400,
        target in 1u32..100,
        skipped in (0u32..20, 0u32..20),
    ) {
        let start = skipped.0.min(target - 1);
        let range = start..target.saturating_sub(skipped.1).max(start + 1);
        let axis = Axis { source, target, range };
        vertical::direct(&axis);
        let accepted = vertical::prefix_portable(&axis) == Outcome::Compared;
        prop_assert_eq!(accepted, (target..=22 * target).contains(&source), "{:?}", axis);
        vertical::prefix_avx512(&axis);
    }
}

#[test]
fn every_vertical_form_keeps_a_flat_level() {
    for (source, target) in [
        (1, 1),
        (40, 40),
        (101, 100),
        (3, 2),
        (224, 223),
        (512, 224),
        (99, 7),
        (22, 1),
        (440, 20),
    ] {
        let axis = Axis::full(source, target);
        for level in [0, 1, 127, 254, 255] {
            let samples = || std::iter::repeat(level);
            let prefix = vertical::prefix_sum(&axis, samples(), forms::prefix_portable);
            assert_eq!(prefix, Outcome::Compared, "{axis:?}");
            vertical::prefix_sum(&axis, samples(), forms::prefix_avx512);
            vertical::direct_sum(&axis, samples());
        }
    }
}

#[test]
fn the_prefix_sum_accepts_scales_from_1_to_22() {
    for (source, target) in [(1, 2), (223, 224), (23, 1), (441, 20)] {
        let outcome = vertical::prefix_portable(&Axis::full(source, target));
        assert_eq!(outcome, Outcome::AxisRefused, "{source} to {target}");
    }
}

#[test]
fn dot_products_have_up_to_forty_taps() {
    for (source, target, accepted) in [
        (512, 224, true),
        (512, 384, true),
        (1440, 224, true),
        (9000, 224, false),
    ] {
        let windows = DotProduct::new(&Axis::full(source, target));
        assert_eq!(windows.is_some(), accepted);
    }
}

#[test]
fn an_axis_with_an_empty_range_is_refused() {
    assert!(DotProduct::new(&Axis::full(64, 0)).is_none());
    assert!(PrefixSum::new(&[0; 200], 200, &Axis::full(1, 0)).is_none());
}
