//! When requests of an open loop are due.

use std::time::Duration;

/// The times of a Poisson process from its start on, for ever. They follow from the rate and the seed alone.
pub struct Arrivals {
    rng: fastrand::Rng,
    rate: f64,
    at: f64,
}

impl Arrivals {
    /// Arrivals at `rate` a second on average.
    pub fn new(rate: f64, seed: u64) -> Self {
        Self {
            rng: fastrand::Rng::with_seed(seed),
            rate,
            at: 0.0,
        }
    }
}

impl Iterator for Arrivals {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        // One less a number below 1 is above 0, so that the logarithm is finite.
        self.at -= (1.0 - self.rng.f64()).ln() / self.rate;
        Duration::try_from_secs_f64(self.at).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gaps(rate: f64, seed: u64) -> Vec<f64> {
        let times: Vec<f64> = Arrivals::new(rate, seed)
            .take(100_000)
            .map(|at| at.as_secs_f64())
            .collect();
        times.windows(2).map(|pair| pair[1] - pair[0]).collect()
    }

    #[test]
    fn arrivals_follow_from_the_seed() {
        let first = |seed| Arrivals::new(50.0, seed).take(20).collect::<Vec<_>>();
        assert_eq!(first(3), first(3));
        assert_ne!(first(3), first(4));
    }

    #[test]
    fn the_gaps_are_exponential_with_the_mean_that_was_asked_for() {
        let gaps = gaps(200.0, 1);
        let count = gaps.len() as f64;
        let mean = gaps.iter().sum::<f64>() / count;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / count;
        assert!((mean * 200.0 - 1.0).abs() < 0.02, "{mean}");
        // The standard deviation of an exponential distribution is its mean.
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.02, "{variance}");
        assert!(gaps.iter().all(|gap| *gap >= 0.0));
    }
}
