use proptest::prelude::*;

use super::{across::portable, *};

/// Asserts that this processor's form weighs a line as the portable one does.
fn assert_weighed(from: usize, to: usize) {
    let columns = Columns::new(&Axis::whole(from as u32, to as u32));
    let mut state = 1u32;
    let mut line = vec![0.0; from * RGB + columns.reach()];
    for sample in &mut line[..from * RGB] {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        *sample = (state >> 8) as f32 / 65793.0;
    }
    let mut ours = vec![[f32::NAN; 16]; to.div_ceil(4)];
    let mut expected = ours.clone();
    let mut exact = ours.clone();
    across(&line, &columns, true, &mut ours);
    across(&line, &columns, false, &mut exact);
    portable(&line, &columns, &mut expected);
    for pixel in 0..to {
        for at in 4 * (pixel % 4)..4 * (pixel % 4) + RGB {
            assert_eq!(exact[pixel / 4][at], expected[pixel / 4][at]);
            let (ours, expected) = (ours[pixel / 4][at], expected[pixel / 4][at]);
            assert_eq!(
                ours,
                expected.round_ties_even(),
                "{from} to {to} at {pixel}"
            );
        }
    }
}

#[test]
fn lines_of_every_density_are_weighed_alike() {
    for (from, to) in [
        (1, 1),
        (1, 40),
        (2, 1),
        (512, 224),
        (600, 200),
        (700, 200),
        (1440, 224),
        (160, 224),
    ] {
        assert_weighed(from, to);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn every_form_weighs_alike(from in 1usize..2000, to in 1usize..2000) {
        assert_weighed(from, to);
    }
}
