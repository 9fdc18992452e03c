//! The workload of a measurement: the images, their order and the duration.

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
    cli::bench::images::{Image, load_images},
    pipeline::operations::scan::kind::ScanKind,
};
use serde::Serialize;
use serde_json::Value;

/// The number of shuffles before the order repeats. A run takes fewer images, or so many that a repetition does not
/// matter.
const SHUFFLES: usize = 256;

/// The options of every measurement.
#[derive(Clone, Debug, Args, Serialize)]
pub struct Workload {
    /// The scan of each image, such as detect or embed.
    #[arg(long, default_value = "detect", value_parser = operation)]
    pub operation: ScanKind,
    /// Images, or folders of images.
    #[arg(long, num_args = 1.., value_name = "FILE|DIR", default_value = ".runtime/pictures")]
    pub images: Vec<PathBuf>,
    /// The duration of each measurement.
    #[arg(long, default_value = "10", value_parser = positive, value_name = "SECONDS")]
    pub seconds: f64,
    /// The duration of the warm-up before each measurement, which does not count.
    #[arg(long, default_value = "2", value_parser = not_negative, value_name = "SECONDS")]
    pub warm_up: f64,
    /// The seed of the order of the images and of the arrival times. The same seed results in the same order and times.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

fn operation(text: &str) -> Result<ScanKind, String> {
    serde_json::from_value(Value::String(text.to_owned())).map_err(|error| error.to_string())
}

/// Parses a number above zero.
pub fn positive(text: &str) -> Result<f64, String> {
    number(text)
        .filter(|number| *number > 0.0)
        .ok_or_else(|| "must be a number above 0".to_owned())
}

fn not_negative(text: &str) -> Result<f64, String> {
    number(text)
        .filter(|number| *number >= 0.0)
        .ok_or_else(|| "must be 0 or more".to_owned())
}

/// Parses a number that is small enough for time arithmetic.
fn number(text: &str) -> Option<f64> {
    text.parse().ok().filter(|number: &f64| *number < 1e6)
}

impl fmt::Display for Workload {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{} s each after {} s of warm-up",
            self.seconds, self.warm_up
        )
    }
}

impl Workload {
    /// Reads the images.
    ///
    /// # Errors
    /// Returns an error if a file cannot be read, its format is not supported, or there are no images.
    pub fn load(&self) -> anyhow::Result<Arc<[Image]>> {
        load_images(&self.images)
    }

    /// Returns the order of `images` images.
    pub fn sequence(&self, images: usize) -> Sequence {
        Sequence::new(self.seed, images)
    }

    /// Returns the time window of a measurement that starts now.
    pub fn window(&self) -> Window {
        let start = Instant::now() + Duration::from_secs_f64(self.warm_up);
        Window {
            start,
            end: start + Duration::from_secs_f64(self.seconds),
        }
    }
}

/// The time between the warm-up and the end of the measurement.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// The end of the warm-up.
    pub start: Instant,
    /// The end of the measurement.
    pub end: Instant,
}

impl Window {
    /// Returns whether a moment is inside the window.
    pub fn contains(&self, moment: Instant) -> bool {
        (self.start..self.end).contains(&moment)
    }
}

/// The order of the images: seeded shuffles, one after the other. Every run takes the same images, and each image
/// occurs equally often.
pub struct Sequence {
    order: Vec<usize>,
    taken: AtomicUsize,
}

impl Sequence {
    fn new(seed: u64, images: usize) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut order = Vec::with_capacity(SHUFFLES * images);
        let mut shuffled: Vec<usize> = (0..images).collect();
        for _ in 0..SHUFFLES {
            rng.shuffle(&mut shuffled);
            order.extend_from_slice(&shuffled);
        }
        Self {
            order,
            taken: AtomicUsize::new(0),
        }
    }

    /// Returns the index of the next image. All callers share one sequence.
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
    fn the_seed_determines_the_order_and_every_image_occurs_equally_often() {
        let order = taken(7, 50);
        assert_eq!(order, taken(7, 50));
        assert_ne!(order, taken(8, 50));
        for image in 0..5 {
            assert_eq!(order.iter().filter(|taken| **taken == image).count(), 10);
        }
        assert_ne!(order[..5], order[5..10], "shuffles differ");
    }

    #[test]
    fn the_order_never_ends() {
        assert_eq!(taken(1, SHUFFLES * 5 + 1).len(), SHUFFLES * 5 + 1);
    }
}
