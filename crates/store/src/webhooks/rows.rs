//! How webhooks and messages are read from rows.

use super::records::{DueDelivery, OldSecret, Webhook, WebhookHealth, WebhookHost};
use crate::record::{Columns, Record};

/// The columns of a [`Webhook`], of the table `webhooks` under the name `w`.
macro_rules! webhook_columns {
    () => {
        "w.id, w.tenant, w.batch_id, w.url, w.secret, w.created_at, w.old_secret, w.old_secret_until, \
         w.failures, w.failing_since, w.last_error, w.last_success_at, w.disabled_at, w.host"
    };
}
pub(super) use webhook_columns;

impl Record for WebhookHost {
    fn from_row(row: &impl Columns) -> Result<Self, sqlx::Error> {
        Ok(Self {
            host: row.get("host")?,
            webhook: row.get("webhook_id")?,
            failures: row.number("failures")?,
            failing_since: row.time("failing_since")?,
            last_error: row.get("last_error")?,
            off_until: row.optional_time("off_until")?,
        })
    }
}

impl Record for Webhook {
    fn from_row(row: &impl Columns) -> Result<Self, sqlx::Error> {
        let old_secret: Option<String> = row.get("old_secret")?;
        let old_secret = old_secret.zip(row.optional_time("old_secret_until")?);
        Ok(Self {
            id: row.get("id")?,
            tenant: row.get("tenant")?,
            batch_id: row.get("batch_id")?,
            url: row.get("url")?,
            host: row.get("host")?,
            secret: row.get::<String>("secret")?.into(),
            created_at: row.get("created_at")?,
            old_secret: old_secret.map(|(secret, until)| OldSecret {
                secret: secret.into(),
                until,
            }),
            health: WebhookHealth {
                failures: row.number("failures")?,
                failing_since: row.informal_time("failing_since")?,
                last_error: row.get("last_error")?,
                last_success_at: row.informal_time("last_success_at")?,
                disabled_at: row.optional_time("disabled_at")?,
            },
        })
    }
}

/// A message that may be sent, with the end of the time for which its host is off.
pub(super) struct Candidate {
    pub(super) delivery: DueDelivery,
    pub(super) host_off_until: Option<i64>,
}

impl Record for Candidate {
    fn from_row(row: &impl Columns) -> Result<Self, sqlx::Error> {
        Ok(Self {
            delivery: DueDelivery {
                id: row.get("delivery_id")?,
                webhook: Webhook::from_row(row)?,
                batch_id: row.get("of_batch")?,
                event: row.named("event")?,
                created_at: row.time("happened_at")?,
                attempts: row.number("attempts")?,
            },
            host_off_until: row.get("host_off_until")?,
        })
    }
}
