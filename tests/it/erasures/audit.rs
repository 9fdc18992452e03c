//! What the audit trail records of requests.

use facescan_store::AuditEntry;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::{
    batches::{as_lines, id_of, item, post_json, submit},
    support::{
        app::{TestApp, image_file},
        cli::facescan,
        values::lines,
    },
};

async fn entries(app: &TestApp) -> Vec<AuditEntry> {
    let store = app.database().open().await;
    store.audit_entries("default", 0, 100).await.unwrap()
}

fn summary(entry: &AuditEntry) -> (String, Option<String>, Value) {
    let details = serde_json::from_str(&entry.entry.details).unwrap();
    (
        entry.entry.action.clone(),
        entry.entry.target.clone(),
        details,
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn every_use_is_recorded_if_the_settings_say_so() {
    let app = TestApp::with(&[("FACESCAN__AUDIT__LEVEL", "all")]).await;
    let image = image_file("t1.jpg");
    let digest = Sha256::digest(&image);
    let sha256: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    let headers = [
        ("x-request-id", "the-first"),
        ("content-type", "image/jpeg"),
    ];
    let scan = app.call("POST", "/detect?store=true", &headers, image);
    let id = scan.await.result()["image_id"].clone();
    let id = id.as_str().unwrap();
    app.get(&format!("/images/{id}")).await;
    app.delete(&format!("/images/{id}")).await;
    let entries = entries(&app).await;
    assert_eq!(entries[0].entry.request_id, "the-first");
    assert_eq!(entries[0].entry.key_id, None);
    let details = json!({"images": [sha256], "not_loaded": 0});
    assert_eq!(summary(&entries[0]), ("detect".into(), None, details));
    assert_eq!(
        summary(&entries[1]),
        ("read_image".into(), Some(id.into()), json!({}))
    );
    let (action, target, details) = summary(&entries[2]);
    assert_eq!((&*action, target.as_deref()), ("erase", Some(id)));
    assert_eq!(details["kind"], "image");
    assert_eq!(entries.len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_and_exports_are_recorded_by_default() {
    let app = TestApp::start().await;
    app.post("/detect?store=true", image_file("t1.jpg")).await;
    let body = json!({"operation": "detect", "open": true, "items": [item("a", "t1.jpg")]});
    let batch = id_of(&submit(&app, &body).await);
    app.get(&format!("/batches/{batch}/items")).await;
    post_json(&app, &format!("/batches/{batch}/cancel"), &json!({})).await;
    app.delete(&format!("/batches/{batch}")).await;
    post_json(&app, "/erasures", &json!({"source": "a name"})).await;
    let entries = entries(&app).await;
    let actions: Vec<_> = entries.iter().map(|entry| &*entry.entry.action).collect();
    let expected = "submit_batch export_batch cancel_batch erase erase";
    assert_eq!(actions.join(" "), expected);
    assert!(!format!("{entries:?}").contains("a name"));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_page_of_an_export_is_recorded() {
    let app = TestApp::start().await;
    let body = json!({"operation": "detect", "open": true, "items": []});
    let batch = id_of(&submit(&app, &body).await);
    let items = format!("/batches/{batch}/items");
    app.get(&items).await;
    app.get(&format!("{items}?after=0")).await;
    as_lines(&app, &format!("{items}?after=7")).await;
    let entries = entries(&app).await;
    let exports: Vec<_> = entries.iter().skip(1).map(summary).collect();
    let export = |details: Value| ("export_batch".into(), Some(batch.clone()), details);
    let expected = [json!({}), json!({"after": 0}), json!({"after": 7})];
    assert_eq!(exports, expected.map(export));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_cannot_be_recorded_is_refused() {
    let app = TestApp::with(&[("FACESCAN__AUDIT__LEVEL", "all")]).await;
    app.database().execute("DROP TABLE audit_entries").await;
    for uri in ["/detect", "/detect?store=false"] {
        let reply = app.post(uri, image_file("t1.jpg")).await;
        reply.assert_error_of(uri, 503, "audit_unavailable");
    }
    let image = app
        .get("/images/0192f0c1-6c8e-7a43-9a0e-2f6c1f1e2b7d")
        .await;
    assert_eq!(image.code(), "audit_unavailable");
}

/// Runs `facescan audit` on the database of an application.
fn audit(app: &TestApp, args: &[&str]) -> (bool, String) {
    let args = ["audit"].iter().chain(args).map(|arg| (*arg).to_owned());
    let output = facescan(args.collect::<Vec<_>>())
        .env("FACESCAN__DATA_DIR", app.data_dir())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    (output.status.success(), text)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_line_verifies_and_exports_the_trail() {
    let app = TestApp::start().await;
    for number in 0..3 {
        post_json(&app, "/erasures", &json!({"source": format!("{number}")})).await;
    }
    let (is_ok, export) = audit(&app, &["export"]);
    assert!(is_ok);
    let lines = lines(export.as_bytes());
    assert_eq!(lines.len(), 4);
    assert_eq!(lines[3]["action"], "export_audit");
    for pair in lines.windows(2) {
        assert_eq!(pair[1]["previous_hash"], pair[0]["hash"]);
    }
    let head = format!("2:{}", lines[1]["hash"].as_str().unwrap());
    let with_head = ["verify", "--tenant", "default", "--head", &head];
    let (is_ok, text) = audit(&app, &with_head);
    assert!(
        is_ok && text.starts_with("default: intact, 4 entries from 1, head 4:"),
        "{text}"
    );

    for (statement, fault) in [
        (
            "UPDATE audit_entries SET key_id = 'x' WHERE number = 3",
            "broken at entry 3: its fields were changed",
        ),
        (
            "DELETE FROM audit_entries WHERE number = 2",
            "broken at entry 2: it is missing",
        ),
    ] {
        app.database().execute(statement).await;
        let (is_ok, text) = audit(&app, &["verify"]);
        assert!(!is_ok && text.contains(fault), "{text}");
    }

    for statement in [
        "UPDATE audit_entries SET tenant = 'zoe' WHERE number = 1",
        "UPDATE audit_chains SET last = -1 WHERE tenant = 'default'",
    ] {
        app.database().execute(statement).await;
    }
    let (is_ok, text) = audit(&app, &["verify"]);
    let others = text.lines().any(|line| line.starts_with("zoe: broken"));
    let damaged = "default: broken: the database is damaged";
    assert!(!is_ok && others && text.contains(damaged), "{text}");
}
