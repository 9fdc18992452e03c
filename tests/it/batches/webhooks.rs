//! Webhooks: signed messages to a real HTTP server.

use std::sync::{Arc, Mutex};

use axum::{
    Router,
    body::Bytes,
    http::{HeaderMap, StatusCode},
    routing::post,
};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::{Value, json};
use sha2::Sha256;
use tokio::net::TcpListener;

use super::{id_of, item, post_json, process_all, submit};
use crate::support::app::TestApp;

const ALLOWED: [(&str, &str); 2] = [
    ("FACESCAN__URLS__ALLOW_PRIVATE", "true"),
    ("FACESCAN__URLS__SCHEMES", "[http]"),
];

type Messages = Arc<Mutex<Vec<(HeaderMap, Bytes)>>>;

/// Starts a server that answers each message with the next status, and then with 204.
async fn receiver(statuses: Vec<u16>) -> (String, Messages) {
    let messages = Messages::default();
    let (received, statuses) = (Arc::clone(&messages), Mutex::new(statuses.into_iter()));
    let statuses = Arc::new(statuses);
    let handler = async move |headers: HeaderMap, body: Bytes| {
        received.lock().unwrap().push((headers, body));
        let status = statuses.lock().unwrap().next().unwrap_or(204);
        StatusCode::from_u16(status).unwrap()
    };
    let router = Router::new().route("/told", post(handler));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/told", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    (url, messages)
}

/// Checks a signature with the secret, as a receiver would.
fn verify(secret: &str, headers: &HeaderMap, body: &Bytes) {
    let text = |name: &str| headers[name].to_str().unwrap();
    let key = BASE64_STANDARD
        .decode(secret.strip_prefix("whsec_").unwrap())
        .unwrap();
    let mut mac = Hmac::<Sha256>::new_from_slice(&key).unwrap();
    let signed = format!("{}.{}.", text("webhook-id"), text("webhook-timestamp"));
    mac.update(signed.as_bytes());
    mac.update(body);
    let expected = format!("v1,{}", BASE64_STANDARD.encode(mac.finalize().into_bytes()));
    assert_eq!(text("webhook-signature"), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_a_batch_is_told_once_and_signed() {
    let app = TestApp::with(&ALLOWED).await;
    let (standing_url, standing) = receiver(vec![]).await;
    let (own_url, own) = receiver(vec![]).await;
    let created = post_json(&app, "/webhooks", &json!({"url": standing_url})).await;
    assert_eq!(created.status, StatusCode::CREATED, "{:?}", created.body);
    let secret = created.json()["secret"].as_str().unwrap().to_owned();
    let listed = app.get("/webhooks").await.json();
    assert_eq!(listed["webhooks"][0]["url"], standing_url.as_str());
    assert!(
        listed["webhooks"][0].get("secret").is_none(),
        "the secret is shown once"
    );

    let own_secret = format!("whsec_{}", BASE64_STANDARD.encode([7; 24]));
    let receipt = submit(
        &app,
        &json!({
            "operation": "detect", "webhook": {"url": own_url, "secret": own_secret},
            "items": [item("a", "t1.jpg")],
        }),
    )
    .await;
    assert_eq!(receipt["webhook_secret"], own_secret.as_str());
    let batches = &app.app.batches;
    assert_eq!(batches.deliver().await.unwrap(), 0, "the batch is not done");
    process_all(&app).await;
    assert_eq!(batches.deliver().await.unwrap(), 2);
    assert_eq!(batches.deliver().await.unwrap(), 0);
    for (messages, secret) in [(&standing, &secret), (&own, &own_secret)] {
        let messages = messages.lock().unwrap();
        let [(headers, body)] = messages.as_slice() else {
            panic!("there are {} messages", messages.len());
        };
        verify(secret, headers, body);
        let message: Value = serde_json::from_slice(body).unwrap();
        assert_eq!(message["type"], "batch.done");
        assert_eq!(
            (&message["data"]["id"], &message["data"]["counts"]["ok"]),
            (&receipt["id"], &1.into())
        );
    }

    // A cancelled batch is told to the standing webhook only.
    let id = id_of(
        &submit(
            &app,
            &json!({"operation": "detect", "items": [item("a", "t1.jpg")]}),
        )
        .await,
    );
    post_json(&app, &format!("/batches/{id}/cancel"), &json!({})).await;
    assert_eq!(batches.deliver().await.unwrap(), 1);
    let last = standing.lock().unwrap().last().unwrap().1.clone();
    let message: Value = serde_json::from_slice(&last).unwrap();
    assert_eq!(message["type"], "batch.cancelled");
    let webhook = format!("/webhooks/{}", created.json()["id"].as_str().unwrap());
    assert_eq!(app.delete(&webhook).await.status, StatusCode::NO_CONTENT);
    assert_eq!(app.delete(&webhook).await.status, StatusCode::NOT_FOUND);
}

/// A message that was not delivered is tried again with the same id.
#[tokio::test(flavor = "multi_thread")]
async fn a_refused_message_waits_for_another_attempt() {
    let app = TestApp::with(&ALLOWED).await;
    let (url, messages) = receiver(vec![500]).await;
    let body = json!({"operation": "detect", "webhook": {"url": url}, "items": []});
    submit(&app, &body).await;
    let batches = &app.app.batches;
    assert_eq!(batches.deliver().await.unwrap(), 1);
    assert_eq!(batches.deliver().await.unwrap(), 0, "it is not due yet");
    let later = batches.clock().now() + std::time::Duration::from_secs(10);
    let due = batches
        .webhooks
        .take_deliveries(later, later, 10)
        .await
        .unwrap();
    assert_eq!((due.len(), due[0].attempts), (1, 2));
    let first = messages.lock().unwrap()[0].0["webhook-id"].clone();
    assert_eq!(due[0].id.to_string(), first.to_str().unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_the_guard_forbids_is_refused() {
    let app = TestApp::start().await;
    for url in [
        "http://example.org/",
        "https://127.0.0.1/",
        "https://user:pw@example.org/",
        "no url",
    ] {
        let reply = post_json(&app, "/webhooks", &json!({"url": url})).await;
        assert_eq!(
            (reply.status, reply.code().as_str()),
            (StatusCode::UNPROCESSABLE_ENTITY, "invalid_option"),
            "{url}"
        );
        let body = json!({"operation": "detect", "webhook": {"url": url}, "items": []});
        let reply = post_json(&app, "/batches", &body).await;
        assert_eq!(reply.code(), "invalid_option", "{url}");
    }
    let reply = post_json(
        &app,
        "/webhooks",
        &json!({"url": "https://example.org/", "secret": "short"}),
    )
    .await;
    assert_eq!(reply.code(), "invalid_option");
    assert_eq!(app.get("/webhooks").await.json()["webhooks"], json!([]));
}
