//! Webhooks: addresses that are told when a batch ends, and the messages to them.

mod rows;
mod statements;

use async_trait::async_trait;
use secrecy::SecretString;
use time::OffsetDateTime;
use uuid::Uuid;

use super::StoreError;
use crate::{
    call::{change, query},
    dialect::Dialect,
    sql_store::SqlStore,
};

pub(super) use statements::insert_deliveries;

/// A webhook.
#[derive(Clone, Debug)]
pub struct Webhook {
    /// The id.
    pub id: Uuid,
    /// The tenant that owns it.
    pub tenant: String,
    /// The only batch that it is told about. `None` means every batch of the tenant.
    pub batch_id: Option<Uuid>,
    /// The address.
    pub url: String,
    /// The secret that signs the messages.
    pub secret: SecretString,
    /// When it was created.
    pub created_at: OffsetDateTime,
}

/// The event of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WebhookEvent {
    /// All items of a batch are finished.
    BatchDone,
    /// A batch was cancelled.
    BatchCancelled,
}

impl WebhookEvent {
    /// Every event.
    pub const ALL: [Self; 2] = [Self::BatchDone, Self::BatchCancelled];

    /// Returns the name in messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::BatchDone => "batch.done",
            Self::BatchCancelled => "batch.cancelled",
        }
    }
}

/// A message that is due.
#[derive(Clone, Debug)]
pub struct DueDelivery {
    /// The id of the message. It is the same for each attempt.
    pub id: Uuid,
    /// The webhook.
    pub webhook: Webhook,
    /// The batch.
    pub batch_id: Uuid,
    /// The event.
    pub event: WebhookEvent,
    /// When the event happened.
    pub created_at: OffsetDateTime,
    /// The number of attempts so far, with the one that begins now.
    pub attempts: u32,
}

/// What happens to a message after an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryEnd {
    /// It was delivered.
    Delivered,
    /// It is tried again at this time.
    Retry(OffsetDateTime),
    /// It is not tried again.
    Failed,
}

/// The webhooks of one database.
///
/// # Errors
///
/// As for [`Store`](super::Store).
#[async_trait]
pub trait WebhookStore: Send + Sync {
    /// Adds a webhook. Returns false, and writes nothing, if it is for a batch that already has one.
    async fn add_webhook(&self, webhook: &Webhook) -> Result<bool, StoreError>;

    /// Returns the tenant's webhooks for every batch, oldest first.
    async fn list_webhooks(&self, tenant: &str) -> Result<Vec<Webhook>, StoreError>;

    /// Deletes a webhook with its messages. Returns false if the tenant has no such webhook.
    async fn delete_webhook(&self, tenant: &str, id: Uuid) -> Result<bool, StoreError>;

    /// Takes messages that are due, and counts an attempt of each. Another call takes them again at `again_at`, if their
    /// attempt has not ended by then.
    async fn take_deliveries(
        &self,
        now: OffsetDateTime,
        again_at: OffsetDateTime,
        limit: u32,
    ) -> Result<Vec<DueDelivery>, StoreError>;

    /// Ends an attempt of a message.
    async fn end_delivery(&self, id: Uuid, end: DeliveryEnd) -> Result<(), StoreError>;
}

#[async_trait]
impl<DB: Dialect> WebhookStore for SqlStore<DB> {
    async fn add_webhook(&self, webhook: &Webhook) -> Result<bool, StoreError> {
        change!(self, "add_webhook", |connection| statements::add(
            connection, webhook
        ))
    }

    async fn list_webhooks(&self, tenant: &str) -> Result<Vec<Webhook>, StoreError> {
        query!(self, "list_webhooks", |connection| statements::list(
            connection, tenant
        ))
    }

    async fn delete_webhook(&self, tenant: &str, id: Uuid) -> Result<bool, StoreError> {
        change!(self, "delete_webhook", |connection| statements::delete(
            connection, tenant, id
        ))
    }

    async fn take_deliveries(
        &self,
        now: OffsetDateTime,
        again_at: OffsetDateTime,
        limit: u32,
    ) -> Result<Vec<DueDelivery>, StoreError> {
        change!(self, "take_deliveries", |connection| statements::take(
            connection,
            (now, again_at),
            limit
        ))
    }

    async fn end_delivery(&self, id: Uuid, end: DeliveryEnd) -> Result<(), StoreError> {
        change!(self, "end_delivery", |connection| statements::end(
            connection, id, end
        ))
    }
}
