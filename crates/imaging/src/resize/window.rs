//! The filter window of each target position: its source samples and their weights. Pillow selects the same samples.

use super::view::Axis;

/// Calls `each` for every computed position of an axis, in order, with the first source sample of its window and the
/// weights from that sample on. The weights of a window add up to 1.
///
/// `kernel` is zero beyond `radius`. It is widened by the scale when the axis shrinks and never narrowed.
pub(super) fn windows(
    axis: &Axis,
    radius: f64,
    kernel: impl Fn(f64) -> f64,
    mut each: impl FnMut(usize, &[f64]),
) {
    let scale = axis.scale();
    let widening = scale.max(1.0);
    let (support, narrowing) = (radius * widening, 1.0 / widening);
    let mut weights = Vec::new();
    for position in axis.range.clone() {
        let center = (f64::from(position) + 0.5) * scale;
        let first = (center - support + 0.5).max(0.0) as usize;
        let end = ((center + support + 0.5) as usize).min(axis.source as usize);
        weights.clear();
        weights.extend((first..end).map(|x| kernel((x as f64 - center + 0.5) * narrowing)));
        let share = 1.0 / weights.iter().sum::<f64>();
        for weight in &mut weights {
            *weight *= share;
        }
        each(first, &weights);
    }
}
