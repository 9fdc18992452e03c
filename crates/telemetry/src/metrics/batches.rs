//! What the workers of batches and the tasks in the background report.

use time::Duration;

use super::{
    Metrics, OutcomeLabels, StateLabels, SweepLabels,
    labels::{Delivery, Sweep},
};

impl Metrics {
    pub(super) fn create_known_of_batches(&self) {
        for outcome in ["ok", "error", "dead", "retry"] {
            let labels = OutcomeLabels { outcome };
            self.batch_items.get_or_create(&labels).inc_by(0);
        }
        for &outcome in Delivery::NAMES {
            let labels = OutcomeLabels { outcome };
            self.webhook_messages.get_or_create(&labels).inc_by(0);
        }
        for &sweep in Sweep::NAMES {
            let labels = SweepLabels { sweep };
            self.sweeps_failed.get_or_create(&labels).inc_by(0);
        }
    }

    /// Counts an attempt to deliver a message of a webhook.
    pub fn webhook_message(&self, delivery: Delivery) {
        let outcome = delivery.name();
        let labels = OutcomeLabels { outcome };
        self.webhook_messages.get_or_create(&labels).inc();
    }

    /// Counts a webhook that was switched off.
    pub fn webhook_disabled(&self) {
        self.webhooks_disabled.inc();
    }

    /// Counts a sweep that failed.
    pub fn sweep_failed(&self, sweep: Sweep) {
        let sweep = sweep.name();
        let labels = SweepLabels { sweep };
        self.sweeps_failed.get_or_create(&labels).inc();
    }

    /// Counts an attempt of an item of a batch. `outcome` is `ok`, `error`, `dead` or `retry`.
    pub fn batch_item(&self, outcome: &'static str) {
        let labels = OutcomeLabels { outcome };
        self.batch_items.get_or_create(&labels).inc();
    }

    /// Counts a lease that a worker lost.
    pub fn batch_lease_lost(&self) {
        self.batch_leases_lost.inc();
    }

    /// Records the items in the queue of all processes, and how long the oldest ready chunk has waited.
    pub fn batch_queue(&self, queued: u64, running: u64, oldest: Duration) {
        for (state, items) in [("queued", queued), ("running", running)] {
            self.batch_queue_items
                .get_or_create(&StateLabels { state })
                .set(i64::try_from(items).unwrap_or(i64::MAX));
        }
        self.batch_oldest.set(oldest.whole_seconds());
    }
}
