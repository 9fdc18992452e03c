//! Sends the messages of webhooks.
//!
//! Attempts are independent of each other. Tenants share the slots for attempts, so silent addresses of one tenant do not delay
//! the messages of others. Several processes can do this beside each other: the database gives each attempt to one of them.

use std::{sync::Arc, time::Duration};

use facescan_store::{AttemptEnd, AttemptResult, DueDelivery, StoreError, TakeDeliveries};
use serde_json::json;
use time::OffsetDateTime;
use tokio::{
    task::{JoinError, JoinSet},
    time::{MissedTickBehavior, interval},
};
use tokio_util::sync::CancellationToken;
use url::Url;

use super::message::Message;
use crate::{
    admission::Priority,
    audit::AuditEvent,
    batches::{Batches, worker::Jitter},
    context::{Principal, RequestContext, RequestId},
    ingest::tenant_slots::{Slot, TenantSlots},
    telemetry::metrics::labels::{Delivery, Sweep},
};

/// How long a message is tried.
const TRIED_FOR: Duration = Duration::from_secs(24 * 3600);

/// A webhook is switched off if all its attempts failed for this time.
const FAILS_FOR: Duration = Duration::from_secs(24 * 3600);

/// The wait before the second attempt. Each further wait is four times as long, up to [`MAX_WAIT`]. Half of a wait is random.
const FIRST_WAIT: Duration = Duration::from_secs(5);

/// The longest wait between two attempts.
const MAX_WAIT: Duration = Duration::from_secs(2 * 3600);

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
        let store = Arc::clone(&self.batches.webhooks);
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

/// One attempt to deliver a message.
struct Attempt {
    batches: Batches,
    /// From 0 to 1.
    random: f64,
    delivery: DueDelivery,
}

/// Why a message was not delivered.
struct NotDelivered {
    reason: String,
    /// Whether the receiver wants no messages any more.
    is_final: bool,
}

impl NotDelivered {
    fn new(reason: &str) -> Self {
        Self {
            reason: reason.to_owned(),
            is_final: false,
        }
    }
}

impl Attempt {
    async fn run(self) -> Result<(), StoreError> {
        let delivery = &self.delivery;
        let batch = self
            .batches
            .store
            .batch(&delivery.webhook.tenant, delivery.batch_id)
            .await?;
        let now = self.batches.clock().now();
        let sent = match batch.map(|batch| Message::new(delivery, batch, now)) {
            None => None,
            Some(None) => Some(Err(NotDelivered::new("the message cannot be signed"))),
            Some(Some(message)) => Some(self.post(message).await),
        };
        let at = self.batches.clock().now();
        let (result, outcome) = match sent {
            None => (AttemptResult::Obsolete, Delivery::Failed),
            Some(Ok(())) => (AttemptResult::Delivered, Delivery::Delivered),
            Some(Err(failure)) => self.failed(failure, at),
        };
        self.batches.metrics().webhook_message(outcome);
        self.end(result, at).await
    }

    async fn post(&self, message: Message) -> Result<(), NotDelivered> {
        let Ok(url) = Url::parse(&self.delivery.webhook.url) else {
            return Err(NotDelivered::new("the stored address is not a URL"));
        };
        let sender = &self.batches.sender;
        let posted = sender.post(&url, message.headers, message.body).await;
        posted.map_err(|error| NotDelivered {
            reason: error.to_string(),
            is_final: error.is_final(),
        })
    }

    fn failed(&self, failure: NotDelivered, at: OffsetDateTime) -> (AttemptResult, Delivery) {
        let NotDelivered { reason, is_final } = failure;
        let delivery = &self.delivery;
        let retry_at = next_attempt(delivery, at, self.random);
        tracing::warn!(
            webhook = %delivery.webhook.id,
            batch = %delivery.batch_id,
            attempt = delivery.attempts,
            reason,
            will_retry = retry_at.is_some(),
            "a webhook was not delivered"
        );
        let outcome = match retry_at {
            Some(_) => Delivery::Retry,
            None => Delivery::Failed,
        };
        let since = if is_final { at } else { at - FAILS_FOR };
        let audit = self.disabled_entry(&reason);
        let result = AttemptResult::Failed {
            error: reason,
            retry_at,
            disable_if_failing_since: since,
            audit,
        };
        (result, outcome)
    }

    /// Returns the entry of the audit trail that this attempt switched the webhook off.
    fn disabled_entry(&self, reason: &str) -> Option<facescan_store::NewAuditEntry> {
        let webhook = &self.delivery.webhook;
        let id = RequestId::generate(self.batches.clock());
        let context = RequestContext::new(id, Principal::of_tenant(&webhook.tenant));
        let event = AuditEvent::change("disable_webhook", webhook.id);
        let event = event.with(json!({ "reason": reason }));
        self.batches.audit.entry(&context, event)
    }

    async fn end(&self, result: AttemptResult, at: OffsetDateTime) -> Result<(), StoreError> {
        let webhook = &self.delivery.webhook;
        let end = AttemptEnd {
            delivery: self.delivery.id,
            webhook: webhook.id,
            attempt: self.delivery.attempts,
            at,
            result,
        };
        if self.batches.webhooks.end_attempt(&end).await? {
            self.batches.metrics().webhook_disabled();
            tracing::warn!(
                webhook = %webhook.id,
                tenant = webhook.tenant,
                "a webhook was switched off, because its address keeps failing"
            );
        }
        Ok(())
    }
}

/// Returns when a message is tried again, or `None` if it is given up. `random` is from 0 to 1.
fn next_attempt(
    delivery: &DueDelivery,
    now: OffsetDateTime,
    random: f64,
) -> Option<OffsetDateTime> {
    let waits = delivery.attempts.saturating_sub(1).min(16);
    let wait = FIRST_WAIT
        .saturating_mul(4_u32.saturating_pow(waits))
        .min(MAX_WAIT);
    let at = now + wait.mul_f64(0.5 + random / 2.0);
    (at < delivery.created_at + TRIED_FOR).then_some(at)
}

#[cfg(test)]
mod tests {
    use facescan_store::{Webhook, WebhookEvent, WebhookHealth};
    use uuid::Uuid;

    use super::*;

    fn delivery(attempts: u32) -> DueDelivery {
        DueDelivery {
            id: Uuid::nil(),
            webhook: Webhook {
                id: Uuid::nil(),
                tenant: "one".to_owned(),
                batch_id: None,
                url: "https://example.com/".to_owned(),
                secret: "".into(),
                created_at: OffsetDateTime::UNIX_EPOCH,
                old_secret: None,
                health: WebhookHealth::default(),
            },
            batch_id: Uuid::nil(),
            event: WebhookEvent::BatchDone,
            created_at: OffsetDateTime::UNIX_EPOCH,
            attempts,
        }
    }

    #[test]
    fn waits_grow_and_a_message_is_given_up_after_a_day() {
        let now = OffsetDateTime::UNIX_EPOCH;
        let wait = |attempts, random| {
            let next = next_attempt(&delivery(attempts), now, random).unwrap();
            (next - now).as_seconds_f64()
        };
        assert_eq!((wait(1, 0.0), wait(1, 1.0)), (2.5, 5.0));
        assert_eq!((wait(2, 1.0), wait(3, 1.0)), (20.0, 80.0));
        assert_eq!((wait(9, 0.0), wait(1000, 1.0)), (3600.0, 7200.0));
        let late = now + TRIED_FOR - Duration::from_secs(3600);
        assert!(next_attempt(&delivery(9), late, 0.0).is_none());
        assert!(next_attempt(&delivery(1), late, 0.0).is_some());
    }
}
