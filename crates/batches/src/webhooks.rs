//! Webhooks: messages to other servers when a batch ends, signed as in Standard Webhooks.
//!
//! The transaction that ends a batch inserts the messages, so none is lost and none is sent for a batch that did not end.
//! [`deliveries`] sends them. A message is sent at least once. Its id is the same for each attempt.

mod attempt;
pub mod deliveries;
mod message;
mod signature;

use std::{borrow::Cow, time::Duration};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use facescan_audit::AuditEvent;
use facescan_pipeline::{
    context::RequestContext,
    core::error::{InvalidOption, PipelineError},
    ingest::{error::IngestError, fetch::FetchError},
};
use facescan_store::{BatchWebhook, SecretRotation, Webhook, WebhookHealth};
use secrecy::{ExposeSecret, SecretString};
use serde_json::json;
use url::Url;
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{
        ObjectBuilder, RefOr,
        schema::{Schema, Type},
    },
};
use uuid::Uuid;

use self::signature::Signer;
use super::{Batches, error::BatchError};

/// How long the old secret signs messages, too, after a rotation.
const OLD_SECRET_SIGNS_FOR: Duration = Duration::from_secs(24 * 3600);

/// The maximum length of an address, in bytes.
const MAX_URL_BYTES: usize = 2048;

/// The schema of the address of a webhook.
pub struct WebhookUrl;

impl PartialSchema for WebhookUrl {
    fn schema() -> RefOr<Schema> {
        let byte = "(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])";
        let label = "[a-z0-9]+(-[a-z0-9]+)*";
        // The last label of a name does not begin with a digit, as an address does.
        let host = format!(r"(({label}\.)*[a-z][a-z0-9]*(-[a-z0-9]+)*|({byte}\.){{3}}{byte})");
        ObjectBuilder::new()
            .schema_type(Type::String)
            .max_length(Some(MAX_URL_BYTES))
            .pattern(Some(format!(
                "^https?://{host}(:[1-9][0-9]{{0,3}})?([/?][!-~]*)?$"
            )))
            .into()
    }
}

impl ToSchema for WebhookUrl {
    fn name() -> Cow<'static, str> {
        Cow::Borrowed("WebhookUrl")
    }
}

impl Batches {
    /// Checks the address and the secret of a webhook, and makes a secret if there is none. Nothing is written.
    ///
    /// # Errors
    /// Returns an invalid option if webhooks are off, the address is not allowed, or the secret has another format.
    pub fn new_webhook(
        &self,
        tenant: &str,
        batch_id: Option<Uuid>,
        (url, secret): (&str, Option<&str>),
    ) -> Result<Webhook, BatchError> {
        if !self.config.webhooks.enabled {
            let detail = "webhooks are off on this server; set `webhooks.enabled` in its settings, or ask for \
                          the state of the batch";
            return Err(InvalidOption::new("url", detail).into());
        }
        let url = self.checked_url(url)?;
        let secret: SecretString = match secret {
            Some(secret) => secret.into(),
            None => new_secret()?.into(),
        };
        Signer::new(&secret).ok_or_else(|| {
            InvalidOption::new(
                "secret",
                "must be `whsec_` and the base64 of 24 to 64 bytes; leave it out to get one",
            )
        })?;
        Ok(Webhook {
            id: self.clock().new_id(),
            tenant: tenant.to_owned(),
            batch_id,
            host: batch_id.and_then(|_| host_and_port(&url)),
            url: url.into(),
            secret,
            created_at: self.clock().now(),
            old_secret: None,
            health: WebhookHealth::default(),
        })
    }

    fn checked_url(&self, text: &str) -> Result<Url, PipelineError> {
        let url = Url::parse(text)
            .ok()
            .filter(|_| text.len() <= MAX_URL_BYTES);
        let url = url.ok_or_else(|| {
            let detail = format!("must be a URL of at most {MAX_URL_BYTES} bytes");
            InvalidOption::new("url", detail)
        })?;
        let checked = self.sender.check(&url);
        checked.map_err(|refused| IngestError::from(FetchError::Refused(refused)))?;
        Ok(url)
    }

    /// Creates a webhook that is told about the end of every batch of the caller's tenant.
    ///
    /// # Errors
    /// The errors of [`new_webhook`](Self::new_webhook), [`BatchError::TooManyWebhooks`], or an error of the database.
    pub async fn create_webhook(
        &self,
        context: &RequestContext,
        content: (&str, Option<&str>),
    ) -> Result<Webhook, BatchError> {
        let webhook = self.new_webhook(&context.principal.tenant, None, content)?;
        let limit = self.config.webhooks.max_per_tenant;
        let entry = self.webhook_entry(context, "create_webhook", webhook.id);
        match self.store.create_webhook(&webhook, limit, entry).await? {
            true => Ok(webhook),
            false => Err(BatchError::TooManyWebhooks { limit }),
        }
    }

    /// Makes the webhook that a new batch brings with it. Nothing is written.
    ///
    /// # Errors
    /// The errors of [`new_webhook`](Self::new_webhook).
    pub(super) fn webhook_of_batch(
        &self,
        context: &RequestContext,
        batch: Uuid,
        (url, secret): &(String, Option<String>),
    ) -> Result<BatchWebhook, BatchError> {
        let content = (url.as_str(), secret.as_deref());
        let webhook = self.new_webhook(&context.principal.tenant, Some(batch), content)?;
        let event = AuditEvent::change("create_webhook", webhook.id);
        Ok(BatchWebhook {
            audit: (self.audit).entry(context, event.with(json!({ "batch": batch }))),
            limit: self.config.webhooks.max_pending_per_tenant,
            webhook,
        })
    }

    /// Deletes a webhook with its messages.
    ///
    /// # Errors
    /// Returns [`BatchError::NoWebhook`] if the caller's tenant has no such webhook, or an error of the database.
    pub async fn delete_webhook(
        &self,
        context: &RequestContext,
        id: Uuid,
    ) -> Result<(), BatchError> {
        let tenant = &*context.principal.tenant;
        let entry = self.webhook_entry(context, "delete_webhook", id);
        match self.store.delete_webhook(tenant, id, entry).await? {
            true => Ok(()),
            false => Err(BatchError::NoWebhook(id)),
        }
    }

    /// Switches a webhook on. Messages that wait for this are sent.
    ///
    /// # Errors
    /// The errors of [`delete_webhook`](Self::delete_webhook).
    pub async fn enable_webhook(
        &self,
        context: &RequestContext,
        id: Uuid,
    ) -> Result<Webhook, BatchError> {
        let (tenant, now) = (&*context.principal.tenant, self.clock().now());
        let entry = self.webhook_entry(context, "enable_webhook", id);
        let enabled = self.store.enable_webhook(tenant, id, now, entry).await?;
        enabled.ok_or(BatchError::NoWebhook(id))
    }

    /// Replaces the secret of a webhook. The old one signs messages, too, for a day.
    ///
    /// # Errors
    /// The errors of [`delete_webhook`](Self::delete_webhook).
    pub async fn rotate_webhook_secret(
        &self,
        context: &RequestContext,
        id: Uuid,
    ) -> Result<Webhook, BatchError> {
        let tenant = &*context.principal.tenant;
        let rotation = SecretRotation {
            secret: new_secret()?.into(),
            old_until: self.clock().now() + OLD_SECRET_SIGNS_FOR,
        };
        let entry = self.webhook_entry(context, "rotate_webhook_secret", id);
        let rotated = self
            .store
            .rotate_webhook_secret(tenant, id, &rotation, entry)
            .await?;
        rotated.ok_or(BatchError::NoWebhook(id))
    }

    fn webhook_entry(
        &self,
        context: &RequestContext,
        action: &'static str,
        id: Uuid,
    ) -> Option<facescan_store::NewAuditEntry> {
        self.audit.entry(context, AuditEvent::change(action, id))
    }
}

/// Returns the host and the port of an address.
fn host_and_port(url: &Url) -> Option<String> {
    let host = url.host_str()?;
    let port = url.port_or_known_default()?;
    Some(format!("{host}:{port}"))
}

/// Returns a new secret of 32 random bytes.
fn new_secret() -> Result<String, PipelineError> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)
        .map_err(|error| PipelineError::UnexpectedOutput(format!("no random bytes: {error}")))?;
    Ok(format!("whsec_{}", BASE64_STANDARD.encode(bytes)))
}

/// Returns the secret of a new webhook, which is shown once.
pub fn shown_secret(webhook: &Webhook) -> &str {
    webhook.secret.expose_secret()
}
