//! A server that needs no key, because it listens on a loopback address.

use axum::{
    body::Body,
    http::{Request, StatusCode, Version},
};

use crate::support::app::{Reply, TestApp};

async fn get(app: &TestApp, uri: &str, headers: &[(&str, &str)]) -> Reply {
    app.call("GET", uri, headers, "").await
}

#[tokio::test]
async fn a_page_of_another_origin_cannot_use_a_server_without_keys() {
    let app = TestApp::start().await;
    let own = get(&app, "/images", &[("host", "localhost:8080")]).await;
    assert_eq!(own.status, StatusCode::OK);
    assert_eq!(own.headers["cache-control"], "no-store");
    for other in [
        ("host", "rebound.example"),
        ("origin", "https://page.example"),
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "same-site"),
    ] {
        let refused = get(&app, "/images", &[other]).await;
        assert_eq!(refused.status, StatusCode::FORBIDDEN, "{other:?}");
        assert_eq!(refused.code(), "forbidden");
        // Probes of an orchestrator name the server as they like.
        let probed = get(&app, "/livez", &[other]).await;
        assert_eq!(probed.status, StatusCode::OK);
    }
    // A link on another page leads to the pages of the API, which have no data.
    let link = [
        ("host", "localhost:8080"),
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-mode", "navigate"),
    ];
    assert_eq!(get(&app, "/docs/", &link).await.status, StatusCode::OK);
    assert_eq!(
        get(&app, "/images", &link).await.status,
        StatusCode::FORBIDDEN
    );
}

/// Whatever route, method and version of HTTP: nginx and Apache with their usual settings, Envoy, clouds.
#[tokio::test]
async fn a_proxy_cannot_open_a_server_without_keys() {
    let app = TestApp::start().await;
    for headers in [
        &[("x-real-ip", "203.0.113.9"), ("x-forwarded-proto", "https")][..],
        &[
            ("x-forwarded-for", "203.0.113.9"),
            ("x-forwarded-host", "faces.example"),
            ("x-forwarded-server", "faces.example"),
        ],
        &[("via", "1.1 faces.example")],
        &[("forwarded", "for=127.0.0.1;host=localhost")],
        &[("x-envoy-expected-rq-timeout-ms", "15000")],
        &[("cf-connecting-ip", "203.0.113.9")],
        &[("x-forwarded-for", "")],
        &[("x-forwarded-for", "127.0.0.1"), ("x-forwarded-for", "::1")],
    ] {
        for (method, uri) in [
            ("GET", "/images"),
            ("HEAD", "/images"),
            ("POST", "/detect"),
            ("POST", "/erasures"),
            ("DELETE", "/keys/5f0c2a9be1d34c77"),
            ("GET", "/metrics"),
        ] {
            for (version, uri) in [
                (Version::HTTP_11, uri.to_owned()),
                (Version::HTTP_2, format!("http://127.0.0.1:8080{uri}")),
            ] {
                let mut request = Request::builder().method(method).uri(&uri).version(version);
                for (name, value) in headers {
                    request = request.header(*name, *value);
                }
                let refused = app.send(request.body(Body::empty()).unwrap()).await;
                assert_eq!(
                    refused.status,
                    StatusCode::FORBIDDEN,
                    "{method} {uri} {headers:?}"
                );
            }
        }
    }
    let text = get(&app, "/images", &[("via", "1.1 a")]).await.json()["detail"].to_string();
    assert!(
        text.contains("access.mode") && text.contains("proxy"),
        "{text}"
    );
}
