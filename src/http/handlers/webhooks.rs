//! `/webhooks`: addresses that are told when a batch ends.

use facescan_batches::webhooks::{WebhookUrl, shown_secret};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use utoipa::ToSchema;
use uuid::Uuid;

use facescan_store::{Webhook, WebhookHost};

use crate::http::{
    error::ApiError,
    extract::{api_request::ApiRequest, json_object::JsonObject, stored_request::StoredRequest},
    openapi::failures::{ServiceFailures, StoredFailures, WebhookFailures},
    respond::negotiated::{Created, Negotiated, NoContent},
};

/// The most failing hosts in a list.
const MAX_HOSTS: u32 = 100;

/// A webhook to be created.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WebhookBody {
    /// The address. The settings in section `urls` must allow it.
    #[schema(value_type = WebhookUrl)]
    url: String,
    /// The secret that signs the messages, `whsec_` and the base64 of 24 to 64 bytes. Without it the server makes one.
    #[serde(default)]
    #[schema(pattern = "^whsec_([A-Za-z0-9+/]{4}){8,21}$")]
    secret: Option<String>,
}

/// A webhook.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Webhook)]
pub struct WebhookResponse {
    /// The id.
    id: Uuid,
    /// The address.
    url: String,
    /// The secret. Only the responses that create the webhook or rotate its secret have it.
    #[serde(skip_serializing_if = "Option::is_none")]
    secret: Option<String>,
    /// The time when it was created.
    #[serde(with = "facescan_clock::rfc3339")]
    created_at: OffsetDateTime,
    /// `disabled` if the address failed for a day or answered 410. Nothing is sent to it until it is enabled.
    state: WebhookState,
    /// The attempts that failed since a message was delivered.
    consecutive_failures: u64,
    /// Why the last of them failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    last_error: Option<String>,
    /// The time of the first of them.
    #[serde(
        with = "facescan_clock::rfc3339::option",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(nullable = false)]
    failing_since: Option<OffsetDateTime>,
    /// The time when a message was delivered last.
    #[serde(
        with = "facescan_clock::rfc3339::option",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(nullable = false)]
    last_success_at: Option<OffsetDateTime>,
    /// The time when it was switched off.
    #[serde(
        with = "facescan_clock::rfc3339::option",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(nullable = false)]
    disabled_at: Option<OffsetDateTime>,
}

/// Whether messages are sent to a webhook.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum WebhookState {
    /// Messages are sent.
    Enabled,
    /// No messages are sent, because the address kept failing.
    Disabled,
}

/// The webhooks of the tenant.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Webhooks)]
pub struct WebhooksResponse {
    /// The webhooks, oldest first.
    results: Vec<WebhookResponse>,
    /// The hosts that did not take the last message of a webhook of one batch: at most 100, those first that failed last.
    failing_hosts: Vec<FailingHostResponse>,
}

/// A host that did not take the last message of a webhook of one batch.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = FailingHost)]
pub struct FailingHostResponse {
    /// The host and the port.
    host: String,
    /// `disabled` if the host failed for a day. Until `disabled_until`, nothing is sent to webhooks of one batch there.
    state: WebhookState,
    /// The webhook whose message failed last. Enabling it enables the host.
    webhook_id: Uuid,
    /// The attempts that failed since a message was delivered.
    consecutive_failures: u64,
    /// Why the last of them failed.
    last_error: String,
    /// The time of the first of them.
    #[serde(with = "facescan_clock::rfc3339")]
    failing_since: OffsetDateTime,
    /// The time from which messages are sent again.
    #[serde(
        with = "facescan_clock::rfc3339::option",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(nullable = false)]
    disabled_until: Option<OffsetDateTime>,
}

impl FailingHostResponse {
    fn new(failing: WebhookHost, now: OffsetDateTime) -> Self {
        let disabled_until = failing.off_until.filter(|until| *until > now);
        Self {
            host: failing.host,
            state: match disabled_until {
                None => WebhookState::Enabled,
                Some(_) => WebhookState::Disabled,
            },
            webhook_id: failing.webhook,
            consecutive_failures: failing.failures,
            last_error: failing.last_error,
            failing_since: failing.failing_since,
            disabled_until,
        }
    }
}

impl From<Webhook> for WebhookResponse {
    fn from(webhook: Webhook) -> Self {
        let health = webhook.health;
        Self {
            id: webhook.id,
            url: webhook.url,
            secret: None,
            created_at: webhook.created_at,
            state: match health.disabled_at {
                None => WebhookState::Enabled,
                Some(_) => WebhookState::Disabled,
            },
            consecutive_failures: health.failures,
            last_error: health.last_error,
            failing_since: health.failing_since,
            last_success_at: health.last_success_at,
            disabled_at: health.disabled_at,
        }
    }
}

impl WebhookResponse {
    /// Shows the secret, too.
    fn with_secret(webhook: Webhook) -> Self {
        let secret = shown_secret(&webhook).to_owned();
        Self {
            secret: Some(secret),
            ..webhook.into()
        }
    }
}

/// Creates a webhook that is told about the end of every batch.
///
/// Each message is signed as in Standard Webhooks: HMAC-SHA256 over its id, its time and its body. It is tried for a day. An
/// address that fails for a day, or answers 410, is switched off.
#[utoipa::path(
    post, path = "/webhooks", operation_id = "create_webhook", tag = "batches",
    security(("key" = ["batch"])),
    request_body = WebhookBody,
    responses(WebhookFailures)
)]
pub async fn create(
    request: ApiRequest,
    body: Result<JsonObject<WebhookBody>, ApiError>,
) -> Result<Created<WebhookResponse>, ApiError> {
    let JsonObject(body) = body?;
    let content = (body.url.as_str(), body.secret.as_deref());
    let batches = &request.state.batches;
    let webhook = batches.create_webhook(&request.context, content).await?;
    let response = WebhookResponse::with_secret(webhook);
    request.small(&response).map(Created)
}

/// Lists the webhooks that are told about every batch, and the hosts that fail for those of one batch.
#[utoipa::path(
    get, path = "/webhooks", operation_id = "list_webhooks", tag = "batches",
    security(("key" = ["batch"])),
    responses(ServiceFailures)
)]
pub async fn list(request: ApiRequest) -> Result<Negotiated<WebhooksResponse>, ApiError> {
    let batches = &request.state.batches;
    let (webhooks, tenant) = (&batches.store, request.tenant());
    let listed = webhooks.list_webhooks(tenant).await?;
    let failing = webhooks.list_webhook_hosts(tenant, MAX_HOSTS).await?;
    let now = batches.clock().now();
    let response = WebhooksResponse {
        results: listed.into_iter().map(WebhookResponse::from).collect(),
        failing_hosts: failing
            .into_iter()
            .map(|host| FailingHostResponse::new(host, now))
            .collect(),
    };
    request.small(&response)
}

/// Deletes a webhook with its messages.
#[utoipa::path(
    delete, path = "/webhooks/{id}", operation_id = "delete_webhook", tag = "batches",
    security(("key" = ["batch"])),
    params(("id" = Uuid, Path, description = "The id of the webhook")),
    responses(StoredFailures)
)]
pub async fn delete(request: StoredRequest) -> Result<NoContent, ApiError> {
    let batches = &request.state.batches;
    batches.delete_webhook(&request.context, request.id).await?;
    Ok(NoContent)
}

/// Switches a webhook on that was switched off.
///
/// Its messages of the last day that were not delivered are sent.
#[utoipa::path(
    post, path = "/webhooks/{id}/enable", operation_id = "enable_webhook", tag = "batches",
    security(("key" = ["batch"])),
    params(("id" = Uuid, Path, description = "The id of the webhook")),
    responses(StoredFailures)
)]
pub async fn enable(request: StoredRequest) -> Result<Negotiated<WebhookResponse>, ApiError> {
    let batches = &request.state.batches;
    let webhook = batches.enable_webhook(&request.context, request.id).await?;
    request.small(&WebhookResponse::from(webhook))
}

/// Replaces the secret of a webhook.
///
/// The response is the only place that shows the new secret. For a day, messages have a signature of each of the two secrets.
#[utoipa::path(
    post, path = "/webhooks/{id}/rotate-secret", operation_id = "rotate_webhook_secret", tag = "batches",
    security(("key" = ["batch"])),
    params(("id" = Uuid, Path, description = "The id of the webhook")),
    responses(StoredFailures)
)]
pub async fn rotate(request: StoredRequest) -> Result<Negotiated<WebhookResponse>, ApiError> {
    let batches = &request.state.batches;
    let webhook = batches
        .rotate_webhook_secret(&request.context, request.id)
        .await?;
    request.small(&WebhookResponse::with_secret(webhook))
}
