//! The life of a key.

use axum::{body::Body, http::StatusCode};
use facescan_config::scope::Scope;
use serde_json::json;

use super::{LOCKED, key, locked, send, status};
use crate::support::{
    app::{Reply, TestApp, image_file},
    cli::facescan,
    values::photo,
};

#[tokio::test]
async fn a_key_is_shown_once_used_and_revoked() {
    let app = locked().await;
    let admin = key(&app, "default", &[Scope::Admin]).await;
    let body = json!({"name": "crawler 7", "scopes": ["read", "infer", "read"]}).to_string();
    let created = send(&app, &admin, ("POST", "/keys"), body).await;
    assert_eq!(created.status, StatusCode::CREATED, "{:?}", created.body);
    let created = created.json();
    let text = created["key"].as_str().unwrap().to_owned();
    let id = created["id"].as_str().unwrap();
    assert!(text.starts_with(&format!("fsk_{id}_")));
    assert_eq!(created["scopes"], json!(["read", "infer"]));

    assert_eq!(status(&app, &text, ("GET", "/models")).await, 200);
    let listed = send(&app, &admin, ("GET", "/keys"), "").await;
    assert!(
        !String::from_utf8_lossy(&listed.body).contains(&text[21..]),
        "a list shows a secret"
    );
    let used = async || {
        let keys = send(&app, &admin, ("GET", "/keys"), "").await.json();
        let keys = keys["results"].as_array().unwrap().clone();
        keys.iter()
            .any(|key| key["id"] == id && key["last_used_at"].is_string())
    };
    // The use is recorded in the background.
    while !used().await {
        tokio::task::yield_now().await;
    }

    let uri = format!("/keys/{id}");
    assert_eq!(status(&app, &admin, ("DELETE", &uri)).await, 204);
    assert_eq!(status(&app, &text, ("GET", "/models")).await, 401);
    let unknown = ("DELETE", "/keys/0000");
    assert_eq!(status(&app, &admin, unknown).await, 404);
}

#[tokio::test]
async fn a_wrong_key_is_refused_and_a_field_that_is_not_valid_is_named() {
    let app = locked().await;
    let admin = key(&app, "default", &[Scope::Admin]).await;
    let id = &admin[4..20];
    for wrong in [
        String::new(),
        "secret".to_owned(),
        format!("fsk_{id}_wrong"),
        format!("fsk_{id}_"),
        admin.replace(id, "0123456789abcdef"),
    ] {
        assert_eq!(status(&app, &wrong, ("GET", "/keys")).await, 401, "{wrong}");
    }
    for body in [
        json!({"name": "", "scopes": ["read"]}),
        json!({"name": "a", "scopes": []}),
        json!({"name": "a", "scopes": ["read"], "expires_at": "2001-01-01T00:00:00Z"}),
        json!({"name": "a", "scopes": ["root"]}),
        json!({"name": "a", "scopes": ["read"], "tenant": "other"}),
    ] {
        let reply = send(&app, &admin, ("POST", "/keys"), body.to_string()).await;
        assert_eq!(reply.code(), "invalid_option", "{body}");
    }
}

#[tokio::test]
async fn a_server_that_needs_no_key_manages_none() {
    let app = TestApp::start().await;
    let body = json!({"name": "for later", "scopes": ["admin"]}).to_string();
    let refused = app.post_as("/keys", "application/json", body).await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN);
    assert_eq!(app.get("/keys").await.code(), "forbidden");
    let strange = "keys create --name a --scopes read --digest --tenant";
    let mut strange = facescan(strange.split(' '));
    let output = strange.arg("a b").output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}

#[tokio::test]
async fn a_known_key_works_while_the_database_is_away() {
    // Each request reads the key again.
    let app = TestApp::with(&[LOCKED, ("FACESCAN__ACCESS__KEY_CACHE_S", "0")]).await;
    let (known, other) = (
        key(&app, "default", &[Scope::Infer]).await,
        key(&app, "default", &[Scope::Infer]).await,
    );
    let detect = async |key: &str| {
        let headers = [("x-api-key", key), ("content-type", "image/jpeg")];
        let image = image_file("t1.jpg");
        app.call("POST", "/detect?store=false", &headers, image)
            .await
    };
    assert_eq!(detect(&known).await.status, StatusCode::OK);
    app.app.store.close().await;
    assert_eq!(detect(&known).await.status, StatusCode::OK);
    let unknown = detect(&other).await;
    unknown.assert_error(503, "store_unavailable");
}

#[tokio::test]
async fn a_key_of_the_settings_needs_no_database() {
    let create = "keys create --name edge --scopes infer,read --tenant edge --digest";
    let created = facescan(create.split(' ')).output().unwrap();
    assert!(created.status.success(), "{created:?}");
    let text = String::from_utf8(created.stdout).unwrap();
    let (key, entry) = text.trim().split_once('\n').unwrap();
    let entries = format!("[{entry}]");
    let app = TestApp::with(&[LOCKED, ("FACESCAN__ACCESS__KEYS", &entries)]).await;
    app.app.store.close().await;
    assert_eq!(status(&app, key, ("GET", "/models")).await, 200);
    assert_eq!(status(&app, key, ("GET", "/keys")).await, 403);
    let wrong = format!("{key}x");
    assert_eq!(status(&app, &wrong, ("GET", "/models")).await, 401);
}

#[test]
fn a_public_server_whose_keys_are_all_revoked_does_not_start() {
    let data = tempfile::tempdir().unwrap();
    let run = |args: &[&str]| {
        facescan(args)
            .env("FACESCAN__DATA_DIR", data.path())
            .env("FACESCAN__SERVER__HOST", "0.0.0.0")
            .env("FACESCAN__SERVER__PORT", "0")
            .output()
            .unwrap()
    };
    let created = run(&["keys", "create", "--name", "first", "--scopes", "infer"]);
    let key = String::from_utf8(created.stdout).unwrap();
    let id = &key[4..20];
    let listed = String::from_utf8(run(&["keys", "list"]).stdout).unwrap();
    assert!(listed.contains(id) && listed.contains("first"), "{listed}");
    assert!(run(&["keys", "revoke", id]).status.success());
    // A revoked key opens nothing, and a new first one would open the server to whoever can restart it.
    let refused = run(&["serve"]);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    let error = String::from_utf8_lossy(&refused.stderr);
    assert!(
        error.contains("facescan keys create") && error.contains("access.mode"),
        "{error}"
    );
}

#[test]
fn a_rotated_key_has_the_scopes_of_the_other_one() {
    let data = tempfile::tempdir().unwrap();
    let run = |args: &[&str]| {
        let output = facescan(args)
            .env("FACESCAN__DATA_DIR", data.path())
            .output()
            .unwrap();
        (
            output.status.success(),
            String::from_utf8(output.stdout).unwrap(),
        )
    };
    let (_, key) = run(&[
        "keys",
        "create",
        "--name",
        "crawler",
        "--scopes",
        "infer,batch",
    ]);
    let first = &key[4..20];
    let (_, key) = run(&["keys", "rotate", first]);
    let second = key[4..20].to_owned();
    let (_, key) = run(&["keys", "rotate", &second, "--revoke"]);
    let third = &key[4..20];
    let (_, list) = run(&["keys", "list"]);
    for id in [first, &second, third] {
        let line = list.lines().find(|line| line.contains(id)).unwrap();
        assert!(
            line.contains("crawler") && line.contains("infer,batch"),
            "{line}"
        );
    }
    let (has_rotated, _) = run(&["keys", "rotate", &second]);
    assert!(!has_rotated, "it is revoked");
}

#[tokio::test]
async fn a_key_that_sends_too_much_waits_and_another_one_does_not() {
    let settings = [
        LOCKED,
        ("FACESCAN__RATE_LIMITS__KEY_REQUESTS_PER_S", "1"),
        ("FACESCAN__RATE_LIMITS__BURST_S", "3600"),
    ];
    let app = TestApp::with(&settings).await;
    let (first, second) = (
        key(&app, "default", &[Scope::Read]).await,
        key(&app, "default", &[Scope::Read]).await,
    );
    let left = |reply: &Reply| reply.headers["ratelimit"].to_str().unwrap().to_owned();
    let admitted = send(&app, &first, ("GET", "/models"), "").await;
    assert_eq!(left(&admitted), "\"key-requests\";r=3599");
    assert_eq!(
        admitted.headers["ratelimit-policy"],
        "\"key-requests\";q=3600;w=3600"
    );
    let principal = app.app.access.authenticate(Some(&first)).await.unwrap();
    while app.app.rate_limits.take(&principal, 0).is_ok() {}
    let refused = send(&app, &first, ("GET", "/models"), "").await;
    refused.assert_error(429, "rate_limited");
    assert_eq!(refused.headers["retry-after"], "1");
    assert_eq!(left(&refused), "\"key-requests\";r=0;t=1");
    app.assert_metrics(&["facescan_refused_total{reason=\"rate_limit\"} 1\n"]);
    assert_eq!(status(&app, &second, ("GET", "/models")).await, 200);
}

#[tokio::test]
async fn a_tenant_has_only_so_many_waiting_items() {
    let limit = ("FACESCAN__RATE_LIMITS__TENANT_WAITING_ITEMS", "3");
    let app = TestApp::with(&[LOCKED, limit]).await;
    let (first, second) = (
        key(&app, "first", &[Scope::Batch]).await,
        key(&app, "second", &[Scope::Batch]).await,
    );
    let submit = async |key: &str, items: usize| {
        let items = vec![photo("t1.jpg"); items];
        let body = json!({"operation": "detect", "items": items}).to_string();
        send(&app, key, ("POST", "/batches"), body).await
    };
    assert_eq!(submit(&first, 2).await.status, StatusCode::ACCEPTED);
    let refused = submit(&first, 2).await;
    assert_eq!(refused.code(), "rate_limited");
    assert_eq!(refused.headers["retry-after"], "60");
    assert_eq!(submit(&first, 1).await.status, StatusCode::ACCEPTED);
    assert_eq!(submit(&second, 3).await.status, StatusCode::ACCEPTED);
    let batches = send(&app, &first, ("GET", "/batches"), "").await.json();
    assert_eq!(
        batches["results"].as_array().unwrap().len(),
        2,
        "a refused batch stays"
    );
}

#[tokio::test]
async fn pixels_and_streamed_bytes_are_charged_when_they_are_known() {
    let app = TestApp::with(&[
        LOCKED,
        ("FACESCAN__RATE_LIMITS__KEY_MEGAPIXELS_PER_S", "1"),
        ("FACESCAN__RATE_LIMITS__KEY_MEGABYTES_PER_S", "1"),
        ("FACESCAN__RATE_LIMITS__BURST_S", "1"),
    ])
    .await;
    // The image has 1.1 megapixels.
    let image = image_file("t1.jpg");
    let detect = async |key: &str, body: Body| {
        let headers = [("x-api-key", key), ("content-type", "image/jpeg")];
        app.call("POST", "/detect?store=false", &headers, body)
            .await
    };
    let first = key(&app, "default", &[Scope::Infer]).await;
    let reply = detect(&first, image.clone().into()).await;
    assert_eq!(reply.status, StatusCode::OK, "{:?}", reply.body);
    let reply = detect(&first, image.into()).await;
    assert_eq!(reply.code(), "rate_limited");
    assert!(reply.body.windows(14).any(|text| text == b"key-kilopixels"));

    let second = key(&app, "default", &[Scope::Infer]).await;
    let parts =
        futures::stream::iter((0..30).map(|_| Ok::<_, std::io::Error>(vec![0_u8; 100_000])));
    let reply = detect(&second, Body::from_stream(parts)).await;
    assert_eq!(reply.code(), "unsupported_media_type");
    let reply = detect(&second, Body::empty()).await;
    assert_eq!(reply.code(), "rate_limited");
    assert!(reply.body.windows(7).any(|text| text == b"key-kib"));
}
