//! Webhooks: signed messages to a real HTTP server.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use axum::{
    Router,
    body::Bytes,
    http::{HeaderMap, StatusCode},
    routing::post,
};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use facescan_batches::{Batches, webhooks::deliveries::Deliveries};
use facescan_pipeline::ingest::{
    guard::Refused,
    post::{PostError, Poster},
};
use facescan_store::{Observer, TakeDeliveries};
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::{Value, json};
use sha2::Sha256;
use tokio::{sync::mpsc, time::timeout};
use tokio_util::sync::CancellationToken;
use url::Url;

use super::{id_of, item, post_json, process_all, submit};
use crate::{
    store::batches::new_batch,
    support::{
        app::{TestApp, serve},
        database::{Database, on_postgres},
        values::assert_fields,
    },
};

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
    (format!("http://{}/told", serve(router).await), messages)
}

/// Returns a sender whose waits are as short as they can be.
fn deliveries(app: &TestApp) -> Deliveries {
    Deliveries::new(app.app.batches.clone(), Arc::new(|| 0.0))
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
    let mut signatures = text("webhook-signature").split(' ');
    assert!(signatures.any(|signature| signature == expected));
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
    assert_eq!(listed["results"][0]["url"], standing_url.as_str());
    assert!(
        listed["results"][0].get("secret").is_none(),
        "the secret is shown once"
    );

    let own_secret = format!("whsec_{}", BASE64_STANDARD.encode([7; 24]));
    let webhook = json!({"url": own_url, "secret": own_secret});
    let body = json!({"operation": "detect", "webhook": webhook, "items": [item("a", "t1.jpg")]});
    let receipt = submit(&app, &body).await;
    assert_eq!(receipt["webhook_secret"], own_secret.as_str());
    let mut deliveries = deliveries(&app);
    assert_eq!(
        deliveries.send_due().await.unwrap(),
        0,
        "the batch is not done"
    );
    process_all(&app).await;
    assert_eq!(deliveries.send_due().await.unwrap(), 2);
    assert_eq!(deliveries.send_due().await.unwrap(), 0);
    for (messages, secret) in [(&standing, &secret), (&own, &own_secret)] {
        let messages = messages.lock().unwrap();
        let [(headers, body)] = messages.as_slice() else {
            panic!("there are {} messages", messages.len());
        };
        verify(secret, headers, body);
        let message: Value = serde_json::from_slice(body).unwrap();
        assert_eq!(message["type"], "batch.done");
        assert_fields!(message["data"], {"id": receipt["id"], "counts": {"ok": 1}});
    }

    // A cancelled batch is told to the standing webhook only.
    let body = json!({"operation": "detect", "items": [item("a", "t1.jpg")]});
    let id = id_of(&submit(&app, &body).await);
    post_json(&app, &format!("/batches/{id}/cancel"), &json!({})).await;
    assert_eq!(deliveries.send_due().await.unwrap(), 1);
    let last = standing.lock().unwrap().last().unwrap().1.clone();
    let message: Value = serde_json::from_slice(&last).unwrap();
    assert_eq!(message["type"], "batch.cancelled");
    let webhook = format!("/webhooks/{}", created.json()["id"].as_str().unwrap());
    assert_eq!(app.delete(&webhook).await.status, StatusCode::NO_CONTENT);
    assert_eq!(app.delete(&webhook).await.status, StatusCode::NOT_FOUND);
}

/// Submits a batch that gets no items, and closes it.
async fn end_empty_batch(app: &TestApp, mut body: Value) {
    body["operation"] = json!("detect");
    body["open"] = json!(true);
    let batch = id_of(&submit(app, &body).await);
    post_json(app, &format!("/batches/{batch}/close"), &json!({})).await;
}

/// A message that was not delivered is tried again with the same id.
#[tokio::test(flavor = "multi_thread")]
async fn a_refused_message_waits_for_another_attempt() {
    let app = TestApp::with(&ALLOWED).await;
    let (url, messages) = receiver(vec![500]).await;
    end_empty_batch(&app, json!({"webhook": {"url": url}})).await;
    let mut deliveries = deliveries(&app);
    assert_eq!(deliveries.send_due().await.unwrap(), 1);
    assert_eq!(deliveries.send_due().await.unwrap(), 0, "it is not due yet");
    let batches = &app.app.batches;
    let later = batches.clock().now() + std::time::Duration::from_secs(10);
    let request = TakeDeliveries {
        now: later,
        again_at: later,
        limit: 10,
    };
    let due = batches.store.take_deliveries("default", request).await;
    let due = due.unwrap().deliveries;
    assert_eq!((due.len(), due[0].attempts), (1, 2));
    let first = messages.lock().unwrap()[0].0["webhook-id"].clone();
    assert_eq!(due[0].id.to_string(), first.to_str().unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_the_guard_forbids_is_refused() {
    let app = TestApp::start().await;
    for (url, status, code) in [
        ("http://example.org/", 403, "url_forbidden"),
        ("https://127.0.0.1/", 403, "url_forbidden"),
        ("https://user:pw@example.org/", 403, "url_forbidden"),
        ("no url", 422, "invalid_option"),
    ] {
        let webhook = json!({"url": url});
        let batch = json!({"operation": "detect", "webhook": webhook, "items": []});
        for (uri, body) in [("/webhooks", &webhook), ("/batches", &batch)] {
            let reply = post_json(&app, uri, body).await;
            reply.assert_error_of(url, status, code);
        }
    }
    let short = json!({"url": "https://example.org/", "secret": "short"});
    let reply = post_json(&app, "/webhooks", &short).await;
    assert_eq!(reply.code(), "invalid_option");
    assert_eq!(app.get("/webhooks").await.json()["results"], json!([]));
}

/// Returns the actions of the trail that concern webhooks.
async fn audited(app: &TestApp) -> Vec<String> {
    let store = facescan::app::open_store(&app.app.config, Observer::default());
    let audit = store.await.unwrap();
    let entries = audit.audit_entries("default", 0, 100).await;
    let actions = entries.unwrap().into_iter().map(|line| line.entry.action);
    actions
        .filter(|action| action.contains("webhook"))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_is_gone_is_switched_off_until_someone_enables_it() {
    let app = TestApp::with(&ALLOWED).await;
    let (url, messages) = receiver(vec![410]).await;
    let created = post_json(&app, "/webhooks", &json!({"url": url}))
        .await
        .json();
    let webhook = format!("/webhooks/{}", created["id"].as_str().unwrap());
    end_empty_batch(&app, json!({})).await;
    let mut deliveries = deliveries(&app);
    assert_eq!(deliveries.send_due().await.unwrap(), 1);
    let listed = app.get("/webhooks").await.json()["results"][0].clone();
    assert_fields!(listed, {"state": "disabled", "consecutive_failures": 1});
    assert_eq!(
        listed["last_error"],
        "the server answered with the status 410"
    );
    assert!(listed["disabled_at"].is_string() && listed.get("last_success_at").is_none());
    let metrics = app.app.metrics.text().unwrap();
    assert!(metrics.contains("facescan_webhooks_disabled_total 1"));

    // A batch that ends while it is off makes no message. The message that failed is sent when it is on.
    end_empty_batch(&app, json!({})).await;
    assert_eq!(deliveries.send_due().await.unwrap(), 0);
    let enabled = post_json(&app, &format!("{webhook}/enable"), &json!({})).await;
    assert_eq!(enabled.json()["state"], "enabled", "{:?}", enabled.body);
    let later = app.app.batches.clock().now() + std::time::Duration::from_secs(60);
    let tenants = app.app.batches.store.tenants_with_deliveries(later, "", 9);
    assert_eq!(tenants.await.unwrap(), ["default"]);
    assert_eq!(messages.lock().unwrap().len(), 1);
    app.delete(&webhook).await;
    assert_eq!(
        audited(&app).await,
        [
            "create_webhook",
            "disable_webhook",
            "enable_webhook",
            "delete_webhook"
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_have_signatures_of_both_secrets_after_a_rotation() {
    let app = TestApp::with(&ALLOWED).await;
    let (url, messages) = receiver(vec![]).await;
    let created = post_json(&app, "/webhooks", &json!({"url": url}))
        .await
        .json();
    let rotate = format!(
        "/webhooks/{}/rotate-secret",
        created["id"].as_str().unwrap()
    );
    let rotated = post_json(&app, &rotate, &json!({})).await.json();
    assert_ne!(created["secret"], rotated["secret"]);
    end_empty_batch(&app, json!({})).await;
    assert_eq!(deliveries(&app).send_due().await.unwrap(), 1);
    let (headers, body) = messages.lock().unwrap()[0].clone();
    let signatures = headers["webhook-signature"].to_str().unwrap();
    assert_eq!(signatures.split(' ').count(), 2, "{signatures}");
    for secret in [&created["secret"], &rotated["secret"]] {
        verify(secret.as_str().unwrap(), &headers, &body);
    }
    let listed = app.get("/webhooks").await.json()["results"][0].clone();
    assert!(listed["last_success_at"].is_string() && listed.get("secret").is_none());
    assert_eq!(
        audited(&app).await,
        ["create_webhook", "rotate_webhook_secret"]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_has_a_limited_number_of_webhooks() {
    let limit = ("FACESCAN__WEBHOOKS__MAX_PER_TENANT", "2");
    let app = TestApp::with(&[ALLOWED[0], ALLOWED[1], limit]).await;
    let body = json!({"url": "http://127.0.0.1:1/"});
    for _ in 0..2 {
        let created = post_json(&app, "/webhooks", &body).await;
        assert_eq!(created.status, StatusCode::CREATED);
    }
    let refused = post_json(&app, "/webhooks", &body).await;
    refused.assert_error(409, "conflict");
    let listed = app.get("/webhooks").await.json();
    assert_eq!(listed["results"].as_array().unwrap().len(), 2);
}

/// A webhook that comes with a batch is recorded, and a tenant has a limited number of them with a pending message.
#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_has_a_limited_number_of_webhooks_of_batches() {
    let limit = ("FACESCAN__WEBHOOKS__MAX_PENDING_PER_TENANT", "1");
    let app = TestApp::with(&[ALLOWED[0], ALLOWED[1], limit]).await;
    let (url, messages) = receiver(vec![500]).await;
    let body = json!({"operation": "detect", "open": true, "webhook": {"url": url}, "items": []});
    let batch = id_of(&submit(&app, &body).await);
    assert_eq!(audited(&app).await, ["create_webhook"]);
    let refused = async || {
        let refused = post_json(&app, "/batches", &body).await;
        refused.assert_error(409, "conflict");
        let detail = refused.json()["detail"].to_string();
        assert!(detail.contains("1 batches"), "{detail}");
    };
    refused().await;
    post_json(&app, &format!("/batches/{batch}/close"), &json!({})).await;
    let mut deliveries = deliveries(&app);
    assert_eq!(deliveries.send_due().await.unwrap(), 1);
    // The message is tried again, and its host is listed.
    refused().await;
    let listed = app.get("/webhooks").await.json();
    let [failing] = listed["failing_hosts"].as_array().unwrap().as_slice() else {
        panic!("{listed}");
    };
    let host = Url::parse(&url).unwrap();
    assert_eq!(
        failing["host"],
        format!("127.0.0.1:{}", host.port().unwrap())
    );
    assert_fields!(failing, {"state": "enabled", "consecutive_failures": 1});
    assert_eq!(listed["results"], json!([]));
    assert_eq!(messages.lock().unwrap().len(), 1);
    // Without a webhook of its own, a batch is accepted, and its refusals leave no batch behind.
    end_empty_batch(&app, json!({})).await;
    let batches = app.get("/batches").await.json();
    assert_eq!(batches["results"].as_array().unwrap().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn webhooks_that_are_off_are_refused_and_nothing_is_sent() {
    let off = ("FACESCAN__WEBHOOKS__ENABLED", "false");
    let app = TestApp::with(&[ALLOWED[0], ALLOWED[1], off]).await;
    let webhook = json!({"url": "http://127.0.0.1:1/"});
    let batch = json!({"operation": "detect", "webhook": webhook, "items": []});
    for (uri, body) in [("/webhooks", &webhook), ("/batches", &batch)] {
        let refused = post_json(&app, uri, body).await;
        assert_eq!(refused.code(), "invalid_option", "{uri}");
        let detail = refused.json()["detail"].to_string();
        assert!(detail.contains("webhooks.enabled"), "{detail}");
    }
    // It returns although nobody stops it.
    deliveries(&app).run(CancellationToken::new()).await;
}

/// Never answers for the host `silent.test`, and reports the other messages.
struct Receiver(mpsc::UnboundedSender<Url>);

#[async_trait]
impl Poster for Receiver {
    fn check(&self, _: &Url) -> Result<(), Refused> {
        Ok(())
    }

    async fn post(&self, url: &Url, _: HeaderMap, _: Bytes) -> Result<(), PostError> {
        if url.host_str() == Some("silent.test") {
            std::future::pending::<()>().await;
        }
        self.0.send(url.clone()).ok();
        Ok(())
    }
}

/// Gives a tenant webhooks and a batch that has ended.
async fn end_a_batch(batches: &Batches, tenant: &str, urls: &[&str]) {
    for url in urls {
        let webhook = batches.new_webhook(tenant, None, (url, None)).unwrap();
        let added = batches.store.create_webhook(&webhook, 1000, None).await;
        assert!(added.unwrap());
    }
    let batch = new_batch(tenant, 1);
    batches.store.create_batch(&batch).await.unwrap();
    let ended = batches.cancel(tenant, batch.id).await.unwrap();
    assert_eq!(ended.batch.id, batch.id);
}

/// Waits until the message for `ready.test` was received, while many addresses of another tenant are silent.
async fn hear_beside_silence(app: &TestApp, senders: usize) {
    let (sender, mut received) = mpsc::unbounded_channel();
    let mut batches = app.app.batches.clone();
    batches.sender = Arc::new(Receiver(sender));
    end_a_batch(&batches, "noisy", &["https://silent.test/"; 300]).await;
    let stop = CancellationToken::new();
    for _ in 0..senders {
        let deliveries = Deliveries::new(batches.clone(), Arc::new(|| 0.0));
        tokio::spawn(deliveries.run(stop.clone()));
    }
    for patient in ["first", "second", "third"] {
        end_a_batch(&batches, patient, &["https://ready.test/"]).await;
        let heard = timeout(Duration::from_secs(5), received.recv()).await;
        assert!(
            heard
                .expect("the message waits for silent addresses")
                .is_some()
        );
    }
    stop.cancel();
}

#[tokio::test(flavor = "multi_thread")]
async fn silent_addresses_of_one_tenant_do_not_delay_the_messages_of_others() {
    hear_beside_silence(&TestApp::start().await, 1).await;
    on_postgres(|database: Database| async move {
        hear_beside_silence(&TestApp::with_database(&database, &[]).await, 2).await;
    })
    .await;
}
