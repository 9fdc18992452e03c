//! What is measured with: the pictures, their order and the time.

use std::{
    fmt,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use clap::Args;
use facescan::{
    cli::bench::pictures::{Picture, load_pictures},
    pipeline::options::ScanKind,
};
use serde::Serialize;
use serde_json::Value;

/// Shuffles laid end to end before the order repeats: more pictures than a run gets through, or so many
/// that a repetition means nothing.
const SHUFFLES: usize = 256;

/// The options that every measurement has.
#[derive(Clone, Debug, Args, Serialize)]
pub struct Workload {
    /// What is done with each picture: detect, embed or quality.
    #[arg(long, default_value = "detect", value_parser = operation)]
    pub operation: ScanKind,
    /// Pictures, or folders of them.
    #[arg(long, num_args = 1.., value_name = "FILE|DIR", default_value = ".runtime/pictures")]
    pub pictures: Vec<PathBuf>,
    /// How long to measure, each time.
    #[arg(long, default_value = "10", value_parser = positive, value_name = "SECONDS")]
    pub seconds: f64,
    /// How long to send before each measurement, without counting.
    #[arg(long, default_value = "2", value_parser = not_negative, value_name = "SECONDS")]
    pub warm_up: f64,
    /// The order of the pictures and the times of arrivals follow from this number alone.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

fn operation(text: &str) -> Result<ScanKind, String> {
    serde_json::from_value(Value::String(text.to_owned()))
        .map_err(|_| "is one of detect, embed and quality".to_owned())
}

/// A number above zero.
pub fn positive(text: &str) -> Result<f64, String> {
    number(text)
        .filter(|number| *number > 0.0)
        .ok_or_else(|| "is a number above 0".to_owned())
}

fn not_negative(text: &str) -> Result<f64, String> {
    number(text)
        .filter(|number| *number >= 0.0)
        .ok_or_else(|| "is 0 or a number above".to_owned())
}

/// A number of seconds or requests that time arithmetic cannot overflow on.
fn number(text: &str) -> Option<f64> {
    text.parse().ok().filter(|number: &f64| *number < 1e6)
}

impl fmt::Display for Workload {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{} s each after {} s",
            self.seconds, self.warm_up
        )
    }
}

impl Workload {
    /// Reads the pictures.
    ///
    /// # Errors
    /// When a file cannot be read or is no picture that is decoded here, or there is none.
    pub fn load(&self) -> anyhow::Result<Arc<[Picture]>> {
        load_pictures(&self.pictures)
    }

    /// The order in which `pictures` pictures are taken.
    pub fn sequence(&self, pictures: usize) -> Sequence {
        Sequence::new(self.seed, pictures)
    }

    /// When to measure, from now on.
    pub fn window(&self) -> Window {
        let start = Instant::now() + Duration::from_secs_f64(self.warm_up);
        Window {
            start,
            end: start + Duration::from_secs_f64(self.seconds),
        }
    }
}

/// The time between the warm-up and the end.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// The end of the warm-up.
    pub start: Instant,
    /// The end of the measurement.
    pub end: Instant,
}

impl Window {
    /// Whether something that happened then counts.
    pub fn contains(&self, moment: Instant) -> bool {
        (self.start..self.end).contains(&moment)
    }
}

/// Which picture is next: seeded shuffles, one after the other, so that every run takes the same ones and
/// each picture as often.
pub struct Sequence {
    order: Vec<usize>,
    taken: AtomicUsize,
}

impl Sequence {
    fn new(seed: u64, pictures: usize) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut order = Vec::with_capacity(SHUFFLES * pictures);
        let mut shuffled: Vec<usize> = (0..pictures).collect();
        for _ in 0..SHUFFLES {
            rng.shuffle(&mut shuffled);
            order.extend_from_slice(&shuffled);
        }
        Self {
            order,
            taken: AtomicUsize::new(0),
        }
    }

    /// The index of the next picture; whoever asks, each is given once.
    pub fn take(&self) -> usize {
        let position = self.taken.fetch_add(1, Ordering::Relaxed);
        self.order[position % self.order.len()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(seed: u64, count: usize) -> Vec<usize> {
        let sequence = Sequence::new(seed, 5);
        (0..count).map(|_| sequence.take()).collect()
    }

    #[test]
    fn the_order_follows_from_the_seed_and_every_picture_comes_as_often() {
        let order = taken(7, 50);
        assert_eq!(order, taken(7, 50));
        assert_ne!(order, taken(8, 50));
        for picture in 0..5 {
            assert_eq!(order.iter().filter(|taken| **taken == picture).count(), 10);
        }
        assert_ne!(order[..5], order[5..10], "each shuffle is another");
    }

    #[test]
    fn the_order_goes_on_for_ever() {
        assert_eq!(taken(1, SHUFFLES * 5 + 1).len(), SHUFFLES * 5 + 1);
    }
}
