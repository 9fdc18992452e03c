//! Sends the messages of webhooks.
//!
//! Attempts are independent of each other. Tenants share the slots for attempts, so silent addresses of one tenant do not delay
//! the messages of others. Several processes can do this beside each other: the database gives each attempt to one of them.

use std::{sync::Arc, time::Duration};

use facescan_pipeline::{
    admission::Priority,
    ingest::tenant_slots::{Slot, TenantSlots},
};
use facescan_store::{DueDelivery, StoreError, TakeDeliveries};
use facescan_telemetry::metrics::labels::Sweep;
use tokio::{
    task::{JoinError, JoinSet},
    time::{MissedTickBehavior, interval},
};
use tokio_util::sync::CancellationToken;

use super::attempt::Attempt;
use crate::{Batches, worker::Jitter};

/// Another process takes a message again if its attempt has not ended by then.
const ATTEMPT_LEASE: Duration = Duration::from_secs(60);

/// The most attempts at a time in one process.
const MAX_ATTEMPTS_AT_A_TIME: usize = 128;

/// The most messages that one call takes.
const MESSAGES_PER_TAKE: usize = 16;

/// The most tenants that one look finds.
const TENANTS_PER_LOOK: u32 = 256;

/// The time between two looks for messages.
const PERIOD: Duration = Duration::from_secs(1);

/// Sends the messages of the webhooks of all tenants.
pub struct Deliveries {
    batches: Batches,
    jitter: Jitter,
    slots: TenantSlots,
    attempts: JoinSet<()>,
    /// The last tenant of a look that did not find all tenants. The next look begins behind it.
    last_tenant: String,
}

/// What a look for messages found.
#[derive(Clone, Copy, Default)]
struct Look {
    /// The attempts that began.
    begun: usize,
    /// Whether more messages are due.
    has_more: bool,
}

impl Deliveries {
    /// Creates a sender. `jitter` decides the random part of waits.
    pub fn new(batches: Batches, jitter: Jitter) -> Self {
        Self {
            batches,
            jitter,
            slots: TenantSlots::new(MAX_ATTEMPTS_AT_A_TIME),
            attempts: JoinSet::new(),
            last_tenant: String::new(),
        }
    }

    /// Sends messages that are due until `stop` is cancelled, and then waits for the attempts that have begun. Returns at once
    /// if webhooks are off.
    pub async fn run(mut self, stop: CancellationToken) {
        if !self.batches.config.webhooks.enabled {
            return;
        }
        let mut looks = interval(PERIOD);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while !stop.is_cancelled() {
            let look = self.look_or_warn().await;
            if look.begun > 0 && look.has_more {
                continue;
            }
            loop {
                tokio::select! {
                    () = stop.cancelled() => break,
                    _ = looks.tick() => break,
                    Some(ended) = self.attempts.join_next() => report(ended),
                }
                // Without more messages, a free slot is of no use before the next look.
                if look.has_more {
                    break;
                }
            }
        }
        while let Some(ended) = self.attempts.join_next().await {
            report(ended);
        }
    }

    /// Sends the messages that are due, and waits for all attempts. Returns their number.
    ///
    /// # Errors
    /// Returns an error of the database. A message that cannot be delivered is tried again later.
    pub async fn send_due(&mut self) -> Result<usize, StoreError> {
        let mut count = 0;
        loop {
            let look = self.look().await?;
            count += look.begun;
            while let Some(ended) = self.attempts.join_next().await {
                report(ended);
            }
            if !look.has_more {
                return Ok(count);
            }
        }
    }

    async fn look_or_warn(&mut self) -> Look {
        self.look().await.unwrap_or_else(|error| {
            tracing::warn!(%error, "the messages of webhooks cannot be read now");
            self.batches.metrics().sweep_failed(Sweep::Webhooks);
            Look::default()
        })
    }

    /// Begins the attempts that are due, as far as there are slots.
    async fn look(&mut self) -> Result<Look, StoreError> {
        let now = self.batches.clock().now();
        let store = self.batches.store.clone();
        let tenants = store
            .tenants_with_deliveries(now, &self.last_tenant, TENANTS_PER_LOOK)
            .await?;
        let is_part = tenants.len() == TENANTS_PER_LOOK as usize || !self.last_tenant.is_empty();
        self.last_tenant = match tenants.last() {
            Some(last) if tenants.len() == TENANTS_PER_LOOK as usize => last.clone(),
            _ => String::new(),
        };
        let mut look = Look {
            begun: 0,
            has_more: is_part,
        };
        for tenant in tenants {
            let name: Arc<str> = tenant.as_str().into();
            let free = std::iter::from_fn(|| self.slots.try_take(&name, Priority::Bulk));
            let free: Vec<Slot> = free.take(MESSAGES_PER_TAKE).collect();
            if free.is_empty() {
                look.has_more = true;
                continue;
            }
            let request = TakeDeliveries {
                now,
                again_at: now + ATTEMPT_LEASE,
                limit: free.len() as u32,
            };
            let taken = store.take_deliveries(&tenant, request).await?;
            look.begun += taken.deliveries.len();
            look.has_more |= taken.has_more;
            for (delivery, slot) in taken.deliveries.into_iter().zip(free) {
                self.begin(delivery, slot);
            }
        }
        Ok(look)
    }

    fn begin(&mut self, delivery: DueDelivery, slot: Slot) {
        let attempt = Attempt {
            batches: self.batches.clone(),
            random: (self.jitter)(),
            delivery,
        };
        self.attempts.spawn(async move {
            if let Err(error) = attempt.run().await {
                tracing::warn!(%error, "an attempt of a webhook cannot be recorded; the message is sent again");
            }
            drop(slot);
        });
    }
}

fn report(ended: Result<(), JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "an attempt of a webhook ended early");
    }
}
