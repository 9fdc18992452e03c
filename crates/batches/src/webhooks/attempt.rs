//! One attempt to deliver a message.

use std::time::Duration;

use facescan_audit::AuditEvent;
use facescan_pipeline::context::{Principal, RequestContext, RequestId};
use facescan_store::{
    AttemptEnd, AttemptFailure, AttemptResult, DueDelivery, HostFailure, NewAuditEntry, StoreError,
};
use facescan_telemetry::metrics::labels::Delivery;
use serde_json::{Value, json};
use time::OffsetDateTime;
use url::Url;

use super::message::Message;
use crate::Batches;

/// How long a message is tried.
const TRIED_FOR: Duration = Duration::from_secs(24 * 3600);

/// A webhook is switched off if all its attempts failed for this time, and so is the host of webhooks of one batch.
const FAILS_FOR: Duration = Duration::from_secs(24 * 3600);

/// How long nothing is sent to a host that was switched off. Then one more failure switches it off again.
const HOST_OFF_FOR: Duration = Duration::from_secs(24 * 3600);

/// The wait before the second attempt. Each further wait is four times as long, up to [`MAX_WAIT`]. Half of a wait is random.
const FIRST_WAIT: Duration = Duration::from_secs(5);

/// The longest wait between two attempts.
const MAX_WAIT: Duration = Duration::from_secs(2 * 3600);

/// One attempt to deliver a message.
pub(super) struct Attempt {
    pub batches: Batches,
    /// From 0 to 1.
    pub random: f64,
    pub delivery: DueDelivery,
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
    /// Sends the message and records how this ended.
    ///
    /// # Errors
    /// Returns an error of the database. The message is sent again then.
    pub(super) async fn run(self) -> Result<(), StoreError> {
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
        let made = (delivery.created_at, delivery.attempts);
        let retry_at = next_attempt(made, at, self.random);
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
        let off_until = at + HOST_OFF_FOR;
        let failure = AttemptFailure {
            retry_at,
            disable_if_failing_since: since,
            audit: self.disabled_entry(json!({ "reason": reason })),
            host: delivery.webhook.host.is_some().then(|| HostFailure {
                disable_if_failing_since: at - FAILS_FOR,
                off_until,
                audit: self.disabled_entry(json!({
                    "reason": reason,
                    "host_off_until": off_until.unix_timestamp(),
                })),
            }),
            error: reason,
        };
        (AttemptResult::Failed(Box::new(failure)), outcome)
    }

    /// Returns the entry of the audit trail that this attempt switched the webhook or its host off.
    fn disabled_entry(&self, details: Value) -> Option<NewAuditEntry> {
        let webhook = &self.delivery.webhook;
        let id = RequestId::generate(self.batches.clock());
        let context = RequestContext::new(id, Principal::of_tenant(&webhook.tenant));
        let event = AuditEvent::change("disable_webhook", webhook.id);
        self.batches.audit.entry(&context, event.with(details))
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
        if self.batches.store.end_attempt(&end).await? {
            self.batches.metrics().webhook_disabled();
            tracing::warn!(
                webhook = %webhook.id,
                tenant = webhook.tenant,
                host = webhook.host,
                "a webhook was switched off, because its address keeps failing; if it is that of one batch, so is its host"
            );
        }
        Ok(())
    }
}

/// Returns when a message is tried again, or `None` if it is given up. `attempts` is how often it was tried, and `random` is from
/// 0 to 1.
fn next_attempt(
    (created_at, attempts): (OffsetDateTime, u32),
    now: OffsetDateTime,
    random: f64,
) -> Option<OffsetDateTime> {
    let waits = attempts.saturating_sub(1).min(16);
    let wait = FIRST_WAIT
        .saturating_mul(4_u32.saturating_pow(waits))
        .min(MAX_WAIT);
    let at = now + wait.mul_f64(0.5 + random / 2.0);
    (at < created_at + TRIED_FOR).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_and_a_message_is_given_up_after_a_day() {
        let now = OffsetDateTime::UNIX_EPOCH;
        let wait = |attempts, random| {
            let next = next_attempt((now, attempts), now, random).unwrap();
            (next - now).as_seconds_f64()
        };
        assert_eq!((wait(1, 0.0), wait(1, 1.0)), (2.5, 5.0));
        assert_eq!((wait(2, 1.0), wait(3, 1.0)), (20.0, 80.0));
        assert_eq!((wait(9, 0.0), wait(1000, 1.0)), (3600.0, 7200.0));
        let late = now + TRIED_FOR - Duration::from_secs(3600);
        assert!(next_attempt((now, 9), late, 0.0).is_none());
        assert!(next_attempt((now, 1), late, 0.0).is_some());
    }
}
