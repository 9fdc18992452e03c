//! Decides when a failing device is not used, and for how long.

use std::time::Duration;

/// The limits that decide when a device goes down and how long it stays down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakerSettings {
    /// The number of consecutive failures that take the device down.
    pub failures: u32,
    /// The time that the device is not used after it first goes down.
    pub cool_down: Duration,
    /// Upper bound of the cool-down, which doubles after each failed probe.
    pub max_cool_down: Duration,
}

/// A circuit breaker. Times are those of the [`Clock`](facescan_clock::Clock).
#[derive(Clone, Debug)]
pub(crate) struct Breaker {
    settings: BreakerSettings,
    /// Consecutive failures.
    failures: u32,
    down: Option<Down>,
}

#[derive(Clone, Copy, Debug)]
struct Down {
    until: Duration,
    cool_down: Duration,
}

impl Breaker {
    /// Creates the breaker of a device that is up.
    pub fn new(settings: BreakerSettings) -> Self {
        Self {
            settings,
            failures: 0,
            down: None,
        }
    }

    /// Returns whether the device may be used.
    pub fn is_up(&self) -> bool {
        self.down.is_none()
    }

    /// Returns the time of the next probe, or `None` while the device is up.
    pub fn retry_at(&self) -> Option<Duration> {
        self.down.map(|down| down.until)
    }

    /// Returns the number of consecutive failures.
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// Records a successful run, which resets the failures, or a successful probe, which also brings the device up.
    pub fn succeeded(&mut self) {
        self.failures = 0;
        self.down = None;
    }

    /// Records a failed run. Returns whether it takes the device down.
    pub fn failed(&mut self, now: Duration) -> bool {
        self.failures = self.failures.saturating_add(1);
        let is_enough = self.failures >= self.settings.failures;
        if is_enough {
            self.take_down(now);
        }
        is_enough
    }

    /// Takes the device down at once. If it is down already, it stays down for twice as long as before.
    pub fn take_down(&mut self, now: Duration) {
        let cool_down = match self.down {
            Some(down) => down.cool_down.saturating_mul(2),
            None => self.settings.cool_down,
        }
        .min(self.settings.max_cool_down);
        self.down = Some(Down {
            until: now.saturating_add(cool_down),
            cool_down,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn breaker() -> Breaker {
        Breaker::new(BreakerSettings {
            failures: 3,
            cool_down: SECOND,
            max_cool_down: 5 * SECOND,
        })
    }

    #[test]
    fn only_consecutive_failures_take_the_device_down() {
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
    fn each_failed_probe_doubles_the_cool_down_up_to_the_maximum_and_a_success_ends_it() {
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
        assert_eq!(
            breaker.retry_at(),
            Some(SECOND),
            "the cool-down starts over"
        );
    }
}
