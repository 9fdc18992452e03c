//! A Qdrant server that is unreachable, does not answer, or refuses.

use serde_json::json;
use url::Url;

use super::{
    super::{ALLOWED, call, create, enroll, found, gallery, id, search, search_body, subject},
    start, with_qdrant,
};
use crate::support::{
    app::TestApp,
    chaos_proxy::ChaosProxy,
    qdrant::{QdrantServer, is_external},
    values::photo,
};

async fn proxy_of(server: &QdrantServer) -> ChaosProxy {
    let url = Url::parse(&server.url).unwrap();
    ChaosProxy::start((url.host_str().unwrap(), url.port().unwrap_or(6334))).await
}

#[tokio::test(flavor = "multi_thread")]
async fn searches_are_refused_while_the_server_is_away() {
    with_qdrant(|url, server| async move {
        let mut proxy = proxy_of(&server).await;
        let address = format!("http://{}", proxy.address());
        let mut settings = server.settings_at(&address);
        settings.extend([
            ("DATABASE_URL", url.as_str()),
            ("FACESCAN__QDRANT__TIMEOUT_MS", "500"),
            ALLOWED,
        ]);
        let app = TestApp::with(&settings).await;
        let staff = create(&app, gallery("staff")).await;
        let obama = subject(&app, &staff, json!({})).await;
        enroll(&app, &obama, &[photo("obama.jpg")], json!({})).await;
        let uri = format!("{staff}/search");
        let faces = format!("{obama}/enrollments");
        let body = || search_body(photo("obama2.jpg"), json!({}));
        for is_frozen in [false, true] {
            match is_frozen {
                true => proxy.freeze(),
                false => proxy.cut().await,
            }
            let refused = call(&app, "POST", &uri, body()).await;
            refused.assert_error(503, "index_unavailable");
            let detail = refused.json()["detail"].to_string();
            assert!(!detail.contains("127.0.0.1"), "{detail}");
            let new = json!({"faces": [photo("obama3.jpg")], "options": {}});
            let refused = call(&app, "POST", &faces, new).await;
            refused.assert_error(503, "index_unavailable");
            app.app.collections.index.refresh().await.unwrap_err();
            // What needs no search still works.
            subject(&app, &staff, json!({})).await;
            proxy.restore();
            let answer = search(&app, &staff, photo("obama2.jpg"), json!({})).await;
            assert_eq!(found(&answer), [id(&obama)], "{is_frozen}");
            app.app.collections.index.refresh().await.unwrap();
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_starts_without_the_index_and_uses_it_later() {
    with_qdrant(|url, server| async move {
        let staff;
        {
            let app = start(&url, &server).await;
            staff = create(&app, gallery("staff")).await;
            let obama = subject(&app, &staff, json!({})).await;
            enroll(&app, &obama, &[photo("obama.jpg")], json!({})).await;
        }
        let mut proxy = proxy_of(&server).await;
        proxy.cut().await;
        let address = format!("http://{}", proxy.address());
        let mut settings = server.settings_at(&address);
        settings.extend([("DATABASE_URL", url.as_str()), ALLOWED]);
        let app = TestApp::with(&settings).await;
        app.app.collections.index.load().await.unwrap_err();
        proxy.restore();
        let answer = search(&app, &staff, photo("obama2.jpg"), json!({})).await;
        assert_eq!(answer["candidates"].as_array().unwrap().len(), 1);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_key_is_an_outage() {
    if is_external() {
        println!("skipped: the server of QDRANT_URL may have no key");
        return;
    }
    with_qdrant(|url, mut server| async move {
        "another key".clone_into(&mut server.key);
        let app = start(&url, &server).await;
        let staff = create(&app, gallery("staff")).await;
        let body = search_body(photo("obama.jpg"), json!({}));
        let refused = call(&app, "POST", &format!("{staff}/search"), body).await;
        refused.assert_error(503, "index_unavailable");
    })
    .await;
}

#[tokio::test]
async fn an_index_without_an_address_does_not_start() {
    let error = TestApp::refusal(&[("FACESCAN__RECOGNITION__INDEX", "qdrant")]).await;
    assert!(error.contains("qdrant.url"), "{error}");
}
