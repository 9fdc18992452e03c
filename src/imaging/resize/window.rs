//! The samples that each output of an axis is made of, and their weights, as Pillow chooses them.

/// Gives `each` the windows of an axis of `old` samples at `new`, for a kernel that is zero beyond `radius`: the first
/// sample of each output and the weights from there on, which add up to 1. The kernel widens when shrinking and never
/// narrows.
pub(super) fn windows(
    old: usize,
    new: usize,
    radius: f64,
    kernel: impl Fn(f64) -> f64,
    mut each: impl FnMut(usize, &[f64]),
) {
    let scale = old as f64 / new as f64;
    let widening = scale.max(1.0);
    let reach = radius * widening;
    let mut weights = Vec::new();
    for i in 0..new {
        let centre = (i as f64 + 0.5) * scale;
        let first = (centre - reach + 0.5).max(0.0) as usize;
        let end = ((centre + reach + 0.5) as usize).min(old);
        weights.clear();
        weights.extend((first..end).map(|x| kernel((x as f64 - centre + 0.5) / widening)));
        let sum: f64 = weights.iter().sum();
        for weight in &mut weights {
            *weight /= sum;
        }
        each(first, &weights);
    }
}
