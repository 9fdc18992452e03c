//! Webhooks: messages to other servers when a batch ends, signed as in Standard Webhooks.
//!
//! The transaction that ends a batch inserts the messages, so none is lost and none is sent for a batch that did not end.
//! A message is sent at least once. Its id is the same for each attempt.

mod signature;

use std::time::Duration;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use bytes::Bytes;
use facescan_store::{DeliveryEnd, DueDelivery, Webhook};
use http::{HeaderMap, HeaderName, HeaderValue, header::CONTENT_TYPE};
use secrecy::{ExposeSecret, SecretString};
use serde_json::json;
use time::{OffsetDateTime, format_description::well_known::Rfc3339};
use tokio_util::sync::CancellationToken;
use url::Url;
use uuid::Uuid;

use self::signature::Signer;
use super::{Batches, answer::BatchAnswer, error::BatchError};
use crate::{
    pipeline::error::{InvalidOption, PipelineError},
    telemetry::{
        metrics::labels::{Delivery, Sweep},
        traces::TRACEPARENT,
    },
};

/// The headers of Standard Webhooks.
const ID: HeaderName = HeaderName::from_static("webhook-id");
const TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
const SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");

/// How long a message is tried.
const TRIED_FOR: Duration = Duration::from_secs(24 * 3600);

/// The wait before the second attempt. Each further wait is four times as long, up to [`MAX_WAIT`].
const FIRST_WAIT: Duration = Duration::from_secs(5);

/// The longest wait between two attempts.
const MAX_WAIT: Duration = Duration::from_secs(2 * 3600);

/// Another process takes a message again if its attempt has not ended by then.
const ATTEMPT_LEASE: Duration = Duration::from_secs(60);

/// The number of messages that one call takes.
const MESSAGES_PER_CALL: u32 = 16;

/// The time between two looks for messages.
const PERIOD: Duration = Duration::from_secs(1);

/// The maximum length of an address, in bytes.
const MAX_URL_BYTES: usize = 2048;

impl Batches {
    /// Checks the address and the secret of a webhook, and makes a secret if there is none. Nothing is written.
    ///
    /// # Errors
    /// Returns an invalid option if the address is not allowed or the secret has another format.
    pub fn new_webhook(
        &self,
        tenant: &str,
        batch_id: Option<Uuid>,
        (url, secret): (&str, Option<&str>),
    ) -> Result<Webhook, BatchError> {
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
            url: url.into(),
            secret,
            created_at: self.clock().now(),
        })
    }

    fn checked_url(&self, text: &str) -> Result<Url, InvalidOption> {
        let wrong = |detail: String| InvalidOption::new("url", detail);
        let url = Url::parse(text)
            .ok()
            .filter(|_| text.len() <= MAX_URL_BYTES)
            .ok_or_else(|| wrong(format!("must be a URL of at most {MAX_URL_BYTES} bytes")))?;
        self.sender
            .check(&url)
            .map_err(|refused| wrong(refused.to_string()))?;
        Ok(url)
    }

    /// Sends messages that are due until `stop` is cancelled.
    pub async fn deliver_until(&self, stop: CancellationToken) {
        while !stop.is_cancelled() {
            match self.deliver().await {
                Ok(0) => {}
                Ok(_) => continue,
                Err(error) => {
                    tracing::warn!(%error, "the messages of webhooks cannot be read now");
                    self.metrics().sweep_failed(Sweep::Webhooks);
                }
            }
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(PERIOD) => {}
            }
        }
    }

    /// Sends the messages that are due. Returns their number.
    ///
    /// # Errors
    /// Returns an error of the database. A message that cannot be delivered is tried again later.
    pub async fn deliver(&self) -> Result<usize, BatchError> {
        let now = self.clock().now();
        let due = self
            .webhooks
            .take_deliveries(now, now + ATTEMPT_LEASE, MESSAGES_PER_CALL)
            .await?;
        let count = due.len();
        let mut attempts = tokio::task::JoinSet::new();
        for delivery in due {
            let batches = self.clone();
            attempts.spawn(async move { batches.attempt(&delivery).await });
        }
        while let Some(ended) = attempts.join_next().await {
            match ended {
                Ok(result) => result?,
                Err(error) => tracing::error!(%error, "a message of a webhook ended early"),
            }
        }
        Ok(count)
    }

    async fn attempt(&self, delivery: &DueDelivery) -> Result<(), BatchError> {
        let sent = self.send(delivery).await?;
        let end = match sent {
            Ok(()) => DeliveryEnd::Delivered,
            Err(reason) => {
                let end = self.after_failure(delivery);
                tracing::warn!(
                    webhook = %delivery.webhook.id,
                    batch = %delivery.batch_id,
                    attempt = delivery.attempts,
                    reason,
                    will_retry = matches!(end, DeliveryEnd::Retry(_)),
                    "a webhook was not delivered"
                );
                end
            }
        };
        self.metrics().webhook_message(match end {
            DeliveryEnd::Delivered => Delivery::Delivered,
            DeliveryEnd::Retry(_) => Delivery::Retry,
            DeliveryEnd::Failed => Delivery::Failed,
        });
        Ok(self.webhooks.end_delivery(delivery.id, end).await?)
    }

    /// Sends a message. The inner error is the reason why it was not delivered.
    async fn send(&self, delivery: &DueDelivery) -> Result<Result<(), String>, BatchError> {
        let tenant = &delivery.webhook.tenant;
        let Some(batch) = self.store.batch(tenant, delivery.batch_id).await? else {
            return Ok(Err("the batch was deleted".to_owned()));
        };
        let now = self.clock().now();
        let traceparent = batch.traceparent.clone();
        let message = json!({
            "type": delivery.event.name(),
            "timestamp": delivery.created_at.format(&Rfc3339).unwrap_or_default(),
            "data": BatchAnswer::new(batch, now),
        });
        let body = Bytes::from(message.to_string());
        let Ok(url) = Url::parse(&delivery.webhook.url) else {
            return Ok(Err("the stored address is not a URL".to_owned()));
        };
        let Some(mut headers) = headers(delivery, now, &body) else {
            return Ok(Err("the message cannot be signed".to_owned()));
        };
        // The receiver continues the trace of the submission.
        if let Some(traceparent) = &traceparent
            && let Ok(value) = HeaderValue::from_str(traceparent)
        {
            headers.insert(TRACEPARENT, value);
        }
        let posted = self.sender.post(&url, headers, body).await;
        Ok(posted.map_err(|error| error.to_string()))
    }

    fn after_failure(&self, delivery: &DueDelivery) -> DeliveryEnd {
        let now = self.clock().now();
        let waits = delivery.attempts.saturating_sub(1).min(16);
        let wait = FIRST_WAIT
            .saturating_mul(4_u32.saturating_pow(waits))
            .min(MAX_WAIT);
        match now + wait < delivery.created_at + TRIED_FOR {
            true => DeliveryEnd::Retry(now + wait),
            false => DeliveryEnd::Failed,
        }
    }
}

/// Returns the headers of a message. Returns `None` if the stored secret is damaged.
fn headers(delivery: &DueDelivery, now: OffsetDateTime, body: &[u8]) -> Option<HeaderMap> {
    let id = delivery.id.to_string();
    let timestamp = now.unix_timestamp().to_string();
    let signer = Signer::new(&delivery.webhook.secret)?;
    let signature = signer.sign(&id, &timestamp, body);
    let values = [(ID, id), (TIMESTAMP, timestamp), (SIGNATURE, signature)];
    let mut headers = HeaderMap::new();
    for (name, value) in values {
        headers.insert(name, HeaderValue::from_str(&value).ok()?);
    }
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Some(headers)
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
