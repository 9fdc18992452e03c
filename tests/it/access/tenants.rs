//! A tenant neither sees nor changes what another one has.

use axum::http::StatusCode;
use facescan_config::scope::Scope;
use serde_json::{Value, json};

use super::{LOCKED, key, locked, refusals::entries, routes::routes, send, status};
use crate::{
    batches::item,
    collections::{gallery, of_kind},
    support::{app::TestApp, values::photo},
};

/// What a tenant has: one of everything that has an id.
struct Owned {
    image: String,
    face: String,
    batch: String,
    webhook: String,
    key: String,
    erasure: String,
    collection: String,
    library: String,
    clustering: String,
    person: String,
    subject: String,
    enrollment: String,
}

impl Owned {
    /// Creates one of everything.
    async fn create(app: &TestApp, owner: &str) -> Self {
        let scan = send(app, owner, ("POST", "/detect?store=true"), body_of_images()).await;
        let result = scan.result();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let created = async |uri: &str, body: Value| {
            let reply = send(app, owner, ("POST", uri), body.to_string()).await;
            assert!(reply.status.is_success(), "{uri}: {:?}", reply.body);
            text(&reply.json()["id"])
        };
        let collection = created("/collections", gallery("staff")).await;
        let of_collection = format!("/collections/{collection}/subjects");
        let subject = created(&of_collection, json!({})).await;
        let faces =
            format!("{of_collection}/{subject}/enrollments?face=largest&allow_low_quality=true");
        let enrolled = send(app, owner, ("POST", &faces), body_of_faces()).await;
        let library = created("/collections", of_kind("library", "archive")).await;
        let of_library = |path| format!("/collections/{library}/{path}");
        let faces = of_library("enrollments");
        for _ in 0..2 {
            let enrolled = send(app, owner, ("POST", &faces), body_of_faces()).await;
            assert_eq!(enrolled.status, StatusCode::OK);
        }
        let clustering = created(&of_library("clusterings"), json!({})).await;
        assert!(app.app.collections.cluster_once().await.unwrap());
        let people = send(app, owner, ("GET", &of_library("people")), "").await;
        Self {
            person: text(&people.json()["results"][0]["id"]),
            clustering,
            library,
            enrollment: text(&enrolled.json()["results"][0]["enrollment_id"]),
            collection,
            subject,
            image: text(&result["image_id"]),
            face: text(&result["faces"][0]["face_id"]),
            batch: created("/batches", batch()).await,
            webhook: created("/webhooks", json!({"url": "https://1.1.1.1/"})).await,
            erasure: created("/erasures", json!({"source": "nothing has it"})).await,
            key: created("/keys", json!({"name": "second", "scopes": ["read"]})).await,
        }
    }

    /// Returns the address of a route for what the tenant has. Panics for a route that this test does not know.
    fn uri(&self, path: &str) -> String {
        let ids = [
            ("/images/", &self.image),
            ("/faces/", &self.face),
            ("/batches/", &self.batch),
            ("/webhooks/", &self.webhook),
            ("/keys/", &self.key),
            ("/erasures/", &self.erasure),
            ("/collections/", &self.collection),
        ];
        let (_, id) = ids
            .iter()
            .find(|(prefix, _)| path.starts_with(prefix))
            .unwrap_or_else(|| panic!("add an id for {path} to this test"));
        let of_libraries = ["/clusterings", "/people", "{id}/enrollments"];
        let is_of_library =
            of_libraries.iter().any(|part| path.contains(part)) && !path.ends_with("{enrollment}");
        let id = if is_of_library { &self.library } else { id };
        path.replace("{id}", id)
            .replace("{subject}", &self.subject)
            .replace("{enrollment}", &self.enrollment)
            .replace("{person}", &self.person)
            .replace("{clustering}", &self.clustering)
    }
}

fn body_of_images() -> String {
    json!({"images": [photo("t1.jpg")]}).to_string()
}

fn body_of_faces() -> String {
    json!({"faces": [photo("t1.jpg")]}).to_string()
}

fn batch() -> Value {
    json!({"operation": "detect", "open": true, "items": [item("a", "t1.jpg")]})
}

#[tokio::test]
async fn the_ids_of_another_tenant_are_not_found() {
    let app = TestApp::with(&[
        LOCKED,
        ("FACESCAN__RECOGNITION__PURPOSES", "[entry control]"),
        ("FACESCAN__URLS__ENABLED", "true"),
        ("FACESCAN__URLS__ALLOW_PRIVATE", "true"),
    ])
    .await;
    let (owner, stranger) = (
        key(&app, "owner", &Scope::ALL).await,
        key(&app, "stranger", &Scope::ALL).await,
    );
    let owned = Owned::create(&app, &owner).await;
    let with_id = || {
        routes()
            .into_iter()
            .filter(|route| route.path.contains('{'))
    };
    for route in with_id() {
        let name = format!("{} {}", route.method, route.path);
        let uri = owned.uri(&route.path);
        let body = match route.method.as_str() {
            "POST" if route.path.starts_with("/collections") => body_of_faces(),
            "PUT" => json!({"person_id": null}).to_string(),
            "POST" => json!({"items": []}).to_string(),
            "PATCH" => json!({}).to_string(),
            _ => String::new(),
        };
        let reply = send(&app, &stranger, (&route.method, &uri), body).await;
        assert_eq!(reply.status, StatusCode::NOT_FOUND, "{name}: {reply:?}");
    }
    for uri in ["/images", "/batches", "/webhooks", "/collections"] {
        let reply = send(&app, &stranger, ("GET", uri), "").await;
        assert_eq!(reply.json()["results"], json!([]), "{uri}");
    }
    let keys = send(&app, &stranger, ("GET", "/keys"), "").await;
    assert_eq!(keys.json()["results"].as_array().unwrap().len(), 1);

    // The owner still has everything.
    let gets = with_id().filter(|route| route.method == "GET" && !route.path.ends_with("events"));
    for route in gets {
        let reply = send(&app, &owner, ("GET", &owned.uri(&route.path)), "").await;
        assert_eq!(reply.status, StatusCode::OK, "{}", route.path);
    }
}

/// A key that may only erase takes nothing of others, reads nothing, and leaves an entry.
#[tokio::test]
async fn an_erasure_leaves_what_other_tenants_have_and_is_recorded() {
    let app = locked().await;
    let mut images = Vec::new();
    for tenant in ["alice", "bob"] {
        let own = key(&app, tenant, &[Scope::Infer, Scope::Read]).await;
        let uri = "/detect?store=true&source=door";
        let scan = send(&app, &own, ("POST", uri), body_of_images()).await;
        let image = scan.result()["image_id"].as_str().unwrap().to_owned();
        images.push((own, format!("/images/{image}")));
    }
    let erases = key(&app, "alice", &[Scope::Erase]).await;
    let everything = json!({"source": "door"}).to_string();
    let report = send(&app, &erases, ("POST", "/erasures"), everything).await;
    assert_eq!(report.json()["erased"]["images"], 1);
    let uri = &images[1].1;
    assert_eq!(status(&app, &erases, ("GET", uri)).await, 403);
    assert_eq!(status(&app, &erases, ("DELETE", uri)).await, 404);
    for ((own, uri), expected) in images.iter().zip([404, 200]) {
        assert_eq!(status(&app, own, ("GET", uri)).await, expected, "{uri}");
    }
    let trail = entries(&app, "alice").await;
    let erasure = trail.iter().find(|entry| entry.entry.action == "erase");
    let by = erasure.unwrap().entry.key_id.as_deref();
    assert_eq!(by, Some(&erases[4..20]));
}

#[tokio::test]
async fn a_result_of_another_tenant_is_not_an_answer() {
    let app = locked().await;
    let (first, second) = (
        key(&app, "first", &Scope::ALL).await,
        key(&app, "second", &Scope::ALL).await,
    );
    let detect = async |key: &str| {
        let reply = send(&app, key, ("POST", "/detect?store=true"), body_of_images()).await;
        let result = reply.result();
        (result["image_id"].clone(), result["cached"] == true)
    };
    let (id, cached) = detect(&first).await;
    assert!(!cached);
    assert_eq!(detect(&first).await, (id.clone(), true));
    let (other_id, cached) = detect(&second).await;
    assert!(!cached && other_id != id);

    // A stored face is compared only for its tenant, and only for a key that may read it.
    let embedded = send(&app, &first, ("POST", "/embed"), body_of_images()).await;
    let id = json!({"face_id": embedded.result()["faces"][0]["face_id"]});
    let pair = json!({"a": id, "b": id}).to_string();
    let infer = key(&app, "first", &[Scope::Infer]).await;
    for (key, status) in [
        (&first, StatusCode::OK),
        (&second, StatusCode::NOT_FOUND),
        (&infer, StatusCode::FORBIDDEN),
    ] {
        let reply = send(&app, key, ("POST", "/verify"), pair.clone()).await;
        assert_eq!(reply.status, status, "{:?}", reply.body);
    }

    // An idempotency key belongs to its tenant.
    let submit = async |key: &str| {
        let headers = [
            ("x-api-key", key),
            ("content-type", "application/json"),
            ("idempotency-key", "the same"),
        ];
        let body = batch().to_string();
        let reply = app.call("POST", "/batches", &headers, body).await;
        (reply.status, reply.json()["id"].clone())
    };
    let (status, batch) = submit(&first).await;
    assert_eq!(status, StatusCode::ACCEPTED);
    assert_eq!(submit(&first).await, (StatusCode::OK, batch.clone()));
    let (status, other_batch) = submit(&second).await;
    assert_eq!(status, StatusCode::ACCEPTED);
    assert_ne!(other_batch, batch);
}
