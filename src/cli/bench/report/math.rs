//! Means, ranks and ratios.

/// Returns the mean, or `None` if there are no values.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Returns the smallest of the `sorted` values that at least a `share` of them, 0 to 1, do not exceed. Returns `None`
/// if there are no values.
pub fn nearest_rank(sorted: &[f64], share: f64) -> Option<f64> {
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied()
}

/// Returns `of / to`, or `None` if the result is not finite or `to` is not positive.
pub fn ratio(of: f64, to: f64) -> Option<f64> {
    let ratio = of / to;
    (ratio.is_finite() && to > 0.0).then_some(ratio)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_to_zero_is_none() {
        assert_eq!(ratio(3.0, 2.0), Some(1.5));
        assert_eq!(ratio(3.0, 0.0), None);
    }
}
