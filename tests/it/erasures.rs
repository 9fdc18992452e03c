//! Erasing over HTTP: one story on both databases, and what files still have afterwards.

mod audit;
mod heads;
mod retention;

use axum::http::StatusCode;
use facescan_store::{ErasureTarget, NewErasure};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use walkdir::WalkDir;

use crate::{
    batches::{id_of, item, items, post_json, process_all, read, submit, worker},
    support::{
        app::{TestApp, image_file, numbers, result_of},
        database::{Database, on_postgres},
        values::assert_fields,
    },
};

const SETTINGS: &[(&str, &str)] = &[
    ("FACESCAN__RETENTION__PURGE_MINUTES", "0"),
    ("FACESCAN__RETENTION__BACKUP_DAYS", "30"),
    ("FACESCAN__URLS__ENABLED", "true"),
];

#[tokio::test(flavor = "multi_thread")]
async fn the_erasure_story() {
    story(&TestApp::with(SETTINGS).await).await;
    on_postgres(|database: Database| async move {
        story(&TestApp::with_database(&database, SETTINGS).await).await;
    })
    .await;
}

async fn story(app: &TestApp) {
    by_source(app).await;
    by_host(app).await;
    by_image(app).await;
    under_a_lease(app).await;
    whole_batch(app).await;
    after_an_interruption(app).await;
    purge(app).await;
    whole_tenant(app).await;
}

/// Scans an image and returns its id.
async fn scan(app: &TestApp, name: &str, query: &str) -> String {
    let uri = format!("/embed?store=true&{query}");
    let reply = app.post(&uri, image_file(name)).await;
    reply.result()["image_id"].as_str().unwrap().to_owned()
}

/// Erases, and returns the report.
async fn erase(app: &TestApp, body: Value) -> Value {
    let reply = post_json(app, "/erasures", &body).await;
    assert_eq!(reply.status, StatusCode::OK, "{:?}", reply.body);
    let report = reply.json();
    assert_eq!(report["state"], "erased", "{report}");
    let id = report["id"].as_str().unwrap();
    let again = app.get(&format!("/erasures/{id}")).await.json();
    assert_eq!(again["erased"], report["erased"]);
    report
}

/// Returns the numbers of erased images, items and payloads.
fn erased(report: &Value) -> [u64; 3] {
    ["images", "items", "payloads"].map(|name| report["erased"][name].as_u64().unwrap())
}

async fn is_stored(app: &TestApp, image: &str) -> bool {
    app.get(&format!("/images/{image}")).await.status == StatusCode::OK
}

/// Returns the names of the files of a batch.
fn files_of(app: &TestApp, batch: &str) -> Vec<String> {
    let folder = app.data_dir().join("payloads/default").join(batch);
    WalkDir::new(folder)
        .into_iter()
        .filter_map(Result::ok)
        .filter(|entry| entry.file_type().is_file())
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect()
}

/// An open batch keeps its images until they are processed.
async fn batch_of(app: &TestApp, operation: &str, items: Value) -> String {
    let body = json!({"operation": operation, "open": true, "items": items});
    id_of(&submit(app, &body).await)
}

async fn by_source(app: &TestApp) {
    let kept = scan(app, "obama.jpg", "source=door").await;
    let image = scan(app, "t1.jpg", "source=cam&source_url=https://a.test/x").await;
    let with_source = |id, name, source| {
        let mut item = item(id, name);
        item["source"] = json!(source);
        item
    };
    // The third item has the image of the first one from another source, so the file stays.
    let entries = json!([
        with_source("a", "t1.jpg", "cam"),
        with_source("b", "obama.jpg", "door"),
        with_source("c", "t1.jpg", "door"),
        with_source("d", "biden.jpg", "cam"),
    ]);
    let batch = batch_of(app, "detect", entries).await;
    assert_eq!(files_of(app, &batch).len(), 3);

    let report = erase(app, json!({"source": "cam"})).await;
    assert_eq!(erased(&report), [1, 2, 1]);
    assert_eq!(report["erased"]["vectors"], report["erased"]["faces"]);
    assert!(!report.to_string().contains("cam"), "{report}");
    let places: Vec<_> = report["copies"].as_array().unwrap().iter().collect();
    assert_eq!(places.last().unwrap()["place"], "backups");
    assert!(places.last().unwrap()["until"].is_string());
    assert!(!is_stored(app, &image).await && is_stored(app, &kept).await);
    assert_eq!(files_of(app, &batch).len(), 2);

    let listed = items(app, &batch, "").await;
    for index in [0, 3] {
        let item = &listed[index];
        assert_fields!(item, {"state": "cancelled", "error": {"code": "erased"}, "id": null});
    }
    let counts = &read(app, &batch).await["counts"];
    assert_fields!(counts, {"queued": 2, "cancelled": 2});
    process_all(app).await;
    let reply = post_json(app, &format!("/batches/{batch}/close"), &json!({})).await;
    assert_eq!(reply.json()["state"], "done");
    assert_eq!(reply.json()["counts"]["ok"], 2);
    erase(app, json!({"source": "door"})).await;
}

async fn by_host(app: &TestApp) {
    let longer = "source_url=https://img.example.com.test/a";
    let kept = scan(app, "obama.jpg", longer).await;
    let image = scan(app, "t1.jpg", "source_url=https://img.example.com:8443/a").await;
    // The same host, as it is spelled without a scheme and with the dot of the root.
    let others = [
        scan(app, "biden.jpg", "source_url=//img.example.com/c").await,
        scan(app, "obama2.jpg", "source_url=Img.Example.com./d").await,
    ];
    let mut sourced = item("w", "obama.jpg");
    sourced["source_url"] = json!("https://img%2eexample.com./e");
    let entries = json!([
        {"id": "u", "url": "https://img.example.com/b.jpg"},
        {"id": "v", "url": "https://other.example.com/b.jpg"},
        {"id": "x", "url": "https://IMG.example.com./b.jpg"},
        sourced,
    ]);
    let batch = batch_of(app, "detect", entries).await;
    let report = erase(app, json!({"host": "IMG.example.com."})).await;
    assert_eq!(erased(&report), [3, 3, 1]);
    assert!(!is_stored(app, &image).await && is_stored(app, &kept).await);
    for other in others {
        assert!(!is_stored(app, &other).await);
    }
    let listed = items(app, &batch, "").await;
    let states: Vec<_> = listed.iter().map(|item| &item["state"]).collect();
    assert_eq!(states, ["cancelled", "queued", "cancelled", "cancelled"]);
    app.delete(&format!("/batches/{batch}")).await;
    app.delete(&format!("/images/{kept}")).await;
}

async fn by_image(app: &TestApp) {
    // The result of the second item has an image that the operation made.
    let batch = batch_of(app, "enhance", json!([item("a", "t1.jpg")])).await;
    let entries = json!([item("b", "t1.jpg"), item("c", "obama.jpg")]);
    let other = batch_of(app, "detect", entries).await;
    process_all(app).await;
    assert!(!files_of(app, &batch).is_empty());
    let listed = items(app, &other, "").await;
    let image = listed[0]["result"]["image_id"].as_str().unwrap();
    let report = erase(app, json!({"image": image})).await;
    assert_eq!(erased(&report)[..2], [1, 2]);
    assert!(!is_stored(app, image).await);
    assert_eq!(files_of(app, &batch), Vec::<String>::new());
    let listed = items(app, &other, "").await;
    assert_fields!(listed[0], {"state": "ok", "error": {"code": "erased"}, "result": null});
    assert!(listed[1]["result"].is_object());
    let gone = post_json(app, "/erasures", &json!({"image": image})).await;
    assert_eq!(gone.status, StatusCode::NOT_FOUND);
    for batch in [batch, other] {
        let reply = app.delete(&format!("/batches/{batch}")).await;
        assert_eq!(reply.status, StatusCode::NO_CONTENT);
    }
}

/// A worker that has the chunk saves nothing of an erased item.
async fn under_a_lease(app: &TestApp) {
    let mut first = item("a", "t1.jpg");
    first["source"] = json!("cam");
    let batch = batch_of(app, "detect", json!([first, item("b", "obama.jpg")])).await;
    let worker = worker(app);
    let chunk = worker.claim(Vec::new()).await.unwrap().unwrap();
    let report = erase(app, json!({"source": "cam"})).await;
    assert_eq!(erased(&report), [0, 1, 1]);
    let counts = &read(app, &batch).await["counts"];
    assert_fields!(counts, {"queued": 1, "running": 0});
    worker.process_chunk(chunk, &CancellationToken::new()).await;
    let counts = &read(app, &batch).await["counts"];
    assert_fields!(counts, {"ok": 0, "cancelled": 1});
    process_all(app).await;
    let counts = &read(app, &batch).await["counts"];
    assert_fields!(counts, {"ok": 1, "cancelled": 1});
    let images = app.get("/images").await.json();
    assert_eq!(images["results"].as_array().unwrap().len(), 1);
    erase(app, json!({"batch": batch})).await;
}

async fn whole_batch(app: &TestApp) {
    let entries = json!([item("a", "t1.jpg"), item("b", "obama.jpg")]);
    let batch = batch_of(app, "embed", entries).await;
    process_all(app).await;
    let report = erase(app, json!({"batch": batch})).await;
    let counts = &report["erased"];
    assert_eq!(erased(&report)[..2], [2, 2]);
    assert_fields!(counts, {"batches": 1, "scans": 2});
    assert!(counts["faces"].as_u64().unwrap() >= 7, "{counts}");
    assert_eq!(counts["vectors"], counts["faces"]);
    let reply = app.get(&format!("/batches/{batch}")).await;
    assert_eq!(reply.status, StatusCode::NOT_FOUND);
}

/// The sweeper ends an erasure whose process died, also beside one that cannot be ended now.
async fn after_an_interruption(app: &TestApp) {
    let image = scan(app, "t1.jpg", "source=cam").await;
    let batch = batch_of(app, "enhance", json!([item("a", "t1.jpg")])).await;
    let erasures = &app.app.erasures;
    let interrupt = async |target| {
        let new = NewErasure {
            id: uuid::Uuid::now_v7(),
            tenant: "default".into(),
            target,
            requested_at: time::OffsetDateTime::now_utc() - time::Duration::minutes(3),
            audit: None,
        };
        assert!(erasures.store.begin_erasure(&new).await.unwrap());
        new.id
    };
    let of_batch = interrupt(ErasureTarget::Batch(batch.parse().unwrap())).await;
    let of_source = interrupt(ErasureTarget::Source("cam".into())).await;
    let report = async |id| app.get(&format!("/erasures/{id}")).await.json();

    let payloads = app.app.config.data_dir.join("payloads");
    let away = payloads.with_extension("away");
    std::fs::rename(&payloads, &away).unwrap();
    std::fs::write(&payloads, "a file in the place of the folder").unwrap();
    erasures.sweep().await.unwrap();
    assert!(!is_stored(app, &image).await);
    assert_eq!(erased(&report(of_source).await)[0], 1);
    assert!(report(of_batch).await["erased_at"].is_null());
    app.assert_metrics(&["facescan_sweeps_failed_total{sweep=\"erasures\"} 1\n"]);

    std::fs::remove_file(&payloads).unwrap();
    std::fs::rename(&away, &payloads).unwrap();
    erasures.sweep().await.unwrap();
    assert!(report(of_batch).await["erased_at"].is_string());
}

/// After the purge, no file of the database has the vectors.
async fn purge(app: &TestApp) {
    let scanned = result_of(app, "/embed?store=true&source=cam", "t1.jpg").await;
    let vector = numbers(&scanned["faces"][0]["embedding"]);
    let bytes: Vec<u8> = vector[..16].iter().flat_map(|v| v.to_le_bytes()).collect();
    let is_in_files = || {
        let files = std::fs::read_dir(app.data_dir()).unwrap();
        let files = files.map(|entry| entry.unwrap().path());
        files.filter(|path| path.is_file()).any(|path| {
            let content = std::fs::read(path).unwrap();
            content.windows(bytes.len()).any(|window| window == bytes)
        })
    };
    let on_sqlite = app.app.config.uses_sqlite();
    assert_eq!(is_in_files(), on_sqlite);
    let report = erase(app, json!({"source": "cam"})).await;
    app.app.erasures.sweep().await.unwrap();
    let id = report["id"].as_str().unwrap();
    let report = app.get(&format!("/erasures/{id}")).await.json();
    assert_eq!(report["state"], "purged", "{report}");
    assert!(report["purged_at"].is_string());
    assert!(!is_in_files());
}

async fn whole_tenant(app: &TestApp) {
    let image = scan(app, "t1.jpg", "source=cam").await;
    let batch = batch_of(app, "detect", json!([item("a", "biden.jpg")])).await;
    let webhook = json!({"url": "https://1.1.1.1/"});
    let reply = post_json(app, "/webhooks", &webhook).await;
    assert!(reply.status.is_success());
    let report = erase(app, json!({"tenant": "default"})).await;
    // The batch of the first step is still there.
    assert_eq!(erased(&report), [1, 5, 0]);
    assert_eq!(report["erased"]["batches"], 2);
    assert!(!is_stored(app, &image).await);
    assert_eq!(files_of(app, &batch), Vec::<String>::new());
    for uri in ["/images", "/batches", "/webhooks"] {
        assert_eq!(app.get(uri).await.json()["results"], json!([]), "{uri}");
    }
}

#[tokio::test]
async fn a_request_names_exactly_one_target() {
    let app = TestApp::start().await;
    for (body, status, code) in [
        (json!({}), 422, "invalid_option"),
        (json!({"image": "x"}), 422, "invalid_option"),
        (json!({"source": "a", "host": "b"}), 422, "invalid_option"),
        (json!({"everything": true}), 422, "invalid_option"),
        (json!({"host": "https://a.test/"}), 422, "invalid_option"),
        (json!({"source": ""}), 422, "invalid_option"),
        (json!({"tenant": "somebody"}), 422, "invalid_option"),
        (json!({"batch": uuid::Uuid::now_v7()}), 404, "not_found"),
    ] {
        let reply = post_json(&app, "/erasures", &body).await;
        reply.assert_error_of(body, status, code);
    }
}
