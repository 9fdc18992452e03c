//! Brings a device back that is down.

use std::sync::{Arc, Weak};

use super::{Supervisor, WorkerSlot};
use crate::health::Failure;

impl<S: 'static> Supervisor<S> {
    /// Starts the task that probes the device until it recovers or nobody uses it any more.
    pub(super) fn spawn_recovery(self: &Arc<Self>) {
        self.runtime.spawn(recover(Arc::downgrade(self)));
    }

    /// Probes the device on a new worker, which stays if the probe succeeds. Returns whether it did.
    async fn try_to_recover(&self) -> bool {
        let (health, device) = (&self.parts.health, self.parts.placement);
        match self.probe_new_worker().await {
            Ok(slot) => {
                tracing::info!(%device, "the device returns correct results again and is used");
                {
                    // The lock keeps the worker slot and the breaker consistent.
                    let mut state = self.state();
                    health.recovered();
                    state.install(Some(slot));
                }
                self.parts.changed.notify_one();
                true
            }
            Err(failure) => {
                tracing::warn!(%device, reason = %failure.detail, "the device is still down");
                health.stays_down(failure, self.parts.clock.monotonic());
                false
            }
        }
    }

    async fn probe_new_worker(&self) -> Result<Arc<WorkerSlot<S>>, Failure> {
        let open = Arc::clone(&self.parts.open);
        let slot = self.new_slot(move || open())?;
        let probe = Arc::clone(&self.parts.probe);
        let budget = self.first_run_timeout();
        slot.worker.run(budget, move |owned| probe(owned)).await?;
        Ok(slot)
    }
}

/// Probes the device until it recovers. The task holds no strong reference while it waits, so that an unused device can
/// be dropped.
async fn recover<S: 'static>(device: Weak<Supervisor<S>>) {
    loop {
        let pause = device.upgrade().and_then(|device| {
            let at = device.parts.health.retry_at()?;
            Some(at.saturating_sub(device.parts.clock.monotonic()))
        });
        let Some(pause) = pause else { return };
        tokio::time::sleep(pause).await;
        let Some(device) = device.upgrade() else {
            return;
        };
        if device.try_to_recover().await {
            return;
        }
    }
}
