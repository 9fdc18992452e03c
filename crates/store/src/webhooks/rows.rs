//! Rows of the tables of webhooks, and their conversion to records.

use time::OffsetDateTime;
use uuid::Uuid;

use super::records::{DueDelivery, OldSecret, Webhook, WebhookEvent, WebhookHealth, WebhookHost};
use crate::error::StoreError;
use crate::record::record;
use crate::times::from_micros;

/// The columns of a [`WebhookRow`], of the table `webhooks` under the name `w`.
macro_rules! webhook_columns {
    () => {
        "w.id, w.tenant, w.batch_id, w.url, w.secret, w.created_at, w.old_secret, w.old_secret_until, \
         w.failures, w.failing_since, w.last_error, w.last_success_at, w.disabled_at, w.host"
    };
}
pub(super) use webhook_columns;

record! {
    pub(super) struct WebhookRow {
        id: Uuid,
        tenant: String,
        batch_id: Option<Uuid>,
        url: String,
        secret: String,
        created_at: OffsetDateTime,
        old_secret: Option<String>,
        old_secret_until: Option<i64>,
        failures: i64,
        failing_since: Option<i64>,
        last_error: Option<String>,
        last_success_at: Option<i64>,
        disabled_at: Option<i64>,
        host: Option<String>,
    }
}

record! {
    pub(super) struct HostRow {
        host: String,
        webhook_id: Uuid,
        failures: i64,
        failing_since: i64,
        last_error: String,
        off_until: Option<i64>,
    }
}

impl TryFrom<HostRow> for WebhookHost {
    type Error = StoreError;

    fn try_from(row: HostRow) -> Result<Self, StoreError> {
        let failing_since = from_micros(row.failing_since)
            .ok_or_else(|| StoreError::corrupt("the time of a host of webhooks".to_owned()))?;
        Ok(Self {
            host: row.host,
            webhook: row.webhook_id,
            failures: row.failures.try_into().unwrap_or(0),
            failing_since,
            last_error: row.last_error,
            off_until: row.off_until.and_then(from_micros),
        })
    }
}

impl From<WebhookRow> for Webhook {
    fn from(row: WebhookRow) -> Self {
        let old_secret = row
            .old_secret
            .zip(row.old_secret_until.and_then(from_micros));
        Self {
            id: row.id,
            tenant: row.tenant,
            batch_id: row.batch_id,
            url: row.url,
            host: row.host,
            secret: row.secret.into(),
            created_at: row.created_at,
            old_secret: old_secret.map(|(secret, until)| OldSecret {
                secret: secret.into(),
                until,
            }),
            health: WebhookHealth {
                failures: row.failures.try_into().unwrap_or(0),
                failing_since: row.failing_since.and_then(from_micros),
                last_error: row.last_error,
                last_success_at: row.last_success_at.and_then(from_micros),
                disabled_at: row.disabled_at.and_then(from_micros),
            },
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
        pub(super) host_off_until: Option<i64>,
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
