//! Access control: keys, scopes and tenants.

mod keys;
mod local;
mod openid;
mod refusals;
mod routes;
mod tenants;

use axum::body::Body;
use facescan::access::{self, keys::NewKey};
use facescan_config::scope::Scope;
use secrecy::ExposeSecret;

use crate::support::app::{Reply, TestApp};

/// The setting with which callers need a key.
pub(crate) const LOCKED: (&str, &str) = ("FACESCAN__ACCESS__MODE", "required");

/// Starts an application whose callers need a key.
async fn locked() -> TestApp {
    TestApp::with(&[LOCKED]).await
}

/// Creates a key and returns its text.
pub(crate) async fn key(app: &TestApp, tenant: &str, scopes: &[Scope]) -> String {
    let new = NewKey {
        tenant: tenant.to_owned(),
        name: "test".to_owned(),
        scopes: scopes.to_vec(),
        expires_at: None,
    };
    let (store, now) = (&app.app.store, app.app.pipeline.clock.now());
    let created = access::keys::create(store, now, new, |_| None).await;
    let (_, text) = created.unwrap();
    text.expose_secret().to_owned()
}

/// Sends a request with a key.
pub(crate) async fn send(
    app: &TestApp,
    key: &str,
    (method, uri): (&str, &str),
    body: impl Into<Body>,
) -> Reply {
    let authorization = format!("Bearer {key}");
    let headers = [
        ("authorization", authorization.as_str()),
        ("content-type", "application/json"),
    ];
    app.call(method, uri, &headers, body).await
}

/// Returns the status of a request with a key and without a body.
async fn status(app: &TestApp, key: &str, request: (&str, &str)) -> u16 {
    send(app, key, request, "").await.status.as_u16()
}
