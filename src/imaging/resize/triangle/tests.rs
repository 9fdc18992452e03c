use proptest::prelude::*;

use super::{
    across::{Columns, across, portable},
    eights::{self, Eights},
    pairs::{self, Pairs},
    whole::BLOCK,
    *,
};

/// Sixteen random bits, again and again.
fn noise() -> impl FnMut() -> u16 {
    let mut state = 1u32;
    move || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 16) as u16
    }
}

/// Asserts that this processor's forms weigh a line as the portable ones do, and in whole numbers as in floats.
fn assert_weighed(from: usize, to: usize) {
    let axis = Axis::whole(from as u32, to as u32);
    let columns = Columns::new(&axis);
    let mut next = noise();
    let narrow: Vec<i16> = (0..from * RGB).map(|_| (next() % 32641) as i16).collect();
    let mut line: Vec<f32> = narrow.iter().map(|v| f32::from(*v) / 128.0).collect();
    line.resize(from * RGB + columns.reach(), 0.0);
    let mut ours = vec![[f32::NAN; 16]; to.div_ceil(4)];
    let mut expected = ours.clone();
    across(&line, &columns, &mut ours);
    portable(&line, &columns, &mut expected);
    let seen = |quads: &[Quad]| -> Vec<f32> {
        let pixels = quads.as_flattened().as_chunks::<4>().0.iter().take(to);
        pixels.flat_map(|pixel| pixel[..RGB].to_vec()).collect()
    };
    assert_eq!(seen(&ours), seen(&expected), "{from} to {to}");
    let blank = vec![[[0; 4]; BLOCK]; to.div_ceil(BLOCK)];
    let with_room = |reach: usize| {
        let mut line = narrow.clone();
        line.resize(from * RGB + reach, 0);
        line
    };
    let mut made = Vec::new();
    if let Some(eights) = Eights::new(&axis) {
        let line = with_room(eights.reach());
        let (mut far, mut same) = (blank.clone(), blank.clone());
        eights::weigh(&line, &eights, &mut far);
        eights::portable(&line, &eights, &mut same);
        assert_eq!(far, same, "{from} to {to}");
        made.push(far);
    }
    if let Some(pairs) = Pairs::new(&axis) {
        let line = with_room(pairs.reach());
        let (mut near, mut same) = (blank.clone(), blank);
        pairs::weigh(&line, &pairs, &mut near);
        pairs::portable(&line, &pairs, &mut same);
        assert_eq!(near, same, "{from} to {to}");
        made.push(near);
    }
    for made in made {
        let pixels = made.as_flattened().iter().take(to);
        let levels = pixels.flat_map(|pixel| pixel[..RGB].to_vec());
        for (ours, exact) in levels.zip(seen(&expected)) {
            let apart = (f32::from(ours) - exact).abs();
            // Rounding, and weights that are whole 16384ths.
            let most = 0.5 + 0.016 * (from.div_ceil(to) + 2) as f32;
            assert!(apart < most, "{from} to {to}: {ours}, {exact}");
        }
    }
}

/// Asserts that this processor's form weighs rows as the portable one does, and nearly as floats do.
fn assert_stacked(stride: usize, count: usize) {
    let mut next = noise();
    let source: Vec<u8> = (0..stride * count).map(|_| (next() >> 8) as u8).collect();
    let shares: Vec<f64> = (0..count).map(|_| 1.0 + f64::from(next())).collect();
    let sum: f64 = shares.iter().sum();
    let shares: Vec<f64> = shares.iter().map(|share| share / sum).collect();
    let mut weights = Vec::new();
    u16::add(&shares, &mut weights);
    let stack = down::Stack {
        source: &source,
        ahead: &[],
        stride,
        weights: &weights,
    };
    let (mut ours, mut same) = (vec![-1; stride + 3], vec![-1; stride + 3]);
    down::down_narrow(&stack, &mut ours);
    down::narrow(&stack, &mut same);
    assert_eq!(ours, same, "{count} rows of {stride}");
    for (x, ours) in ours[..stride].iter().enumerate() {
        let rows = source.chunks_exact(stride).zip(&shares);
        let exact: f64 = rows.map(|(row, share)| f64::from(row[x]) * share).sum();
        let apart = (f64::from(*ours) / 128.0 - exact).abs();
        assert!(apart < 0.1, "{count} rows of {stride}: {ours} and {exact}");
    }
}

proptest! {
    #[test]
    fn few_rows_are_weighed_alike_and_within_a_tenth_of_a_level(
        stride in 1usize..400,
        count in 1..=down::FEW,
    ) {
        assert_stacked(stride, count);
    }
}

#[test]
fn a_flat_line_keeps_its_level_whatever_the_number_of_rows() {
    for count in 1..=down::FEW {
        let shares = vec![1.0 / count as f64; count];
        let mut weights = Vec::new();
        u16::add(&shares, &mut weights);
        for level in [0, 1, 127, 254, 255] {
            let source = vec![level; 70 * count];
            let stack = down::Stack {
                source: &source,
                ahead: &[],
                stride: 70,
                weights: &weights,
            };
            let mut out = vec![0; 70];
            down::down_narrow(&stack, &mut out);
            for out in out {
                let apart = (f64::from(out) / 128.0 - f64::from(level)).abs();
                assert!(apart < 0.1, "{count} rows of {level}: {out}");
            }
        }
    }
}

#[test]
fn pairs_are_there_for_what_is_near_and_not_for_what_is_far() {
    for (from, to, is_near, is_far) in [
        (512, 224, true, true),
        (512, 384, true, true),
        (1440, 224, false, true),
        (9000, 224, false, false),
    ] {
        let axis = Axis::whole(from, to);
        assert_eq!(Pairs::new(&axis).is_some(), is_near);
        assert_eq!(Eights::new(&axis).is_some(), is_far);
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
