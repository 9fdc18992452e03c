//! The samples that each output of an axis is made of, and their weights, as Pillow chooses them.

/// The samples that one output is made of, from `first` on, with weights that add up to 1.
pub(super) struct Window {
    pub(super) first: usize,
    pub(super) weights: Vec<f64>,
}

/// The windows of an axis of `old` samples at `new`, for a kernel that is zero beyond `radius`. It widens when
/// shrinking and never narrows.
pub(super) fn windows(
    old: usize,
    new: usize,
    radius: f64,
    kernel: impl Fn(f64) -> f64,
) -> Vec<Window> {
    let scale = old as f64 / new as f64;
    let widening = scale.max(1.0);
    let reach = radius * widening;
    (0..new)
        .map(|i| {
            let centre = (i as f64 + 0.5) * scale;
            let first = (centre - reach + 0.5).max(0.0) as usize;
            let end = ((centre + reach + 0.5) as usize).min(old);
            let mut weights: Vec<f64> = (first..end)
                .map(|x| kernel((x as f64 - centre + 0.5) / widening))
                .collect();
            let sum: f64 = weights.iter().sum();
            for weight in &mut weights {
                *weight /= sum;
            }
            Window { first, weights }
        })
        .collect()
}
