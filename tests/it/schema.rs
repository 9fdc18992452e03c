//! A database whose tables belong to another version of the program: nothing is written until they fit again.

use axum::http::StatusCode;
use facescan::access::keys::{self, NewKey};
use facescan_config::scope::Scope;
use serde_json::{Value, json};

use crate::{
    batches::{id_of, item, post_json, submit, worker},
    collections::gallery,
    support::{
        app::{TestApp, image_file, result_of},
        cli::facescan,
        database::{Database, on_both, on_sqlite},
    },
};

/// A migration that this version of the program does not know.
const UPGRADE: &str = "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) \
                       VALUES (99999, 'future', true, checksum_of_a_text, 0)";

const DOWNGRADE: &str = "DELETE FROM _sqlx_migrations WHERE version = 99999";

fn upgrade(database: &Database) -> String {
    let checksum = match database {
        Database::Sqlite { .. } => "x'00'",
        Database::Postgres { .. } => r"'\x00'::bytea",
    };
    UPGRADE.replace("checksum_of_a_text", checksum)
}

on_both!(
    nothing_is_written_to_a_newer_database,
    nothing_is_written_to_newer_tables
);

async fn nothing_is_written_to_newer_tables(database: Database) {
    let settings = [
        ("FACESCAN__RETENTION__RESULTS_DAYS", "1"),
        ("FACESCAN__RECOGNITION__PURPOSES", "[entry control]"),
        ("FACESCAN__RETENTION__PURGE_MINUTES", "0"),
    ];
    let app = TestApp::with_database(&database, &settings).await;
    let erased = stored_image(&app).await;
    app.delete(&format!("/images/{erased}")).await;
    let image = stored_image(&app).await;
    let open = json!({"operation": "detect", "open": true, "items": [item("a", "t1.jpg")]});
    let open = submit(&app, &open).await;

    database.execute(&upgrade(&database)).await;
    let before = database.dump().await;
    refuse_requests_that_write(&app, &image, &id_of(&open)).await;
    run_background_work_once(&app).await;
    refuse_commands(&database.url());
    assert_eq!(database.dump().await, before);

    let ready = app.get("/readyz").await;
    assert_eq!(ready.status, StatusCode::SERVICE_UNAVAILABLE);
    let reason = ready.json()["reasons"][0].to_string();
    assert!(reason.contains("another version"), "{reason}");
    serve_what_writes_nothing(&app, &image).await;

    database.execute(DOWNGRADE).await;
    assert_eq!(app.get("/readyz").await.status, StatusCode::OK);
    result_of(&app, "/detect?store=true", "t1.jpg").await;
    assert_ne!(database.dump().await, before);
}

async fn stored_image(app: &TestApp) -> String {
    let reply = app.post("/embed?store=true", image_file("t1.jpg")).await;
    reply.result()["image_id"].as_str().unwrap().to_owned()
}

async fn refuse_requests_that_write(app: &TestApp, image: &str, batch: &str) {
    let items = json!({"items": [item("b", "t1.jpg")]});
    let new = json!({"operation": "detect", "items": [item("b", "t1.jpg")]});
    let requests: &[(&str, Value)] = &[
        ("/batches", new),
        (&format!("/batches/{batch}/items"), items),
        (&format!("/batches/{batch}/close"), json!({})),
        (&format!("/batches/{batch}/cancel"), json!({})),
        ("/webhooks", json!({"url": "https://example.org/hook"})),
        ("/erasures", json!({"host": "example.org"})),
        ("/collections", gallery("staff")),
    ];
    for (uri, body) in requests {
        let reply = post_json(app, uri, body).await;
        reply.assert_error_of(uri, 503, "schema_mismatch");
    }
    for uri in ["/detect?store=true", "/embed?store=true&cache=false"] {
        let reply = app.post(uri, image_file("t1.jpg")).await;
        assert_eq!(reply.code(), "schema_mismatch", "{uri}: {:?}", reply.body);
    }
    for uri in [format!("/images/{image}"), format!("/batches/{batch}")] {
        let reply = app.delete(&uri).await;
        assert_eq!(reply.code(), "schema_mismatch", "{uri}: {:?}", reply.body);
    }
    let new = NewKey {
        tenant: "default".to_owned(),
        name: "crawler".to_owned(),
        scopes: vec![Scope::Infer],
        expires_at: None,
    };
    let (store, now) = (&app.app.store, app.app.pipeline.clock.now());
    let created = keys::create(store, now, new, |_| None).await;
    let error = created.unwrap_err();
    assert!(error.to_string().contains("another version"), "{error}");
}

/// Runs what a server or a worker does without a request.
async fn run_background_work_once(app: &TestApp) {
    app.app.batches.sweep().await.unwrap_err();
    app.app.retention.sweep().await.unwrap_err();
    worker(app).claim(Vec::new()).await.unwrap_err();
    app.app.prepare_store().await.unwrap_err();
    // These have work only sometimes, and then fail too.
    app.app.erasures.sweep().await.ok();
    app.app.collections.expire().await.ok();
    app.app.collections.cluster_once().await.ok();
}

fn refuse_commands(url: &str) {
    for args in [
        &["migrate"][..],
        &["keys", "create", "--name", "a", "--scopes", "infer"],
        &["keys", "revoke", "5f0c2a9be1d34c77"],
    ] {
        let output = facescan(args).env("DATABASE_URL", url).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.contains("another version"), "{text}");
    }
}

async fn serve_what_writes_nothing(app: &TestApp, image: &str) {
    result_of(app, "/detect?store=false", "t1.jpg").await;
    for uri in ["/images", &format!("/images/{image}"), "/batches"] {
        assert_eq!(app.get(uri).await.status, StatusCode::OK, "{uri}");
    }
}

on_both!(
    a_column_that_another_version_removed_is_named_as_such,
    name_removed_columns
);

async fn name_removed_columns(database: Database) {
    let app = TestApp::with_database(&database, &[]).await;
    database.execute(&upgrade(&database)).await;
    database
        .execute("ALTER TABLE images RENAME COLUMN format TO codec")
        .await;
    let reply = app.get("/images").await;
    assert_eq!(reply.code(), "schema_mismatch", "{:?}", reply.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_no_database_is_unavailable_and_readyz_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("facescan.sqlite");
    std::fs::write(&file, "not a database, but as long as one. ".repeat(100)).unwrap();
    let url = format!("sqlite://{}", file.display());
    let (_data, config) = TestApp::configured(&[("DATABASE_URL", &url)]);
    let app = TestApp::unprepared(config).await;
    app.app.prepare_store().await.unwrap_err();
    for reply in [
        app.post("/detect?store=true", image_file("t1.jpg")).await,
        app.get("/images").await,
        app.get("/batches").await,
    ] {
        reply.assert_error(503, "store_unavailable");
    }
    let reason = app.get("/readyz").await.json()["reasons"][0].to_string();
    assert!(reason.contains("damaged"), "{reason}");
    result_of(&app, "/detect?store=false", "t1.jpg").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_of_an_older_version_are_not_written_before_they_are_upgraded() {
    on_sqlite(async |database: Database| {
        let app = TestApp::with_database(&database, &[]).await;
        database
            .execute("DELETE FROM _sqlx_migrations WHERE version = 1")
            .await;
        let before = database.dump().await;
        let reply = app.post("/detect?store=true", image_file("t1.jpg")).await;
        assert_eq!(reply.code(), "store_unavailable", "{:?}", reply.body);
        assert_eq!(database.dump().await, before);
    })
    .await;
}
