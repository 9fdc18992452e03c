//! When a device that fails is let alone, and for how long.

use std::time::Duration;

/// How much is borne, and how long is waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// Failures in a row that take the device down.
    pub failures: u32,
    /// How long it is let alone the first time.
    pub cool_down: Duration,
    /// The longest that it is let alone, as the time doubles with each attempt that fails.
    pub longest: Duration,
}

/// Counts failures, and says when to try again. Times are the [`Clock`](facescan_clock::Clock)'s.
#[derive(Clone, Debug)]
pub struct Breaker {
    patience: Patience,
    /// Failures in a row.
    failures: u32,
    down: Option<Down>,
}

#[derive(Clone, Copy, Debug)]
struct Down {
    until: Duration,
    /// How long it lasts this time.
    lasts: Duration,
}

impl Breaker {
    /// One for a device that is up.
    pub fn new(patience: Patience) -> Self {
        Self {
            patience,
            failures: 0,
            down: None,
        }
    }

    /// Whether the device may be used.
    pub fn is_up(&self) -> bool {
        self.down.is_none()
    }

    /// When the device is to be tried again; `None` when it is up.
    pub fn retry_at(&self) -> Option<Duration> {
        self.down.map(|down| down.until)
    }

    /// Failures in a row.
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// A run succeeded, or a probe did: the device is up.
    pub fn succeeded(&mut self) {
        self.failures = 0;
        self.down = None;
    }

    /// A run failed. Answers whether that takes the device down.
    pub fn failed(&mut self, now: Duration) -> bool {
        self.failures = self.failures.saturating_add(1);
        let is_enough = self.failures >= self.patience.failures;
        if is_enough {
            self.take_down(now);
        }
        is_enough
    }

    /// Takes the device down at once, or leaves it down for twice as long as before.
    pub fn take_down(&mut self, now: Duration) {
        let lasts = match self.down {
            Some(down) => down.lasts.saturating_mul(2),
            None => self.patience.cool_down,
        }
        .min(self.patience.longest);
        self.down = Some(Down {
            until: now.saturating_add(lasts),
            lasts,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn breaker() -> Breaker {
        Breaker::new(Patience {
            failures: 3,
            cool_down: SECOND,
            longest: 5 * SECOND,
        })
    }

    #[test]
    fn only_failures_in_a_row_take_the_device_down() {
        let mut breaker = breaker();
        assert!(!breaker.failed(SECOND));
        assert!(!breaker.failed(SECOND));
        breaker.succeeded();
        assert!(!breaker.failed(SECOND));
        assert!(!breaker.failed(SECOND));
        assert!(breaker.is_up());
        assert!(breaker.failed(10 * SECOND));
        assert!(!breaker.is_up());
        assert_eq!(breaker.retry_at(), Some(11 * SECOND));
        assert_eq!(breaker.failures(), 3);
    }

    #[test]
    fn each_failed_probe_doubles_the_wait_up_to_the_longest_and_a_good_one_ends_it() {
        let mut breaker = breaker();
        breaker.take_down(Duration::ZERO);
        let waits: Vec<u64> = (0..4)
            .map(|_| {
                let now = breaker.retry_at().unwrap();
                breaker.take_down(now);
                (breaker.retry_at().unwrap() - now).as_secs()
            })
            .collect();
        assert_eq!(waits, [2, 4, 5, 5]);
        breaker.succeeded();
        assert!(breaker.is_up());
        breaker.take_down(Duration::ZERO);
        assert_eq!(breaker.retry_at(), Some(SECOND), "it begins anew");
    }
}
