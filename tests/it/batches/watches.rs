//! Event streams end with their key, and a tenant has a limited number of them.

use std::{sync::Arc, time::Duration};

use axum::http::{StatusCode, header::RETRY_AFTER};
use facescan_config::scope::Scope;
use serde_json::json;
use tokio::time::timeout;
use uuid::Uuid;

use super::{id_of, submit};
use crate::{
    access::{LOCKED, key, send},
    support::app::TestApp,
};

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_of_events_ends_when_its_key_is_revoked() {
    let app = Arc::new(TestApp::with(&[LOCKED]).await);
    let (admin, watching) = (
        key(&app, "default", &[Scope::Admin]).await,
        key(&app, "default", &[Scope::Batch]).await,
    );
    let body = json!({"operation": "detect", "open": true, "items": []}).to_string();
    let receipt = send(&app, &watching, ("POST", "/batches"), body)
        .await
        .json();
    let events = format!("/batches/{}/events", id_of(&receipt));
    let stream = tokio::spawn({
        let (app, key) = (Arc::clone(&app), watching.clone());
        async move { send(&app, &key, ("GET", &events), "").await }
    });
    let watches = || app.app.batches.watches.count("default");
    while watches() == 0 {
        tokio::task::yield_now().await;
    }
    let id = watching.split('_').nth(1).unwrap();
    let revoked = send(&app, &admin, ("DELETE", &format!("/keys/{id}")), "").await;
    assert_eq!(revoked.status, StatusCode::NO_CONTENT);
    let ended = timeout(Duration::from_secs(10), stream).await;
    let events = ended.expect("the stream goes on").unwrap();
    assert!(String::from_utf8_lossy(&events.body).contains("event: progress"));
    assert_eq!(watches(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_has_a_limited_number_of_event_streams() {
    let app = TestApp::with(&[("FACESCAN__BATCHES__MAX_EVENT_STREAMS", "2")]).await;
    let body = json!({"operation": "detect", "open": true, "items": []});
    let id = id_of(&submit(&app, &body).await);
    let (batches, uuid) = (&app.app.batches, Uuid::parse_str(&id).unwrap());
    let tenant: Arc<str> = "default".into();
    let first = batches.watch(&tenant, uuid).await.unwrap();
    let mut second = batches.watch(&tenant, uuid).await.unwrap();
    let refused = app.get(&format!("/batches/{id}/events")).await;
    refused.assert_error(429, "rate_limited");
    assert!(refused.headers.contains_key(RETRY_AFTER));

    // The other watches go on, and end with the batch.
    drop(first);
    assert_eq!(second.newest().unwrap().id, uuid);
    batches.cancel("default", uuid).await.unwrap();
    assert!(second.changed().await);
    assert_eq!(second.newest().unwrap().state.name(), "cancelled");
    assert!(!second.changed().await);
    let events = app.get(&format!("/batches/{id}/events")).await;
    assert!(String::from_utf8_lossy(&events.body).contains("cancelled"));
}
