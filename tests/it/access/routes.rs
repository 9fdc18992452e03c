//! Every route of the document needs the scope that it names.

use axum::http::StatusCode;
use facescan_config::scope::Scope;
use serde_json::Value;
use uuid::Uuid;

use super::{LOCKED, key, locked, send, status};
use crate::support::app::TestApp;

/// An operation of the document.
pub(super) struct Route {
    pub(super) method: String,
    pub(super) path: String,
    pub(super) security: Value,
}

/// Returns every operation of the document.
pub(super) fn routes() -> Vec<Route> {
    let document = serde_json::to_value(facescan::http::openapi_document()).unwrap();
    let mut routes = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            routes.push(Route {
                method: method.to_uppercase(),
                path: path.clone(),
                security: operation["security"].clone(),
            });
        }
    }
    assert!(routes.len() > 20);
    routes
}

/// A stolen key does what its scope names, and nothing else. `search_vectors` alone does nothing.
#[tokio::test]
async fn every_route_needs_its_scope() {
    let app = locked().await;
    let mut opened = Scope::ALL.map(|scope| (scope, 0));
    for Route {
        method,
        path,
        security,
    } in routes()
    {
        let name = format!("{method} {path}");
        let uri = path.replace("{id}", &Uuid::nil().to_string());
        if ["/livez", "/readyz"].contains(&path.as_str()) {
            assert_eq!(security, serde_json::json!([{}]), "{name}");
            assert_eq!(app.get(&uri).await.status, StatusCode::OK, "{name}");
            continue;
        }
        let scope = security[0]["key"][0].as_str();
        let scope = scope.unwrap_or_else(|| panic!("{name} names no scope"));
        let scope = Scope::of_name(scope).unwrap();

        let none = app.call(&method, &uri, &[], "").await;
        none.assert_error_of(&name, 401, "unauthorized");
        assert_eq!(none.headers["www-authenticate"], "Bearer", "{name}");

        let others: Vec<Scope> = Scope::ALL
            .into_iter()
            .filter(|other| *other != scope)
            .collect();
        let others = key(&app, "default", &others).await;
        let refused = send(&app, &others, (&method, &uri), "").await;
        refused.assert_error_of(&name, 403, "forbidden");
        let detail = refused.json()["detail"].to_string();
        assert!(
            detail.contains(&format!("`{}`", scope.name())),
            "{name}: {detail}"
        );

        let own = key(&app, "default", &[scope]).await;
        let admitted = send(&app, &own, (&method, &uri), "").await;
        assert!(
            !["unauthorized", "forbidden"].contains(&code(&admitted.body).as_str()),
            "{name}"
        );
        let of_scope = opened.iter_mut().find(|(other, _)| *other == scope);
        of_scope.unwrap().1 += 1;
    }
    for (scope, routes) in opened {
        match scope {
            Scope::SearchVectors => assert_eq!(routes, 0),
            Scope::Metrics => assert_eq!(routes, 1),
            _ => assert!(routes > 1, "{}", scope.name()),
        }
    }
}

/// Returns the code of a response, if it is an error.
fn code(body: &[u8]) -> String {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    body["code"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn the_pages_of_the_api_are_open_and_other_methods_need_a_key() {
    let app = locked().await;
    for uri in ["/docs/", "/openapi.json"] {
        assert_eq!(app.get(uri).await.status, StatusCode::OK, "{uri}");
    }
    assert_eq!(app.get("/nothing").await.status, StatusCode::NOT_FOUND);
    // HEAD needs what GET needs.
    let head = app.call("HEAD", "/images", &[], "").await;
    assert_eq!(head.status, StatusCode::UNAUTHORIZED);
    assert_eq!(app.delete("/detect").await.status, StatusCode::UNAUTHORIZED);
    let any = key(&app, "default", &[Scope::Search]).await;
    assert_eq!(status(&app, &any, ("DELETE", "/detect")).await, 405);
}

#[tokio::test]
async fn only_pages_of_the_allowed_origins_may_send_requests() {
    let origins = (
        "FACESCAN__SERVER__CORS_ORIGINS",
        "[https://app.example.com]",
    );
    let app = TestApp::with(&[LOCKED, origins]).await;
    let allowed = async |app: &TestApp, origin: &str| {
        // A browser asks before it sends the key, so this request has none.
        let headers = [
            ("origin", origin),
            ("access-control-request-method", "POST"),
            ("access-control-request-headers", "x-api-key"),
        ];
        let reply = app.call("OPTIONS", "/detect", &headers, "").await;
        let value = |name: &str| Some(reply.headers.get(name)?.to_str().unwrap().to_owned());
        value("access-control-allow-origin").zip(value("access-control-allow-headers"))
    };
    let (origin, headers) = allowed(&app, "https://app.example.com").await.unwrap();
    assert_eq!(origin, "https://app.example.com");
    assert!(
        headers.contains("x-api-key") && headers.contains("authorization"),
        "{headers}"
    );
    assert_eq!(allowed(&app, "https://evil.example.com").await, None);
    assert_eq!(
        allowed(&locked().await, "https://app.example.com").await,
        None
    );
}
