//! Mistakes with keys, URLs and origins.

use axum::{body::Body, http::Request};
use facescan_config::scope::Scope;
use insta::assert_json_snapshot;
use serde_json::json;

use super::Mistakes;
use crate::access::{key, send};

#[tokio::test]
async fn mistakes_with_keys_urls_and_origins() {
    let url = |url: &str| json!({"images": [{"url": url}]});
    let mut told = Mistakes::with(&[]).await;
    told.json("a url", "/detect", &url("https://example.org/a.jpg"))
        .await;
    told.json(
        "keys of an open server",
        "/keys",
        &json!({"name": "a", "scopes": ["read"]}),
    )
    .await;
    let proxied = Request::get("/images")
        .header("host", "photos.example.com")
        .body(Body::empty());
    told.request("through a proxy", proxied.unwrap()).await;
    let mut fetching = Mistakes::with(&[("FACESCAN__URLS__ENABLED", "true")]).await;
    for (what, address) in [
        ("a url over http", "http://example.org/a.jpg"),
        ("a url of a private host", "https://127.0.0.1/a.jpg"),
        ("no url", "a.jpg"),
    ] {
        fetching.json(what, "/detect", &url(address)).await;
    }
    told.told.append(&mut fetching.told);

    let mut open = Mistakes::with(&[("FACESCAN__ACCESS__MODE", "off")]).await;
    let preflight = Request::options("/detect")
        .header("origin", "https://page.example")
        .header("access-control-request-method", "POST")
        .body(Body::empty());
    open.request("a page of another origin", preflight.unwrap())
        .await;
    told.told.append(&mut open.told);

    let mut locked = Mistakes::with(&[("FACESCAN__ACCESS__MODE", "required")]).await;
    locked.get("no key", "/images").await;
    let reader = key(&locked.app, "default", &[Scope::Read]).await;
    let admin = key(&locked.app, "default", &[Scope::Admin]).await;
    let reply = send(&locked.app, "fsk_wrong", ("GET", "/images"), "").await;
    locked.note("a wrong key", &reply);
    let reply = send(&locked.app, &reader, ("POST", "/detect"), "{}").await;
    locked.note("a key without the scope", &reply);
    let new = json!({"name": "a", "scopes": ["read", "root", "serch"], "expires": "2001-01-01T00:00:00Z"});
    let reply = send(&locked.app, &admin, ("POST", "/keys"), new.to_string()).await;
    locked.note("a key with scopes that do not exist", &reply);
    told.told.append(&mut locked.told);
    assert_json_snapshot!(told.told);
}
