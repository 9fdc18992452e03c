//! Bringing a device back that is down.

use std::sync::{Arc, Weak};

use super::{Device, FIRST_RUNS};

/// Probes a device again and again, with growing pauses, until it answers right or nobody uses it any more.
pub(super) async fn recover(device: Weak<Device>) {
    loop {
        let pause = match device.upgrade() {
            Some(device) => match device.parts.health.retry_at() {
                Some(at) => at.saturating_sub(device.clock.monotonic()),
                None => return,
            },
            None => return,
        };
        tokio::time::sleep(pause).await;
        match device.upgrade() {
            Some(device) => device.try_again().await,
            None => return,
        }
    }
}

impl Device {
    /// Probes the device on a new thread, which stays if the answer is right.
    async fn try_again(&self) {
        let (health, place) = (&self.parts.health, self.parts.place);
        let outcome = match self.seat() {
            Ok(seat) => {
                let probe = Arc::clone(&self.parts.probe);
                let patience = self.parts.run_timeout.saturating_mul(FIRST_RUNS);
                let probed = seat.worker.run(patience, move |graphs| probe(graphs));
                probed.await.map(|_| seat)
            }
            Err(failure) => Err(failure),
        };
        match outcome {
            Ok(seat) => {
                tracing::info!(device = %place, "the device answers right again; pictures go to it");
                health.recovered();
                self.sit(Some(seat));
            }
            Err(failure) => {
                tracing::warn!(device = %place, reason = %failure.detail, "the device is still down");
                health.stays_down(failure, self.clock.monotonic());
            }
        }
    }
}
