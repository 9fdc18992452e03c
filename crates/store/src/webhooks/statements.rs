//! The statements about webhooks.

use secrecy::ExposeSecret;
use sha2::{Digest as _, Sha256};
use time::OffsetDateTime;
use uuid::Uuid;

use super::{
    DeliveryEnd, DueDelivery, Webhook, WebhookEvent,
    rows::{DeliveryRow, WebhookRow},
};
use crate::{
    StoreError,
    batches::micros,
    dialect::{Statements, insert_rows},
    rows::{IdRow, to_the_microsecond},
    values::Value,
};

const INSERT: &str = "INSERT INTO webhooks (id, tenant, batch_id, url, secret, created_at) \
     SELECT $1, $2, $3, $4, $5, $6 WHERE $3 IS NULL OR NOT EXISTS \
         (SELECT 1 FROM webhooks w WHERE w.batch_id = $3)";

const LIST: &str = "SELECT id, tenant, batch_id, url, secret, created_at FROM webhooks \
     WHERE tenant = $1 AND batch_id IS NULL ORDER BY id";

const DELETE: &str = "DELETE FROM webhooks WHERE tenant = $1 AND id = $2";

/// The webhooks that are told about a batch.
const OF_BATCH: &str = "SELECT w.id FROM webhooks w JOIN batches b ON b.tenant = w.tenant \
     WHERE b.id = $1 AND (w.batch_id IS NULL OR w.batch_id = $1)";

const DUE: &str = "SELECT d.id AS delivery_id, d.batch_id AS of_batch, d.event, \
     d.created_at AS happened_at, d.attempts + 1 AS attempts, \
     w.id, w.tenant, w.batch_id, w.url, w.secret, w.created_at \
     FROM webhook_deliveries d JOIN webhooks w ON w.id = d.webhook_id \
     WHERE d.next_at <= $1 ORDER BY d.next_at LIMIT $2";

/// Another process that took the message first has moved its time.
const TAKE: &str = "UPDATE webhook_deliveries SET attempts = attempts + 1, next_at = $3 \
     WHERE id = $1 AND next_at <= $2";

const END: &str = "UPDATE webhook_deliveries SET status = $2, next_at = $3 WHERE id = $1";

pub(super) async fn add(
    connection: &mut impl Statements,
    webhook: &Webhook,
) -> Result<bool, StoreError> {
    let values: [&dyn Value; 6] = [
        &webhook.id,
        &webhook.tenant,
        &webhook.batch_id,
        &webhook.url,
        &webhook.secret.expose_secret(),
        &to_the_microsecond(webhook.created_at),
    ];
    Ok(connection.execute(INSERT, &values).await? == 1)
}

pub(super) async fn list(
    connection: &mut impl Statements,
    tenant: &str,
) -> Result<Vec<Webhook>, StoreError> {
    let rows: Vec<WebhookRow> = connection.fetch_all(LIST, &[&tenant]).await?;
    Ok(rows.into_iter().map(Webhook::from).collect())
}

pub(super) async fn delete(
    connection: &mut impl Statements,
    tenant: &str,
    id: Uuid,
) -> Result<bool, StoreError> {
    Ok(connection.execute(DELETE, &[&tenant, &id]).await? == 1)
}

/// Inserts a message to each webhook that is told about a batch. Run it in the transaction that ends the batch.
pub(crate) async fn insert_deliveries(
    connection: &mut impl Statements,
    batch: Uuid,
    event: WebhookEvent,
    now: OffsetDateTime,
) -> Result<(), StoreError> {
    let webhooks: Vec<IdRow> = connection.fetch_all(OF_BATCH, &[&batch]).await?;
    let (name, now) = (event.name(), micros(now));
    let ids: Vec<Uuid> = webhooks
        .iter()
        .map(|webhook| message_id(webhook.id, batch, now))
        .collect();
    let rows: Vec<[&dyn Value; 8]> = webhooks
        .iter()
        .zip(&ids)
        .map(|(webhook, id)| -> [&dyn Value; 8] {
            [
                id,
                &webhook.id,
                &batch,
                &name,
                &now,
                &0_i32,
                &now,
                &"pending",
            ]
        })
        .collect();
    let into = "webhook_deliveries \
         (id, webhook_id, batch_id, event, created_at, attempts, next_at, status)";
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

pub(super) async fn take(
    connection: &mut impl Statements,
    (now, again_at): (OffsetDateTime, OffsetDateTime),
    limit: u32,
) -> Result<Vec<DueDelivery>, StoreError> {
    let (now, again_at) = (micros(now), micros(again_at));
    let due: Vec<DeliveryRow> = connection
        .fetch_all(DUE, &[&now, &i64::from(limit)])
        .await?;
    let mut taken = Vec::with_capacity(due.len());
    for row in due {
        let delivery = DueDelivery::try_from(row)?;
        let values: [&dyn Value; 3] = [&delivery.id, &now, &again_at];
        if connection.execute(TAKE, &values).await? == 1 {
            taken.push(delivery);
        }
    }
    Ok(taken)
}

pub(super) async fn end(
    connection: &mut impl Statements,
    id: Uuid,
    end: DeliveryEnd,
) -> Result<(), StoreError> {
    let (status, next_at) = match end {
        DeliveryEnd::Delivered => ("delivered", None),
        DeliveryEnd::Retry(at) => ("pending", Some(micros(at))),
        DeliveryEnd::Failed => ("failed", None),
    };
    connection.execute(END, &[&id, &status, &next_at]).await?;
    Ok(())
}
