//! The due times of the requests in an open loop.

use std::time::Duration;

/// The endless arrival times of a Poisson process since its start. The rate and the seed determine them.
pub struct Arrivals {
    rng: fastrand::Rng,
    rate: f64,
    at: f64,
}

impl Arrivals {
    /// Creates arrivals with a mean of `rate` per second.
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
        // The argument is above 0, because the random number is below 1. The logarithm is therefore finite.
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
    fn the_seed_determines_the_arrivals() {
        let first = |seed| Arrivals::new(50.0, seed).take(20).collect::<Vec<_>>();
        assert_eq!(first(3), first(3));
        assert_ne!(first(3), first(4));
    }

    #[test]
    fn the_gaps_are_exponential_with_the_requested_mean() {
        let gaps = gaps(200.0, 1);
        let count = gaps.len() as f64;
        let mean = gaps.iter().sum::<f64>() / count;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / count;
        assert!((mean * 200.0 - 1.0).abs() < 0.02, "{mean}");
        // The standard deviation of an exponential distribution equals its mean.
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.02, "{variance}");
        assert!(gaps.iter().all(|gap| *gap >= 0.0));
    }
}
