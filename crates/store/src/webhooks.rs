//! Webhooks: addresses that are told when a batch ends, and the messages to them.

mod deliveries;
mod hosts;
mod manage;
mod records;
mod rows;

use async_trait::async_trait;
use time::OffsetDateTime;
use uuid::Uuid;

use super::{NewAuditEntry, StoreError};
use crate::{
    call::{change, query},
    dialect::Dialect,
    sql_store::SqlStore,
};

pub(super) use deliveries::insert_deliveries;
pub(super) use manage::{add_to_batch, lock_for_batch};
pub use records::{
    AttemptEnd, AttemptFailure, AttemptResult, BatchWebhook, DueDelivery, HostFailure, OldSecret,
    SecretRotation, TakeDeliveries, TakenDeliveries, Webhook, WebhookEvent, WebhookHealth,
    WebhookHost,
};

/// The webhooks of one database.
///
/// A call that takes an audit entry writes it in the transaction of its change, and only if there is a change.
///
/// # Errors
///
/// As for [`Store`](super::Store).
#[async_trait]
pub trait WebhookStore: Send + Sync {
    /// Adds a webhook for every batch of a tenant. Returns false, and writes nothing, if the tenant has `limit` of them.
    async fn create_webhook(
        &self,
        webhook: &Webhook,
        limit: u32,
        audit: Option<NewAuditEntry>,
    ) -> Result<bool, StoreError>;

    /// Returns the tenant's webhooks for every batch, oldest first.
    async fn list_webhooks(&self, tenant: &str) -> Result<Vec<Webhook>, StoreError>;

    /// Returns the hosts that did not take the last message of a webhook of one batch, those first that failed last.
    async fn list_webhook_hosts(
        &self,
        tenant: &str,
        limit: u32,
    ) -> Result<Vec<WebhookHost>, StoreError>;

    /// Deletes a webhook with its messages. Returns false if the tenant has no such webhook.
    async fn delete_webhook(
        &self,
        key: (&str, Uuid),
        audit: Option<NewAuditEntry>,
    ) -> Result<bool, StoreError>;

    /// Switches a webhook on, with its host, and sends the messages that wait for this. Returns `None` if the tenant has no such webhook.
    async fn enable_webhook(
        &self,
        key: (&str, Uuid),
        now: OffsetDateTime,
        audit: Option<NewAuditEntry>,
    ) -> Result<Option<Webhook>, StoreError>;

    /// Replaces the secret of a webhook. Returns `None` if the tenant has no such webhook.
    async fn rotate_webhook_secret(
        &self,
        key: (&str, Uuid),
        rotation: &SecretRotation,
        audit: Option<NewAuditEntry>,
    ) -> Result<Option<Webhook>, StoreError>;

    /// Returns tenants with messages that are due, in the order of their names, from the first one behind `after`.
    async fn tenants_with_deliveries(
        &self,
        now: OffsetDateTime,
        after: &str,
        limit: u32,
    ) -> Result<Vec<String>, StoreError>;

    /// Takes messages of a tenant that are due, those first that are due the longest, and counts an attempt of each.
    async fn take_deliveries(
        &self,
        tenant: &str,
        request: TakeDeliveries,
    ) -> Result<TakenDeliveries, StoreError>;

    /// Ends an attempt. Returns whether this switched the webhook or its host off. Writes nothing if another attempt of the message has
    /// begun.
    async fn end_attempt(&self, end: &AttemptEnd) -> Result<bool, StoreError>;
}

#[async_trait]
impl<DB: Dialect> WebhookStore for SqlStore<DB> {
    async fn create_webhook(
        &self,
        webhook: &Webhook,
        limit: u32,
        audit: Option<NewAuditEntry>,
    ) -> Result<bool, StoreError> {
        change!(self, "create_webhook", |connection| manage::create(
            connection, webhook, limit, audit
        ))
    }

    async fn list_webhooks(&self, tenant: &str) -> Result<Vec<Webhook>, StoreError> {
        query!(self, "list_webhooks", |connection| manage::list(
            connection, tenant
        ))
    }

    async fn list_webhook_hosts(
        &self,
        tenant: &str,
        limit: u32,
    ) -> Result<Vec<WebhookHost>, StoreError> {
        query!(self, "list_webhook_hosts", |connection| hosts::list(
            connection, tenant, limit
        ))
    }

    async fn delete_webhook(
        &self,
        key: (&str, Uuid),
        audit: Option<NewAuditEntry>,
    ) -> Result<bool, StoreError> {
        change!(self, "delete_webhook", |connection| manage::delete(
            connection, key, audit
        ))
    }

    async fn enable_webhook(
        &self,
        key: (&str, Uuid),
        now: OffsetDateTime,
        audit: Option<NewAuditEntry>,
    ) -> Result<Option<Webhook>, StoreError> {
        change!(self, "enable_webhook", |connection| manage::enable(
            connection, key, now, audit
        ))
    }

    async fn rotate_webhook_secret(
        &self,
        key: (&str, Uuid),
        rotation: &SecretRotation,
        audit: Option<NewAuditEntry>,
    ) -> Result<Option<Webhook>, StoreError> {
        change!(self, "rotate_webhook_secret", |connection| manage::rotate(
            connection, key, rotation, audit
        ))
    }

    async fn tenants_with_deliveries(
        &self,
        now: OffsetDateTime,
        after: &str,
        limit: u32,
    ) -> Result<Vec<String>, StoreError> {
        query!(self, "tenants_with_deliveries", |connection| {
            deliveries::tenants(connection, now, after, limit)
        })
    }

    async fn take_deliveries(
        &self,
        tenant: &str,
        request: TakeDeliveries,
    ) -> Result<TakenDeliveries, StoreError> {
        change!(self, "take_deliveries", |connection| deliveries::take(
            connection, tenant, request
        ))
    }

    async fn end_attempt(&self, end: &AttemptEnd) -> Result<bool, StoreError> {
        change!(self, "end_attempt", |connection| deliveries::end(
            connection, end
        ))
    }
}
