//! The body and the headers of a message.

use bytes::Bytes;
use facescan_store::{Batch, DueDelivery, Webhook};
use facescan_telemetry::traces::TRACEPARENT;
use http::{HeaderMap, HeaderName, HeaderValue, header::CONTENT_TYPE};
use serde_json::json;
use time::OffsetDateTime;

use super::signature::Signer;
use crate::response::BatchResponse;

/// The headers of Standard Webhooks.
const ID: HeaderName = HeaderName::from_static("webhook-id");
const TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
const SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");

/// A message as it is sent.
pub(super) struct Message {
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Message {
    /// Writes and signs a message about a batch. Returns `None` if the stored secret is damaged.
    pub(super) fn new(delivery: &DueDelivery, batch: Batch, now: OffsetDateTime) -> Option<Self> {
        let traceparent = batch.traceparent.clone();
        let message = json!({
            "type": delivery.event.name(),
            "timestamp": facescan_clock::rfc3339::text(delivery.created_at),
            "data": BatchResponse::new(batch, now),
        });
        let body = Bytes::from(message.to_string());
        let id = delivery.id.to_string();
        let timestamp = now.unix_timestamp().to_string();
        let signature = signatures(&delivery.webhook, now, |signer| {
            signer.sign(&id, &timestamp, &body)
        })?;
        let values = [(ID, id), (TIMESTAMP, timestamp), (SIGNATURE, signature)];
        let mut headers = HeaderMap::new();
        for (name, value) in values {
            headers.insert(name, HeaderValue::from_str(&value).ok()?);
        }
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        // The receiver continues the trace of the submission.
        if let Some(value) = traceparent.and_then(|parent| HeaderValue::try_from(parent).ok()) {
            headers.insert(TRACEPARENT, value);
        }
        Some(Self { headers, body })
    }
}

/// Signs with the secret, and with the old one while it is valid. Receivers accept a message if they know one of the signatures.
fn signatures(
    webhook: &Webhook,
    now: OffsetDateTime,
    sign: impl Fn(Signer) -> String,
) -> Option<String> {
    let newest = sign(Signer::new(&webhook.secret)?);
    let old = webhook.old_secret.as_ref().filter(|old| now < old.until);
    match old.and_then(|old| Signer::new(&old.secret)) {
        Some(old) => Some(format!("{newest} {}", sign(old))),
        None => Some(newest),
    }
}
