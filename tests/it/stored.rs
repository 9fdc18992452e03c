//! Stored results over HTTP: one scenario on both databases, and a database that becomes unreachable.

use axum::http::StatusCode;
use serde_json::Value;

use crate::support::{
    app::{TestApp, image_file, result_of},
    chaos_proxy::ChaosProxy,
    database::{Database, on_both, on_postgres},
};

fn text(value: &Value) -> String {
    value
        .as_str()
        .unwrap_or_else(|| panic!("{value} is not a string"))
        .to_owned()
}

fn faces(result: &Value) -> Vec<Value> {
    result["faces"].as_array().unwrap().clone()
}

async fn scenario(app: &TestApp) {
    // The first request runs inference and stores everything.
    let first = result_of(app, "/embed?source=album&quality=true", "t1.jpg").await;
    assert_eq!(first["cached"], false);
    assert_eq!(faces(&first).len(), 6);

    // The same image from another source is answered from the store.
    let again = result_of(app, "/embed?source=feed&quality=true", "t1.jpg").await;
    assert_eq!(again["cached"], true);
    for field in ["image_id", "image", "faces"] {
        assert_eq!(again[field], first[field], "{field}");
    }

    // Other options and other operations on the same image are not answered from the store.
    let fewer = result_of(app, "/embed?quality=true&max_faces=2", "t1.jpg").await;
    assert_eq!(
        (fewer["cached"].as_bool(), faces(&fewer).len()),
        (Some(false), 2)
    );
    assert_eq!(fewer["image_id"], first["image_id"]);
    let uncached = result_of(app, "/embed?quality=true&cache=false", "t1.jpg").await;
    assert_eq!(uncached["cached"], false);
    let unstored = result_of(app, "/detect?store=false", "t1.jpg").await;
    assert!(unstored.get("image_id").is_none() && unstored["faces"][0].get("face_id").is_none());
    let graded = result_of(app, "/quality", "t1.jpg").await;
    let size = &graded["picture_quality"]["measured_size"];
    assert_eq!(*size, serde_json::json!([640, 443]));
    let regraded = result_of(app, "/quality", "t1.jpg").await;
    assert_eq!(regraded["cached"], true);
    assert_eq!(regraded["picture_quality"], graded["picture_quality"]);

    // A second image, and the list of images.
    let other = result_of(app, "/embed?source=feed", "obama.jpg").await;
    let page = app.get("/images?limit=1").await.json();
    assert_eq!(page["results"][0]["id"], other["image_id"], "newest first");
    let next = format!("/images?limit=1&after={}", text(&page["next"]));
    let rest = app.get(&next).await.json();
    assert_eq!(rest["results"][0]["id"], first["image_id"]);
    assert!(rest.get("next").is_none());
    let of_album = app.get("/images?source=album").await.json();
    let of_album = of_album["results"].as_array().unwrap();
    assert_eq!(of_album.len(), 1);
    assert_eq!(of_album[0]["id"], first["image_id"]);

    // One image with all its data, and one face.
    let image_uri = format!("/images/{}", text(&first["image_id"]));
    let image = app.get(&image_uri).await.json();
    let sources = image["sources"].as_array().unwrap().iter();
    let mut sources: Vec<String> = sources.map(|source| text(&source["source"])).collect();
    sources.sort();
    assert_eq!(sources, ["album", "feed"]);
    let scans = image["scans"].as_array().unwrap();
    assert!(scans.len() > 2 && image.get("next").is_none());
    let (mut paged, mut uri) = (Vec::new(), format!("{image_uri}?limit=1"));
    loop {
        let page = app.get(&uri).await.json();
        paged.extend(page["scans"].as_array().unwrap().clone());
        let Some(next) = page.get("next") else { break };
        uri = format!("{image_uri}?limit=1&after={}", text(next));
    }
    assert_eq!(&paged, scans);
    let refused = app.get(&format!("{image_uri}?limit=101")).await;
    assert_eq!(refused.code(), "invalid_option");
    let face_uri = format!("/faces/{}", text(&first["faces"][0]["face_id"]));
    let face = app.get(&face_uri).await.json();
    assert_eq!(face["precision"], "f32");
    for field in "bbox score landmarks embedding embedding_norm precision".split(' ') {
        assert_eq!(face[field], first["faces"][0][field], "{field}");
    }

    // An erased face is erased from every scan, and the store no longer answers for the image.
    assert_eq!(app.delete(&face_uri).await.status, StatusCode::NO_CONTENT);
    assert_eq!(app.get(&face_uri).await.status, StatusCode::NOT_FOUND);
    assert_eq!(app.delete(&face_uri).await.status, StatusCode::NOT_FOUND);
    let left = app.get(&image_uri).await.json();
    for scan in left["scans"].as_array().unwrap() {
        assert!(
            faces(scan).iter().all(|left| left["bbox"] != face["bbox"]),
            "{scan}"
        );
    }
    let rescanned = result_of(app, "/embed?quality=true", "t1.jpg").await;
    assert_eq!(
        (rescanned["cached"].as_bool(), faces(&rescanned).len()),
        (Some(false), 6)
    );

    // Erasing an image erases everything derived from it.
    let remaining = text(&rescanned["faces"][1]["face_id"]);
    assert_eq!(app.delete(&image_uri).await.status, StatusCode::NO_CONTENT);
    assert_eq!(app.get(&image_uri).await.status, StatusCode::NOT_FOUND);
    let other = app.get(&format!("/faces/{remaining}")).await;
    assert_eq!(other.status, StatusCode::NOT_FOUND);
    let fresh = result_of(app, "/embed?quality=true", "t1.jpg").await;
    assert_eq!(fresh["cached"], false);
    assert_ne!(fresh["image_id"], first["image_id"]);
}

on_both!(
    results_are_stored_found_listed_and_erased,
    |database: Database| async move {
        scenario(&TestApp::with_database(&database, &[]).await).await;
    }
);

#[tokio::test]
async fn requests_without_storage_succeed_while_the_database_is_unreachable() {
    on_postgres(async |database| {
        let mut proxy = ChaosProxy::start(database.address()).await;
        let url = database.url_through(proxy.address());
        let timeout = ("FACESCAN__DATABASE__ACQUIRE_TIMEOUT_MS", "1000");
        let app = TestApp::with(&[("DATABASE_URL", &url), timeout]).await;
        assert_eq!(app.get("/readyz").await.status, StatusCode::OK);

        proxy.cut().await;
        let refused = app.post("/detect", image_file("t1.jpg")).await;
        refused.assert_error(503, "store_unavailable");
        let uncached = app.post("/detect?cache=false", image_file("t1.jpg")).await;
        assert_eq!(uncached.code(), "store_unavailable");
        assert_eq!(app.get("/images").await.code(), "store_unavailable");
        let unstored = result_of(&app, "/detect?store=false", "t1.jpg").await;
        assert_eq!(faces(&unstored).len(), 6);
        let held_back = app.get("/readyz").await;
        assert_eq!(held_back.status, StatusCode::SERVICE_UNAVAILABLE);
        assert!(text(&held_back.json()["reasons"][0]).contains("database"));

        proxy.restore();
        let stored = result_of(&app, "/detect", "t1.jpg").await;
        assert_eq!(
            stored["cached"], false,
            "nothing was written while the database was unreachable"
        );
        assert_eq!(app.get("/readyz").await.status, StatusCode::OK);
    })
    .await;
}
