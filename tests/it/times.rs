//! Times in responses: RFC 3339 in UTC with microseconds, the same when an object is created and whenever it is read.

use std::collections::BTreeMap;

use facescan_config::scope::Scope;
use serde_json::{Value, json};

use crate::{
    access::{LOCKED, key, send},
    collections::{gallery, of_kind},
    support::{app::TestApp, values::photo},
};

/// The fields with a time that do not end in `_at`.
const OTHERS: [&str; 3] = ["at", "until", "failing_since"];

/// A server with a key that may do everything.
struct Server {
    app: TestApp,
    key: String,
}

impl Server {
    async fn start() -> Self {
        let purposes = ("FACESCAN__RECOGNITION__PURPOSES", "[entry control]");
        let app = TestApp::with(&[LOCKED, purposes]).await;
        let key = key(&app, "default", &Scope::ALL).await;
        Self { app, key }
    }

    async fn post(&self, uri: &str, body: Value) -> Value {
        let reply = send(&self.app, &self.key, ("POST", uri), body.to_string()).await;
        assert!(reply.status.is_success(), "{uri}: {:?}", reply.body);
        reply.json()
    }

    async fn get(&self, uri: &str) -> Value {
        let reply = send(&self.app, &self.key, ("GET", uri), "").await;
        assert!(reply.status.is_success(), "{uri}: {:?}", reply.body);
        reply.json()
    }

    /// Creates an object, reads it at its own address, and compares the times. Returns the address.
    async fn created(&self, list: &str, body: Value) -> String {
        let created = self.post(list, body).await;
        let uri = format!("{list}/{}", created["id"].as_str().unwrap());
        compare(&uri, &created, &self.get(&uri).await);
        uri
    }

    /// Returns the object of a list that has an id.
    async fn listed(&self, list: &str, id: &Value) -> Value {
        let page = self.get(list).await;
        let found = page["results"].as_array().unwrap().iter();
        let mut found = found.filter(|entry| entry["id"] == *id);
        found.next().cloned().unwrap_or_else(|| panic!("{page}"))
    }
}

/// Collects the times of a response by their paths.
fn times(value: &Value, path: &str, found: &mut BTreeMap<String, String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let path = format!("{path}/{name}");
                let is_time = name.ends_with("_at") || OTHERS.contains(&name.as_str());
                match value {
                    Value::String(text) if is_time => {
                        found.insert(path, text.clone());
                    }
                    value => times(value, &path, found),
                }
            }
        }
        Value::Array(list) => {
            for (index, value) in list.iter().enumerate() {
                times(value, &format!("{path}/{index}"), found);
            }
        }
        _ => {}
    }
}

/// Checks that two responses about an object have the same times, in the one format.
fn compare(what: &str, first: &Value, second: &Value) {
    let (mut of_first, mut of_second) = (BTreeMap::new(), BTreeMap::new());
    times(first, "", &mut of_first);
    times(second, "", &mut of_second);
    let all = of_first.iter().chain(&of_second);
    for (path, text) in all {
        // Such as 2026-01-02T03:04:05.678901Z.
        let digits: String = text
            .chars()
            .map(|char| if char.is_ascii_digit() { '0' } else { char })
            .collect();
        assert_eq!(digits, "0000-00-00T00:00:00.000000Z", "{what}{path}");
    }
    let mut compared = 0;
    for (path, text) in &of_first {
        if let Some(other) = of_second.get(path) {
            assert_eq!(text, other, "{what}{path}");
            compared += 1;
        }
    }
    assert!(compared > 0, "{what} has no time: {first} {second}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_time_of_recognition_is_the_same_on_creation_and_on_reading() {
    let server = Server::start().await;
    let staff = server.created("/collections", gallery("staff")).await;
    let consent = json!({
        "reference": "form 3",
        "given_at": "2020-01-01T02:00:00.123456789+02:00",
        "expires_at": "2999-01-01T00:00:00Z",
    });
    let subjects = format!("{staff}/subjects");
    let details = json!({"consent": consent, "expires_at": "2998-12-31T23:59:59.9999999-01:00"});
    let subject = server.created(&subjects, details).await;
    let read = server.get(&subject).await;
    assert_eq!(read["consent"]["given_at"], "2020-01-01T00:00:00.123456Z");
    compare(
        &subjects,
        &read,
        &server.listed(&subjects, &read["id"]).await,
    );
    let enrollments = format!("{subject}/enrollments");
    server
        .post(&enrollments, json!({"faces": [photo("obama.jpg")]}))
        .await;
    let of_subject = server.get(&enrollments).await;
    compare(&enrollments, &of_subject, &server.get(&enrollments).await);

    let archive = server
        .created("/collections", of_kind("library", "archive"))
        .await;
    let enrollments = format!("{archive}/enrollments");
    server
        .post(&enrollments, json!({"faces": [photo("obama.jpg")]}))
        .await;
    let listed = server.get(&enrollments).await;
    compare(&enrollments, &listed, &server.get(&enrollments).await);
    let clusterings = format!("{archive}/clusterings");
    server.created(&clusterings, json!({})).await;

    let search = json!({"faces": [photo("obama.jpg")], "options": {"purpose": "entry control"}});
    server.post(&format!("{staff}/search"), search).await;
    let searches = format!("{staff}/searches");
    let recorded = server.get(&searches).await;
    compare(&searches, &recorded, &server.get(&searches).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_time_of_the_service_is_the_same_on_creation_and_on_reading() {
    let server = Server::start().await;
    let new =
        json!({"name": "a", "scopes": ["read"], "expires_at": "2999-01-01T00:00:00.1234567Z"});
    let created = server.post("/keys", new).await;
    compare(
        "/keys",
        &created,
        &server.listed("/keys", &created["id"]).await,
    );
    let created = server
        .post("/webhooks", json!({"url": "https://example.org/hook"}))
        .await;
    compare(
        "/webhooks",
        &created,
        &server.listed("/webhooks", &created["id"]).await,
    );

    let open = json!({"operation": "detect", "open": true});
    let receipt = server.post("/batches", open).await;
    let batch = format!("/batches/{}", receipt["id"].as_str().unwrap());
    let closed = server.post(&format!("{batch}/close"), json!({})).await;
    compare(&batch, &closed, &server.get(&batch).await);
    compare(
        "/batches",
        &closed,
        &server.listed("/batches", &receipt["id"]).await,
    );

    let scan = server
        .post("/embed?store=true", json!({"images": [photo("obama.jpg")]}))
        .await;
    let id = &scan["results"][0]["image_id"];
    let read = server
        .get(&format!("/images/{}", id.as_str().unwrap()))
        .await;
    compare("/images", &read, &server.listed("/images", id).await);
    let erasure = json!({"source": "nowhere"});
    server.created("/erasures", erasure).await;
}
