//! The samples that each output of an axis is made of, and their weights, as Pillow chooses them.

use super::view::Axis;

/// Gives `each` the windows of an axis, for a kernel that is zero beyond `radius`: the first sample of each kept output
/// and the weights from there on, which add up to 1. The kernel widens when shrinking and never narrows.
pub(super) fn windows(
    axis: &Axis,
    radius: f64,
    kernel: impl Fn(f64) -> f64,
    mut each: impl FnMut(usize, &[f64]),
) {
    let scale = f64::from(axis.old) / f64::from(axis.new);
    let widening = scale.max(1.0);
    let (reach, narrowing) = (radius * widening, 1.0 / widening);
    let mut weights = Vec::new();
    for i in axis.kept.clone() {
        let centre = (f64::from(i) + 0.5) * scale;
        let first = (centre - reach + 0.5).max(0.0) as usize;
        let end = ((centre + reach + 0.5) as usize).min(axis.old as usize);
        weights.clear();
        weights.extend((first..end).map(|x| kernel((x as f64 - centre + 0.5) * narrowing)));
        let share = 1.0 / weights.iter().sum::<f64>();
        for weight in &mut weights {
            *weight *= share;
        }
        each(first, &weights);
    }
}
