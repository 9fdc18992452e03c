//! `/keys`: the keys of a tenant.

use axum::extract::Path;
use facescan_audit::AuditEvent;
use facescan_config::scope::Scope;
use facescan_store::ApiKey;
use secrecy::ExposeSecret;
use serde::{Deserialize, Serialize};
use serde_json::json;
use time::OffsetDateTime;
use utoipa::ToSchema;

use crate::{
    access::{
        error::AccessError,
        keys::{self, CREATE_KEY, NewKey, REVOKE_KEY},
        secret::is_id,
    },
    http::{
        error::ApiError,
        extract::{api_request::ApiRequest, json_object::JsonObject},
        openapi::failures::{KeyFailures, ServiceFailures, StoredFailures},
        respond::negotiated::{Created, Negotiated, NoContent},
    },
};

/// A key to be created.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewKey)]
pub struct KeyBody {
    /// A name for the key, 1 to 128 characters.
    #[schema(min_length = 1, max_length = 128)]
    name: String,
    /// What the key may do.
    #[schema(min_items = 1)]
    scopes: Vec<Scope>,
    /// When the key stops being valid. Without it, the key never expires.
    #[serde(default, with = "facescan_clock::rfc3339::option")]
    expires_at: Option<OffsetDateTime>,
}

/// A key.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Key)]
pub struct KeyResponse {
    /// The part of the key that is not secret.
    id: String,
    /// The whole key. Only the response that creates the key has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    /// The name.
    name: String,
    /// What the key may do.
    #[schema(value_type = Vec<Scope>)]
    scopes: Vec<String>,
    /// The time when it was created.
    #[serde(with = "facescan_clock::rfc3339")]
    created_at: OffsetDateTime,
    /// When it stops being valid. Absent if it never does.
    #[serde(
        with = "facescan_clock::rfc3339::option",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(nullable = false)]
    expires_at: Option<OffsetDateTime>,
    /// When it was revoked.
    #[serde(
        with = "facescan_clock::rfc3339::option",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(nullable = false)]
    revoked_at: Option<OffsetDateTime>,
    /// When it was last used. A use within a minute of the last one, or within `access.key_cache_s`, is not recorded.
    #[serde(
        with = "facescan_clock::rfc3339::option",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(nullable = false)]
    last_used_at: Option<OffsetDateTime>,
}

/// The keys of the tenant.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Keys)]
pub struct KeysResponse {
    /// The keys, oldest first. Keys in the settings are not among them.
    results: Vec<KeyResponse>,
}

impl From<ApiKey> for KeyResponse {
    fn from(key: ApiKey) -> Self {
        Self {
            id: key.id,
            key: None,
            name: key.name,
            scopes: key.scopes,
            created_at: key.created_at,
            expires_at: key.expires_at,
            revoked_at: key.revoked_at,
            last_used_at: key.last_used_at,
        }
    }
}

fn require_key(request: &ApiRequest) -> Result<(), AccessError> {
    match request.context.principal.key_id {
        Some(_) => Ok(()),
        None => Err(AccessError::NoKeysHere),
    }
}

/// Creates a key for the tenant of the caller.
///
/// The response is the only place that shows the whole key.
#[utoipa::path(
    post, path = "/keys", operation_id = "create_key", tag = "access",
    request_body = KeyBody, security(("key" = ["admin"])),
    responses(KeyFailures)
)]
pub async fn create(
    request: ApiRequest,
    body: Result<JsonObject<KeyBody>, ApiError>,
) -> Result<Created<KeyResponse>, ApiError> {
    require_key(&request)?;
    let created = match body {
        Ok(JsonObject(body)) => create_from(&request, body).await,
        Err(error) => Err(error),
    };
    let failed = AuditEvent {
        target: None,
        ..AuditEvent::change(CREATE_KEY, "")
    };
    let response = recorded(&request, created, failed).await?;
    request.small(&response).map(Created)
}

async fn create_from(request: &ApiRequest, body: KeyBody) -> Result<KeyResponse, ApiError> {
    let own_scopes = &request.context.principal.scopes;
    // The metrics are those of all tenants.
    if body.scopes.contains(&Scope::Metrics) && !own_scopes.contains(&Scope::Metrics) {
        return Err(AccessError::NotOperator.into());
    }
    let new = NewKey {
        tenant: request.tenant().to_owned(),
        name: body.name,
        scopes: body.scopes,
        expires_at: body.expires_at,
    };
    let entry = |event| request.audit_entry(event);
    let now = request.state.pipeline.clock.now();
    let (key, secret) = keys::create(&request.state.store, now, new, entry).await?;
    Ok(KeyResponse {
        key: Some(secret.expose_secret().to_owned()),
        ..key.into()
    })
}

/// Records a change of keys that has failed. One that was made is recorded already.
async fn recorded<T>(
    request: &ApiRequest,
    outcome: Result<T, ApiError>,
    failed: AuditEvent,
) -> Result<T, ApiError> {
    if let Err(error) = &outcome {
        let failed = failed.with(json!({"failed": error.kind().code}));
        request.record(failed).await?;
    }
    outcome
}

/// Lists the keys of the tenant of the caller.
#[utoipa::path(
    get, path = "/keys", operation_id = "list_keys", tag = "access", security(("key" = ["admin"])),
    responses(ServiceFailures)
)]
pub async fn list(request: ApiRequest) -> Result<Negotiated<KeysResponse>, ApiError> {
    require_key(&request)?;
    let keys = request.state.store.list_keys(request.tenant()).await?;
    let response = KeysResponse {
        results: keys.into_iter().map(KeyResponse::from).collect(),
    };
    request.small(&response)
}

/// Revokes a key.
///
/// Other servers accept it for `access.key_cache_s` more seconds.
#[utoipa::path(
    delete, path = "/keys/{id}", operation_id = "revoke_key", tag = "access", security(("key" = ["admin"])),
    params(("id" = String, Path, description = "The id of the key")),
    responses(StoredFailures)
)]
pub async fn revoke(request: ApiRequest, Path(id): Path<String>) -> Result<NoContent, ApiError> {
    require_key(&request)?;
    let revoked = revoke_one(&request, &id).await;
    let failed = AuditEvent {
        // Not an id, and perhaps a secret.
        target: is_id(&id).then_some(id),
        ..AuditEvent::change(REVOKE_KEY, "")
    };
    recorded(&request, revoked, failed).await?;
    Ok(NoContent)
}

async fn revoke_one(request: &ApiRequest, id: &str) -> Result<(), ApiError> {
    let (state, key) = (&request.state, (request.tenant(), id));
    let entry = |event| request.audit_entry(event);
    let now = state.pipeline.clock.now();
    if !is_id(id) || !keys::revoke(&state.store, now, key, entry).await? {
        return Err(ApiError::NotFound(format!("there is no key {id}")));
    }
    state.access.forget(id);
    Ok(())
}
