//! Adding, changing and deleting webhooks.

use secrecy::ExposeSecret;
use time::OffsetDateTime;
use uuid::Uuid;

use super::hosts;
use super::records::{BatchWebhook, SecretRotation, Webhook};
use super::rows::webhook_columns;
use crate::audit::{NewAuditEntry, append};
use crate::call::{change, query};
use crate::connection::Connection;
use crate::error::StoreError;
use crate::parameters::params;
use crate::store::Store;
use crate::times::{micros, to_the_microsecond};

crate::prepared::statements! {
    const INSERT = "INSERT INTO webhooks (id, tenant, batch_id, url, secret, created_at, host) \
         VALUES (:id, :tenant, :batch_id, :url, :secret, :created_at, :host)";

    /// Locks the tenant until the transaction ends, so that its webhooks are counted one after another.
    const LOCK_TENANT = "INSERT INTO webhook_tenants (tenant) VALUES (:tenant) \
         ON CONFLICT (tenant) DO UPDATE SET tenant = excluded.tenant";

    const COUNT =
        "SELECT count(*) AS count FROM webhooks WHERE tenant = :tenant AND batch_id IS NULL", scans "the webhooks of all batches, of which a tenant has few";

    /// The webhooks of one batch whose batch has not ended, and those whose message is not sent or given up.
    const COUNT_PENDING = "SELECT \
         (SELECT count(*) FROM batches b WHERE b.tenant = :tenant AND b.finished_at IS NULL \
             AND b.cancelled_at IS NULL AND b.deletion IS NULL \
             AND EXISTS (SELECT 1 FROM webhooks w WHERE w.batch_id = b.id)) + \
         (SELECT count(*) FROM webhook_deliveries d JOIN webhooks w ON w.id = d.webhook_id \
             WHERE d.tenant = :tenant AND d.next_at IS NOT NULL AND w.batch_id IS NOT NULL) AS count", scans "the unfinished batches of one tenant, and its messages that wait";

    const LIST = concat!(
        "SELECT ",
        webhook_columns!(),
        " FROM webhooks w WHERE w.tenant = :tenant AND w.batch_id IS NULL ORDER BY w.id"
    ), scans "the webhooks of all batches, of which a tenant has few";

    const ONE = concat!(
        "SELECT ",
        webhook_columns!(),
        " FROM webhooks w WHERE w.tenant = :tenant AND w.id = :id"
    );

    const DELETE = "DELETE FROM webhooks WHERE tenant = :tenant AND id = :id";

    const ENABLE = "UPDATE webhooks SET failures = 0, failing_since = NULL, disabled_at = NULL \
         WHERE tenant = :tenant AND id = :id";

    /// The host of a webhook of one batch is on again.
    const ENABLE_HOST = "DELETE FROM webhook_hosts WHERE tenant = :tenant AND host = \
         (SELECT w.host FROM webhooks w WHERE w.tenant = :tenant AND w.id = :id)";

    /// The messages that wait because the webhook was off.
    const RESUME = "UPDATE webhook_deliveries SET next_at = :now \
         WHERE webhook_id = :id AND status = 'pending' AND next_at IS NULL";

    const ROTATE = "UPDATE webhooks SET old_secret = secret, old_secret_until = :old_until, secret = :secret \
         WHERE tenant = :tenant AND id = :id";
}

async fn add(connection: &mut Connection<'_>, webhook: &Webhook) -> Result<(), StoreError> {
    let values = params!(
        id = webhook.id,
        tenant = webhook.tenant,
        batch_id = webhook.batch_id,
        url = webhook.url,
        secret = webhook.secret.expose_secret(),
        created_at = to_the_microsecond(webhook.created_at),
        host = webhook.host
    );
    connection.execute(INSERT, values).await?;
    Ok(())
}

/// Locks the tenant until the transaction ends, and returns whether it may have one more webhook of one batch.
pub(crate) async fn lock_for_batch(
    connection: &mut Connection<'_>,
    own: &BatchWebhook,
) -> Result<bool, StoreError> {
    let tenant = params!(tenant = own.webhook.tenant);
    connection.execute(LOCK_TENANT, tenant).await?;
    let count: i64 = connection.fetch_one(COUNT_PENDING, tenant).await?;
    Ok(count < i64::from(own.limit))
}

/// Adds the webhook of a new batch. Run it in the transaction that creates the batch, after [`lock_for_batch`].
pub(crate) async fn add_to_batch(
    connection: &mut Connection<'_>,
    own: &BatchWebhook,
) -> Result<(), StoreError> {
    let webhook = &own.webhook;
    hosts::forget(connection, &webhook.tenant, webhook.created_at).await?;
    add(connection, webhook).await?;
    append(connection, own.audit.as_slice()).await
}

impl Store {
    /// Adds a webhook for every batch of a tenant. Returns false, and writes nothing, if the tenant has `limit` of them.
    pub async fn create_webhook(
        &self,
        webhook: &Webhook,
        limit: u32,
        audit: Option<NewAuditEntry>,
    ) -> Result<bool, StoreError> {
        change!(self, "create_webhook", |connection| {
            let tenant = params!(tenant = webhook.tenant);
            connection.execute(LOCK_TENANT, tenant).await?;
            let count: i64 = connection.fetch_one(COUNT, tenant).await?;
            if count >= i64::from(limit) {
                return Ok(false);
            }
            add(connection, webhook).await?;
            append(connection, audit.as_slice()).await?;
            Ok(true)
        })
    }

    /// Returns the tenant's webhooks for every batch, oldest first.
    pub async fn list_webhooks(&self, tenant: &str) -> Result<Vec<Webhook>, StoreError> {
        query!(self, "list_webhooks", |connection| {
            Ok(connection.fetch_all(LIST, params!(tenant)).await?)
        })
    }

    /// Deletes a webhook with its messages. Returns false if the tenant has no such webhook.
    pub async fn delete_webhook(
        &self,
        tenant: &str,
        id: Uuid,
        audit: Option<NewAuditEntry>,
    ) -> Result<bool, StoreError> {
        change!(self, "delete_webhook", |connection| {
            let is_deleted = connection.execute(DELETE, params!(tenant, id)).await? == 1;
            if is_deleted {
                append(connection, audit.as_slice()).await?;
            }
            Ok(is_deleted)
        })
    }

    /// Switches a webhook on, with its host, and sends the messages that wait for this. Returns `None` if the tenant has no such webhook.
    pub async fn enable_webhook(
        &self,
        tenant: &str,
        id: Uuid,
        now: OffsetDateTime,
        audit: Option<NewAuditEntry>,
    ) -> Result<Option<Webhook>, StoreError> {
        change!(self, "enable_webhook", |connection| {
            if connection.execute(ENABLE, params!(tenant, id)).await? == 1 {
                connection.execute(ENABLE_HOST, params!(tenant, id)).await?;
                connection
                    .execute(RESUME, params!(id, now = micros(now)))
                    .await?;
                append(connection, audit.as_slice()).await?;
            }
            Ok(connection.fetch_optional(ONE, params!(tenant, id)).await?)
        })
    }

    /// Replaces the secret of a webhook. Returns `None` if the tenant has no such webhook.
    pub async fn rotate_webhook_secret(
        &self,
        tenant: &str,
        id: Uuid,
        rotation: &SecretRotation,
        audit: Option<NewAuditEntry>,
    ) -> Result<Option<Webhook>, StoreError> {
        change!(self, "rotate_webhook_secret", |connection| {
            let values = params!(
                tenant,
                id,
                old_until = micros(rotation.old_until),
                secret = rotation.secret.expose_secret()
            );
            if connection.execute(ROTATE, values).await? == 1 {
                append(connection, audit.as_slice()).await?;
            }
            Ok(connection.fetch_optional(ONE, params!(tenant, id)).await?)
        })
    }
}
