//! A server that needs no key, because it listens on a loopback address.

use axum::{
    body::Body,
    http::{Request, StatusCode},
};

use crate::support::app::TestApp;

#[tokio::test]
async fn a_page_of_another_origin_cannot_use_a_server_without_keys() {
    let app = TestApp::start().await;
    let get = async |uri: &str, (name, value): (&str, &str)| {
        let request = Request::get(uri).header(name, value);
        app.send(request.body(Body::empty()).unwrap()).await
    };
    let own = get("/images", ("host", "localhost:8080")).await;
    assert_eq!(own.status, StatusCode::OK);
    assert_eq!(own.headers["cache-control"], "no-store");
    for other in [
        ("host", "rebound.example"),
        ("origin", "https://page.example"),
    ] {
        let refused = get("/images", other).await;
        assert_eq!(refused.status, StatusCode::FORBIDDEN, "{other:?}");
        assert_eq!(refused.code(), "forbidden");
        // Probes of an orchestrator name the server as they like.
        assert_eq!(get("/livez", other).await.status, StatusCode::OK);
    }
}
