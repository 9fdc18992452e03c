use proptest::prelude::*;

use super::{
    across::{Columns, across, portable},
    eights::{self, Eights},
    pairs::{self, Pairs},
    ramps::{self, Ramps},
    whole::BLOCK,
    *,
};

/// A level in the units of narrow ones, and how many of these there are.
const ONE: f32 = (1 << ramps::NARROW_BITS) as f32;
const LEVELS: u16 = 255 * (1 << ramps::NARROW_BITS) + 1;

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
    let narrow: Vec<i16> = (0..from * RGB).map(|_| (next() % LEVELS) as i16).collect();
    let mut line: Vec<f32> = narrow.iter().map(|v| f32::from(*v) / ONE).collect();
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
    let windows = Windows::new(&axis);
    if let Some(eights) = Eights::new(&windows) {
        let line = with_room(eights.reach());
        let (mut far, mut same) = (blank.clone(), blank.clone());
        eights::weigh(&line, &eights, &mut far);
        eights::portable(&line, &eights, &mut same);
        assert_eq!(far, same, "{from} to {to}");
        made.push(far);
    }
    if let Some(pairs) = Pairs::new(&windows) {
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

/// Asserts that this processor's form weighs rows as the portable one does, and both nearly as they are defined. Whether there
/// is such a form of them.
fn assert_stacked(stride: usize, axis: &Axis, sample: impl FnMut() -> u8) -> bool {
    let rows = axis.old as usize;
    let source: Vec<u8> = std::iter::repeat_with(sample).take(stride * rows).collect();
    let forms = [(); 2].map(|()| Ramps::new(&source, stride, axis));
    let [Some(mut ramps), Some(mut portable)] = forms else {
        return false;
    };
    let windows = Windows::<f32>::new(axis);
    let (mut ours, mut same) = (vec![-1; stride + 3], vec![-1; stride + 3]);
    for (line, (first, weights)) in windows.each().enumerate() {
        let at = format!("line {line} of {stride} samples, {axis:?}");
        ramps.next(&mut ours).expect("there is a line");
        let next = portable.next_by(ramps::portable, &mut same);
        next.expect("there is a line");
        assert_eq!(ours, same, "{at}");
        for (x, ours) in ours[..stride].iter().enumerate() {
            let rows = source.chunks_exact(stride).skip(first).zip(weights);
            let exact: f32 = rows.map(|(row, weight)| f32::from(row[x]) * weight).sum();
            let apart = (f32::from(*ours) / ONE - exact).abs();
            assert!(apart < 0.1, "{at}: {ours} and {exact}");
        }
    }
    assert!(ramps.next(&mut ours).is_none(), "{axis:?}");
    true
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn rows_that_shrink_are_weighed_alike_and_within_a_tenth_of_a_level(
        stride in 128usize..400,
        old in 1u32..400,
        new in 1u32..100,
        cut in (0u32..20, 0u32..20),
    ) {
        let kept = cut.0.min(new - 1)..new.saturating_sub(cut.1).max(cut.0.min(new - 1) + 1);
        let mut next = noise();
        let axis = Axis { old, new, kept };
        let is_there = assert_stacked(stride, &axis, || (next() >> 8) as u8);
        prop_assert_eq!(is_there, (new..=22 * new).contains(&old), "{:?}", axis);
        assert_stacked(stride, &axis, || 255);
    }
}

#[test]
fn scales_from_one_to_twenty_two_are_there_and_keep_a_level() {
    for (old, new) in [
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
        for level in [0, 1, 127, 254, 255] {
            let is_there = assert_stacked(130, &Axis::whole(old, new), || level);
            assert!(is_there, "{old} to {new}");
        }
    }
    for (old, new) in [(1, 2), (223, 224), (23, 1), (441, 20)] {
        assert!(
            !assert_stacked(130, &Axis::whole(old, new), || 0),
            "{old} to {new}"
        );
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
        let windows = Windows::new(&axis);
        assert_eq!(Pairs::new(&windows).is_some(), is_near);
        assert_eq!(Eights::new(&windows).is_some(), is_far);
    }
}

#[test]
fn an_axis_of_which_nothing_is_kept_has_no_pixels() {
    let windows = Windows::new(&Axis::whole(64, 0));
    assert!(Pairs::new(&windows).is_none());
    assert!(Eights::new(&windows).is_none());
    assert!(Ramps::new(&[0; 200], 200, &Axis::whole(1, 0)).is_none());
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
