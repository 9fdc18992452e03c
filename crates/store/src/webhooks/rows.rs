//! Rows of the tables of webhooks, and their conversion to records.

use time::OffsetDateTime;
use uuid::Uuid;

use super::{DueDelivery, Webhook, WebhookEvent};
use crate::{StoreError, batches::from_micros, record::record};

record! {
    pub(super) struct WebhookRow {
        id: Uuid,
        tenant: String,
        batch_id: Option<Uuid>,
        url: String,
        secret: String,
        created_at: OffsetDateTime,
    }
}

impl From<WebhookRow> for Webhook {
    fn from(row: WebhookRow) -> Self {
        Self {
            id: row.id,
            tenant: row.tenant,
            batch_id: row.batch_id,
            url: row.url,
            secret: row.secret.into(),
            created_at: row.created_at,
        }
    }
}

// A message with its webhook.
record! {
    pub(super) struct DeliveryRow {
        delivery_id: Uuid,
        of_batch: Uuid,
        event: String,
        happened_at: i64,
        attempts: i32,
    } with webhook: WebhookRow
}

impl TryFrom<DeliveryRow> for DueDelivery {
    type Error = StoreError;

    fn try_from(row: DeliveryRow) -> Result<Self, StoreError> {
        let id = row.delivery_id;
        let damaged = |what| StoreError::corrupt(format!("the {what} of message {id}"));
        let event = WebhookEvent::ALL
            .into_iter()
            .find(|event| event.name() == row.event);
        Ok(Self {
            id,
            webhook: row.webhook.into(),
            batch_id: row.of_batch,
            event: event.ok_or_else(|| damaged("event"))?,
            created_at: from_micros(row.happened_at).ok_or_else(|| damaged("time"))?,
            attempts: row.attempts.try_into().map_err(|_| damaged("attempts"))?,
        })
    }
}
