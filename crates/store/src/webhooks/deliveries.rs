//! The messages: they are inserted, taken, and ended.

use sha2::{Digest as _, Sha256};
use time::OffsetDateTime;
use uuid::Uuid;

use super::hosts;
use super::records::{
    AttemptEnd, AttemptFailure, AttemptResult, TakeDeliveries, TakenDeliveries, WebhookEvent,
};
use super::rows::{Candidate, webhook_columns};
use crate::audit::append;
use crate::call::{change, query};
use crate::connection::{Connection, insert_rows};
use crate::error::StoreError;
use crate::parameters::params;
use crate::store::Store;
use crate::times::micros;
use crate::values::Value;

/// The rest of these statements: no other attempt of the message has begun.
macro_rules! if_current {
    ($statement:literal) => {
        concat!(
            $statement,
            " AND EXISTS (SELECT 1 FROM webhook_deliveries d \
             WHERE d.id = :delivery AND d.attempts = :attempt AND d.status = 'pending')"
        )
    };
}

crate::prepared::statements! {
    /// The webhooks that are told about a batch.
    const OF_BATCH = "SELECT w.id, w.tenant FROM (SELECT * FROM webhooks WHERE batch_id = :batch \
             UNION ALL SELECT * FROM webhooks WHERE batch_id IS NULL \
                 AND tenant = (SELECT tenant FROM batches WHERE id = :batch)) w \
         WHERE w.disabled_at IS NULL AND NOT EXISTS (SELECT 1 FROM webhook_hosts h \
             WHERE h.tenant = w.tenant AND h.host = w.host AND h.off_until > :now)", scans "the webhooks of all batches, of which a tenant has few";

    /// Steps from one tenant to the next in the index, so that the messages of a tenant are not read.
    const TENANTS = "WITH RECURSIVE waiting (tenant) AS ( \
             SELECT (SELECT min(d.tenant) FROM webhook_deliveries d \
                 WHERE d.next_at IS NOT NULL AND d.tenant > :after) \
             UNION ALL \
             SELECT (SELECT min(d.tenant) FROM webhook_deliveries d \
                 WHERE d.next_at IS NOT NULL AND d.tenant > waiting.tenant) \
             FROM waiting WHERE waiting.tenant IS NOT NULL) \
         SELECT waiting.tenant FROM waiting WHERE waiting.tenant IS NOT NULL AND EXISTS \
             (SELECT 1 FROM webhook_deliveries d WHERE d.tenant = waiting.tenant AND d.next_at <= :now) \
         LIMIT :limit";

    const DUE = concat!(
        "SELECT d.id AS delivery_id, d.batch_id AS of_batch, d.event, \
         d.created_at AS happened_at, d.attempts + 1 AS attempts, (SELECT h.off_until FROM webhook_hosts h \
             WHERE h.tenant = w.tenant AND h.host = w.host) AS host_off_until, ",
        webhook_columns!(),
        " FROM webhook_deliveries d JOIN webhooks w ON w.id = d.webhook_id \
         WHERE d.tenant = :tenant AND d.next_at <= :now ORDER BY d.next_at LIMIT :limit"
    );

    /// Another process that took the message first has moved its time.
    const TAKE = "UPDATE webhook_deliveries SET attempts = attempts + 1, next_at = :again_at \
         WHERE id = :id AND next_at <= :now";

    /// A message of a webhook that is off waits until it is on.
    const PARK = "UPDATE webhook_deliveries SET next_at = NULL WHERE id = :id AND next_at <= :now";

    /// A message to a host that is off is given up: it would be too old when the host is on again.
    const GIVE_UP = "UPDATE webhook_deliveries SET status = 'failed', next_at = NULL \
         WHERE id = :id AND next_at <= :now";

    const SUCCEEDED = if_current!(
        "UPDATE webhooks SET failures = 0, failing_since = NULL, last_error = NULL, last_success_at = :at \
         WHERE id = :webhook"
    );

    const FAILED = if_current!(
        "UPDATE webhooks SET failures = failures + 1, failing_since = coalesce(failing_since, :at), \
         last_error = :error WHERE id = :webhook"
    );

    const DISABLE = "UPDATE webhooks SET disabled_at = :at \
         WHERE id = :webhook AND disabled_at IS NULL AND failing_since <= :since";

    const END = "UPDATE webhook_deliveries SET status = :status, next_at = :next_at \
         WHERE id = :delivery AND attempts = :attempt AND status = 'pending'";
}

/// Inserts a message to each webhook that is told about a batch. Run it in the transaction that ends the batch.
pub(crate) async fn insert_deliveries(
    connection: &mut Connection<'_>,
    batch: Uuid,
    event: WebhookEvent,
    now: OffsetDateTime,
) -> Result<(), StoreError> {
    let (name, now) = (event.name(), micros(now));
    let webhooks: Vec<(Uuid, String)> = connection.fetch_all(OF_BATCH, params!(batch, now)).await?;
    let ids: Vec<Uuid> = webhooks
        .iter()
        .map(|(webhook, _)| message_id(*webhook, batch, now))
        .collect();
    let rows: Vec<[&dyn Value; 9]> = webhooks
        .iter()
        .zip(&ids)
        .map(|((webhook, tenant), id)| -> [&dyn Value; 9] {
            [
                id, webhook, &batch, &name, &now, &0_i32, &now, &"pending", tenant,
            ]
        })
        .collect();
    let into = "webhook_deliveries \
         (id, webhook_id, batch_id, event, created_at, attempts, next_at, status, tenant)";
    Ok(insert_rows(connection, into, &rows).await?)
}

/// Returns the id of a message: a digest of what it is about, so that the store needs no random numbers.
fn message_id(webhook: Uuid, batch: Uuid, now: i64) -> Uuid {
    let mut digest = Sha256::new();
    digest.update(webhook);
    digest.update(batch);
    digest.update(now.to_le_bytes());
    let digest: [u8; 32] = digest.finalize().into();
    let mut id = [0; 16];
    id.copy_from_slice(&digest[..16]);
    uuid::Builder::from_custom_bytes(id).into_uuid()
}

impl Store {
    /// Returns tenants with messages that are due, in the order of their names, from the first one behind `after`.
    pub async fn tenants_with_deliveries(
        &self,
        now: OffsetDateTime,
        after: &str,
        limit: u32,
    ) -> Result<Vec<String>, StoreError> {
        query!(self, "tenants_with_deliveries", |connection| {
            let values = params!(now = micros(now), after, limit);
            Ok(connection.fetch_all(TENANTS, values).await?)
        })
    }

    /// Takes messages of a tenant that are due, those first that are due the longest, and counts an attempt of each.
    pub async fn take_deliveries(
        &self,
        tenant: &str,
        request: TakeDeliveries,
    ) -> Result<TakenDeliveries, StoreError> {
        change!(self, "take_deliveries", |connection| {
            let (now, again_at) = (micros(request.now), micros(request.again_at));
            let values = params!(tenant, now, limit = request.limit);
            let due: Vec<Candidate> = connection.fetch_all(DUE, values).await?;
            let mut taken = TakenDeliveries {
                has_more: due.len() == request.limit as usize,
                deliveries: Vec::with_capacity(due.len()),
            };
            for candidate in due {
                let delivery = candidate.delivery;
                let (statement, is_taken) =
                    if candidate.host_off_until.is_some_and(|until| until > now) {
                        (GIVE_UP, false)
                    } else if delivery.webhook.health.disabled_at.is_some() {
                        (PARK, false)
                    } else {
                        (TAKE, true)
                    };
                let values = params!(id = delivery.id, now, again_at);
                if connection.execute(statement, values).await? == 1 && is_taken {
                    taken.deliveries.push(delivery);
                }
            }
            Ok(taken)
        })
    }

    /// Ends an attempt. Returns whether this switched the webhook or its host off. Writes nothing if another attempt of the message has
    /// begun.
    pub async fn end_attempt(&self, end: &AttemptEnd) -> Result<bool, StoreError> {
        change!(self, "end_attempt", |connection| {
            // The webhook is changed before the message, so that two ends for one webhook lock their rows in the same order.
            let (attempt, at) = (end.attempt, micros(end.at));
            let mut is_disabled = false;
            let (status, next_at) = match &end.result {
                AttemptResult::Delivered => {
                    let values =
                        params!(webhook = end.webhook, delivery = end.delivery, attempt, at);
                    if connection.execute(SUCCEEDED, values).await? == 1 {
                        let webhook = params!(webhook = end.webhook);
                        connection.execute(hosts::SUCCEEDED, webhook).await?;
                    }
                    ("delivered", None)
                }
                AttemptResult::Obsolete => ("failed", None),
                AttemptResult::Failed(failure) => {
                    let AttemptFailure {
                        error,
                        retry_at,
                        disable_if_failing_since,
                        audit,
                        host,
                    } = &**failure;
                    let values = params!(
                        webhook = end.webhook,
                        delivery = end.delivery,
                        attempt,
                        at,
                        error = *error
                    );
                    let is_current = connection.execute(FAILED, values).await? == 1;
                    if is_current {
                        let since = micros(*disable_if_failing_since);
                        let values = params!(webhook = end.webhook, at, since);
                        is_disabled = connection.execute(DISABLE, values).await? == 1;
                    }
                    if is_disabled {
                        append(connection, audit.as_slice()).await?;
                    }
                    if let Some(host) = host.as_ref().filter(|_| is_current) {
                        let failed = (end.at, error.as_str());
                        is_disabled |= hosts::failed(connection, end.webhook, failed, host).await?;
                    }
                    match retry_at {
                        Some(retry_at) => ("pending", Some(micros(*retry_at))),
                        None => ("failed", None),
                    }
                }
            };
            let values = params!(delivery = end.delivery, attempt, status, next_at);
            connection.execute(END, values).await?;
            Ok(is_disabled)
        })
    }
}
