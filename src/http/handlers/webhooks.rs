//! `/webhooks`: addresses that are told when a batch ends.

use axum::{
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};
use uuid::Uuid;

use facescan_store::Webhook;

use crate::{
    batches::webhooks::shown_secret,
    context::RequestContext,
    http::{
        AppState,
        error::ApiError,
        extract::{
            json_object::JsonObject,
            stored_request::{StoredRequest, not_found},
        },
        openapi::failures::{BatchFailures, WebhookFailures},
        respond::{Accepted, respond_small},
    },
};

/// Returns the routes of this module.
pub fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .routes(routes!(create, list))
        .routes(routes!(delete))
}

/// A webhook to be created.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WebhookBody {
    /// The address. The settings in section `urls` must allow it.
    url: String,
    /// The secret that signs the messages, `whsec_` and base64. Without it the server makes one.
    #[serde(default)]
    #[schema(nullable = false)]
    secret: Option<String>,
}

/// A webhook.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Webhook)]
pub struct WebhookAnswer {
    /// The id.
    id: Uuid,
    /// The address.
    url: String,
    /// The secret. Only the answer that creates the webhook has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    secret: Option<String>,
    /// The time when it was created.
    #[serde(with = "time::serde::rfc3339")]
    #[schema(value_type = String, format = DateTime)]
    created_at: OffsetDateTime,
}

/// The webhooks of the tenant.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Webhooks)]
pub struct WebhooksAnswer {
    /// The webhooks, oldest first.
    webhooks: Vec<WebhookAnswer>,
}

impl From<Webhook> for WebhookAnswer {
    fn from(webhook: Webhook) -> Self {
        Self {
            id: webhook.id,
            url: webhook.url,
            secret: None,
            created_at: webhook.created_at,
        }
    }
}

/// Creates a webhook that is told about the end of every batch.
///
/// Each message is signed as in Standard Webhooks: HMAC-SHA256 over its id, its time and its body. It is tried for a day.
#[utoipa::path(
    post, path = "/webhooks", operation_id = "create_webhook", tag = "batches",
    security(("key" = ["batch"])),
    request_body = WebhookBody,
    responses(
        (status = 201, description = "Created", content(
            (WebhookAnswer = "application/json"), (WebhookAnswer = "application/msgpack")
        )),
        WebhookFailures,
    )
)]
pub async fn create(
    State(state): State<AppState>,
    context: RequestContext,
    headers: HeaderMap,
    body: Result<JsonObject<WebhookBody>, ApiError>,
) -> Result<Response, ApiError> {
    let JsonObject(body) = body?;
    let batches = &state.batches;
    let tenant = &context.principal.tenant;
    let content = (body.url.as_str(), body.secret.as_deref());
    let webhook = batches.new_webhook(tenant, None, content)?;
    batches.webhooks.add_webhook(&webhook).await?;
    let secret = shown_secret(&webhook).to_owned();
    let answer = WebhookAnswer {
        secret: Some(secret),
        ..webhook.into()
    };
    let body = respond_small(Accepted::structured(&headers), &answer)?;
    Ok((StatusCode::CREATED, body).into_response())
}

/// Lists the webhooks that are told about every batch.
#[utoipa::path(
    get, path = "/webhooks", operation_id = "list_webhooks", tag = "batches",
    security(("key" = ["batch"])),
    responses(
        (status = 200, description = "The webhooks", content(
            (WebhooksAnswer = "application/json"), (WebhooksAnswer = "application/msgpack")
        )),
        WebhookFailures,
    )
)]
pub async fn list(
    State(state): State<AppState>,
    context: RequestContext,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let webhooks = &state.batches.webhooks;
    let listed = webhooks.list_webhooks(&context.principal.tenant).await?;
    let answer = WebhooksAnswer {
        webhooks: listed.into_iter().map(WebhookAnswer::from).collect(),
    };
    respond_small(Accepted::structured(&headers), &answer)
}

/// Deletes a webhook with its messages.
#[utoipa::path(
    delete, path = "/webhooks/{id}", operation_id = "delete_webhook", tag = "batches",
    security(("key" = ["batch"])),
    params(("id" = Uuid, Path, description = "The id of the webhook")),
    responses(
        (status = 204, description = "Deleted"),
        BatchFailures,
    )
)]
pub async fn delete(request: StoredRequest) -> Result<StatusCode, ApiError> {
    let webhooks = &request.state.batches.webhooks;
    match webhooks
        .delete_webhook(request.tenant(), request.id)
        .await?
    {
        true => Ok(StatusCode::NO_CONTENT),
        false => Err(not_found("webhook", request.id)),
    }
}
