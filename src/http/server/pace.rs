//! How slowly a client may read its response.

use std::time::Duration;

use tokio::time::Instant;

/// The limit of the time that the server waits for a client to read.
#[derive(Clone, Copy, Debug)]
pub struct ReadingLimit {
    /// The time that a client may owe.
    pub grace: Duration,
    /// The lowest rate of a response. A client owes the time that it takes beyond this rate. 0 means that only silence counts.
    pub bytes_per_s: u64,
}

/// The time that a client owes. A fast part does not count for later ones, so a client cannot save up time.
#[derive(Debug)]
pub(super) struct Pace {
    limit: ReadingLimit,
    owed: Duration,
    /// When the server began to wait for the client. `None` while it does not wait.
    waits_since: Option<Instant>,
}

impl Pace {
    pub fn new(limit: ReadingLimit) -> Self {
        Self {
            limit,
            owed: Duration::ZERO,
            waits_since: None,
        }
    }

    /// The server waits for the client from `now` on, if it does not wait already.
    pub fn wait(&mut self, now: Instant) {
        self.waits_since.get_or_insert(now);
    }

    /// The client has read `bytes` bytes, and the server does not wait for it now.
    pub fn read(&mut self, now: Instant, bytes: usize) {
        let waited = self
            .waits_since
            .take()
            .map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
        self.owed = match self.limit.bytes_per_s {
            0 => Duration::ZERO,
            rate => {
                let earned = Duration::from_secs_f64(bytes as f64 / rate as f64);
                (self.owed + waited).saturating_sub(earned)
            }
        };
    }

    /// Returns when the client is too slow, unless it reads before. Returns `None` while the server does not wait for it.
    pub fn due(&self) -> Option<Instant> {
        Some(self.waits_since? + self.limit.grace.saturating_sub(self.owed))
    }

    /// Returns how long to wait before another look at [`due`](Self::due).
    pub fn grace(&self) -> Duration {
        self.limit.grace
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: ReadingLimit = ReadingLimit {
        grace: Duration::from_secs(10),
        bytes_per_s: 100,
    };

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_client_that_trickles_is_due_although_it_always_reads_something() {
        let start = Instant::now();
        let mut pace = Pace::new(LIMIT);
        assert_eq!(pace.due(), None);
        pace.wait(start);
        assert_eq!(pace.due(), Some(start + seconds(10)));
        pace.read(start + seconds(9), 100);
        assert_eq!(pace.due(), None);
        pace.wait(start + seconds(9));
        assert_eq!(pace.due(), Some(start + seconds(11)), "8 seconds are owed");
    }

    #[test]
    fn a_fast_part_earns_nothing_for_later_ones() {
        let start = Instant::now();
        let mut pace = Pace::new(LIMIT);
        pace.wait(start);
        pace.read(start + seconds(1), 1 << 30);
        pace.wait(start + seconds(2));
        assert_eq!(pace.due(), Some(start + seconds(12)));
        pace.wait(start + seconds(5));
        assert_eq!(pace.due(), Some(start + seconds(12)), "the wait goes on");
    }

    #[test]
    fn without_a_rate_only_silence_counts() {
        let start = Instant::now();
        let mut pace = Pace::new(ReadingLimit {
            bytes_per_s: 0,
            ..LIMIT
        });
        pace.wait(start);
        pace.read(start + seconds(9), 1);
        pace.wait(start + seconds(9));
        assert_eq!(pace.due(), Some(start + seconds(19)));
    }
}
