//! Webhooks and messages, as callers of the store see them.

use secrecy::SecretString;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::audit::NewAuditEntry;
use crate::named::named;
use crate::record::record;

record! {
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
        /// The host and the port of the address, if it is the webhook of one batch.
        pub host: Option<String>,
        /// The secret that signs the messages.
        pub secret: SecretString,
        /// When it was created.
        pub created_at: OffsetDateTime = get("created_at"),
        /// The secret before the last rotation.
        pub old_secret: Option<OldSecret>,
        /// What is known about the address.
        pub health: WebhookHealth,
    }
}

/// The webhook that a new batch brings with it.
#[derive(Clone, Debug)]
pub struct BatchWebhook {
    /// The webhook.
    pub webhook: Webhook,
    /// The batch is not created if the tenant has this many webhooks of one batch whose message is not sent or given up yet.
    pub limit: u32,
    /// Is written with the webhook.
    pub audit: Option<NewAuditEntry>,
}

record! {
    /// A host that did not take the last message of a webhook of one batch.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct WebhookHost {
        /// The host and the port.
        pub host: String,
        /// The webhook whose message failed last.
        pub webhook: Uuid = get("webhook_id"),
        /// The attempts that failed since the last success.
        pub failures: u64,
        /// When the first of them failed.
        pub failing_since: OffsetDateTime,
        /// Why the last of them failed.
        pub last_error: String,
        /// Until when nothing is sent to the host, if it was switched off.
        pub off_until: Option<OffsetDateTime>,
    }
}

/// A secret that another one has replaced.
#[derive(Clone, Debug)]
pub struct OldSecret {
    /// The secret.
    pub secret: SecretString,
    /// Until when it signs messages, too.
    pub until: OffsetDateTime,
}

record! {
    /// How the attempts to send messages to an address went.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct WebhookHealth {
        /// The attempts that failed since the last success.
        pub failures: u64,
        /// When the first of them failed.
        pub failing_since: Option<OffsetDateTime> = informal_time("failing_since"),
        /// Why the last of them failed.
        pub last_error: Option<String>,
        /// When a message was delivered last.
        pub last_success_at: Option<OffsetDateTime> = informal_time("last_success_at"),
        /// When the webhook was switched off because of failures. `None` means that it is on.
        pub disabled_at: Option<OffsetDateTime>,
    }
}

/// A new secret for a webhook.
#[derive(Clone, Debug)]
pub struct SecretRotation {
    /// The new secret.
    pub secret: SecretString,
    /// Until when the old one signs messages, too.
    pub old_until: OffsetDateTime,
}

named! {
    /// The event of a message.
    pub enum WebhookEvent {
        /// All items of a batch are finished.
        BatchDone = "batch.done",
        /// A batch was cancelled.
        BatchCancelled = "batch.cancelled",
    }
}

/// Which messages of a tenant a call takes.
#[derive(Clone, Copy, Debug)]
pub struct TakeDeliveries {
    /// The messages that are due at this time.
    pub now: OffsetDateTime,
    /// When another call takes them again, if their attempt has not ended by then.
    pub again_at: OffsetDateTime,
    /// Their largest number.
    pub limit: u32,
}

/// The messages that a call took.
#[derive(Clone, Debug, Default)]
pub struct TakenDeliveries {
    /// The messages.
    pub deliveries: Vec<DueDelivery>,
    /// Whether more messages of the tenant can be due.
    pub has_more: bool,
}

record! {
    /// A message that is due.
    #[derive(Clone, Debug)]
    pub struct DueDelivery {
        /// The id of the message. It is the same for each attempt.
        pub id: Uuid = get("delivery_id"),
        /// The webhook.
        pub webhook: Webhook,
        /// The batch.
        pub batch_id: Uuid = get("of_batch"),
        /// The event.
        pub event: WebhookEvent,
        /// When the event happened.
        pub created_at: OffsetDateTime = time("happened_at"),
        /// The number of attempts so far, with the one that begins now.
        pub attempts: u32,
    }
}

/// The end of an attempt.
#[derive(Clone, Debug)]
pub struct AttemptEnd {
    /// The message.
    pub delivery: Uuid,
    /// The webhook.
    pub webhook: Uuid,
    /// The number of the attempt. If another attempt has begun, nothing is written.
    pub attempt: u32,
    /// When it ended.
    pub at: OffsetDateTime,
    /// How it ended.
    pub result: AttemptResult,
}

/// How an attempt ended.
#[derive(Clone, Debug)]
pub enum AttemptResult {
    /// The message was delivered.
    Delivered,
    /// There is nothing to send any more. This says nothing about the address.
    Obsolete,
    /// The address did not take the message.
    Failed(Box<AttemptFailure>),
}

/// Why an attempt failed, and what follows.
#[derive(Clone, Debug)]
pub struct AttemptFailure {
    /// The reason.
    pub error: String,
    /// When the message is tried again. `None` means never.
    pub retry_at: Option<OffsetDateTime>,
    /// The webhook is switched off if it fails since this time or longer.
    pub disable_if_failing_since: OffsetDateTime,
    /// Is written if the webhook is switched off.
    pub audit: Option<NewAuditEntry>,
    /// What follows for the host of a webhook of one batch.
    pub host: Option<HostFailure>,
}

/// What follows for a host that did not take a message.
#[derive(Clone, Debug)]
pub struct HostFailure {
    /// The host is switched off if it fails since this time or longer.
    pub disable_if_failing_since: OffsetDateTime,
    /// Until when nothing is sent to it then.
    pub off_until: OffsetDateTime,
    /// Is written if the host is switched off.
    pub audit: Option<NewAuditEntry>,
}
