//! What the audit trail has of refused requests, of changes of keys and of reads of people.

use axum::http::StatusCode;
use facescan_config::scope::Scope;
use facescan_store::AuditEntry;
use serde_json::{Value, json};

use super::{LOCKED, key, locked, send, status};
use crate::{
    collections::{gallery, of_kind},
    support::{
        app::TestApp,
        cli::facescan,
        database::{Database, on_both},
        values::{assert_fields, photo},
    },
};

pub(super) async fn entries(app: &TestApp, tenant: &str) -> Vec<AuditEntry> {
    let audit = &app.app.retention.store;
    audit.audit_entries(tenant, 0, 100).await.unwrap()
}

fn details(entry: &AuditEntry) -> Value {
    serde_json::from_str(&entry.entry.details).unwrap()
}

fn actions(entries: &[AuditEntry]) -> Vec<&str> {
    entries.iter().map(|entry| &*entry.entry.action).collect()
}

on_both!(
    refused_requests_are_recorded_without_filling_the_trail,
    refused_requests
);

async fn refused_requests(database: Database) {
    let app = TestApp::with_database(&database, &[LOCKED]).await;
    let reads = key(&app, "alice", &[Scope::Read]).await;
    for number in 0..300 {
        let wrong = format!("fsk_{number:016x}_wrong");
        assert_eq!(status(&app, &wrong, ("GET", "/images")).await, 401);
    }
    for uri in ["/detect", "/erasures"] {
        assert_eq!(status(&app, &reads, ("POST", uri)).await, 403);
    }
    app.app.refusals.write().await.unwrap();
    app.app.refusals.write().await.unwrap();
    let unknown = entries(&app, "default").await;
    assert_eq!(actions(&unknown), ["refuse_requests"]);
    let told = details(&unknown[0]);
    assert_fields!(told, {"unauthorized": 300, "routes": ["GET /images"]});
    assert_eq!(unknown[0].entry.key_id, None);
    assert!(!format!("{unknown:?}").contains("wrong"), "a credential");
    let known = entries(&app, "alice").await;
    assert_eq!(actions(&known), ["refuse_requests"]);
    let told = details(&known[0]);
    assert_fields!(told, {"forbidden": 2, "routes": ["POST /detect", "POST /erasures"]});
    assert_eq!(known[0].entry.key_id.as_deref(), Some(&reads[4..20]));
    // Another minute has its own entry.
    send(&app, "", ("GET", "/images"), "").await;
    app.app.refusals.write().await.unwrap();
    assert_eq!(entries(&app, "default").await.len(), 2);
}

#[tokio::test]
async fn refusals_that_cannot_be_written_are_written_later() {
    let app = locked().await;
    let database = app.database();
    let rename = async |from: &str, to: &str| {
        let statement = format!("ALTER TABLE {from} RENAME TO {to}");
        database.execute(&statement).await;
    };
    send(&app, "one", ("GET", "/images"), "").await;
    rename("audit_entries", "away").await;
    app.app.refusals.write().await.unwrap_err();
    send(&app, "two", ("GET", "/faces/1"), "").await;
    rename("away", "audit_entries").await;
    app.app.refusals.write().await.unwrap();
    let written = entries(&app, "default").await;
    assert_eq!(written.len(), 1);
    assert_eq!(details(&written[0])["unauthorized"], 2);
}

#[tokio::test]
async fn changes_of_keys_are_recorded_also_when_they_fail() {
    let app = locked().await;
    let admin = key(&app, "default", &[Scope::Admin]).await;
    let new = json!({"name": "a", "scopes": ["read"]}).to_string();
    let created = send(&app, &admin, ("POST", "/keys"), new).await.json();
    let id = created["id"].as_str().unwrap();
    for body in [r#"{"name": "", "scopes": ["read"]}"#, "{"] {
        send(&app, &admin, ("POST", "/keys"), body).await;
    }
    for uri in [
        format!("/keys/{id}"),
        "/keys/0123456789abcdef".into(),
        "/keys/fsk_secret".into(),
    ] {
        send(&app, &admin, ("DELETE", &uri), "").await;
    }
    let entries = entries(&app, "default").await;
    let told: Vec<_> = entries
        .iter()
        .map(|entry| {
            let entry_of = &entry.entry;
            let failed = details(entry)["failed"].as_str().map(str::to_owned);
            (entry_of.action.as_str(), entry_of.target.as_deref(), failed)
        })
        .collect();
    assert_eq!(
        told,
        [
            ("create_key", Some(id), None),
            ("create_key", None, Some("invalid_option".into())),
            ("create_key", None, Some("invalid_body".into())),
            ("revoke_key", Some(id), None),
            (
                "revoke_key",
                Some("0123456789abcdef"),
                Some("not_found".into())
            ),
            ("revoke_key", None, Some("not_found".into())),
        ]
    );
    assert!(
        entries
            .iter()
            .all(|entry| entry.entry.key_id.as_deref() == Some(&admin[4..20]))
    );
}

/// A key that is not in the trail does not exist.
#[tokio::test]
async fn a_key_that_cannot_be_recorded_is_not_created() {
    let app = locked().await;
    let admin = key(&app, "default", &[Scope::Admin]).await;
    let broken = "ALTER TABLE audit_entries RENAME TO audit_entries_away";
    app.database().execute(broken).await;
    let new = json!({"name": "a", "scopes": ["read"]}).to_string();
    let refused = send(&app, &admin, ("POST", "/keys"), new).await;
    assert_eq!(refused.status, StatusCode::SERVICE_UNAVAILABLE);
    let uri = format!("/keys/{}", &admin[4..20]);
    assert_eq!(status(&app, &admin, ("DELETE", &uri)).await, 503);
    let keys = app.app.store.list_keys("default").await.unwrap();
    assert_eq!(keys.len(), 1);
    assert_eq!(keys[0].revoked_at, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_that_change_keys_are_recorded() {
    let app = locked().await;
    let run = |args: &str| {
        let mut command = facescan(["keys"]);
        command.args(args.split(' '));
        let output = command.env("FACESCAN__DATA_DIR", app.data_dir()).output();
        output.unwrap()
    };
    let created = run("create --name a --scopes search_vectors,metrics");
    let created = String::from_utf8(created.stdout).unwrap();
    let id = &created[4..20];
    assert!(run(&format!("revoke {id}")).status.success());
    assert!(!run(&format!("revoke {id} --tenant other")).status.success());
    for days in ["0", "36501", "4294967295"] {
        let refused = run(&format!(
            "create --name a --scopes read --expires-in-days {days}"
        ));
        assert_eq!(refused.status.code(), Some(2), "{days}");
    }
    let entries = entries(&app, "default").await;
    assert_eq!(actions(&entries), ["create_key", "revoke_key"]);
    for entry in &entries {
        assert_eq!(entry.entry.target.as_deref(), Some(id));
        assert_eq!(details(entry)["by"], "facescan keys");
    }
}

#[tokio::test]
async fn reads_of_people_are_recorded_if_the_settings_say_so() {
    let settings = [
        ("FACESCAN__AUDIT__LEVEL", "all"),
        ("FACESCAN__RECOGNITION__PURPOSES", "[entry control]"),
    ];
    let app = TestApp::with(&settings).await;
    let new = async |uri: &str, body: Value| {
        let reply = app.post_as(uri, "application/json", body.to_string()).await;
        format!("{uri}/{}", reply.json()["id"].as_str().unwrap())
    };
    let staff = new("/collections", gallery("staff")).await;
    let subjects = format!("{staff}/subjects");
    let person = new(&subjects, json!({"external_id": "a name"})).await;
    let library = new("/collections", of_kind("library", "archive")).await;
    let changes = entries(&app, "default").await.len();
    for uri in [
        format!("{staff}/subjects?external_id=a+name"),
        person.clone(),
        format!("{person}/enrollments"),
        format!("{staff}/searches"),
        format!("{library}/people"),
        format!("{library}/people/0198f2c2-7d3e-7c41-9d3e-0a1b2c3d4e5f"),
        format!("{library}/enrollments"),
    ] {
        app.get(&uri).await;
    }
    let entries = entries(&app, "default").await;
    let expected = "list_subjects read_subject list_enrollments list_searches list_people \
                    read_person list_library_faces";
    assert_eq!(actions(&entries[changes..]).join(" "), expected);
    assert!(!format!("{entries:?}").contains("a name"));
}

/// Whoever reads the metrics of all tenants learns how much is done, and not by whom.
#[tokio::test]
async fn the_metrics_name_no_tenant_key_or_source() {
    let app = locked().await;
    let alice = key(&app, "tenant-alice", &Scope::ALL).await;
    let mut image = photo("t1.jpg");
    image["id"] = json!("id-of-alice");
    image["source"] = json!("source-of-alice");
    let body = json!({"images": [image]});
    let uri = ("POST", "/detect?store=true");
    let scanned = send(&app, &alice, uri, body.to_string()).await.result();
    send(&app, &alice, ("GET", "/images/source-of-alice"), "").await;
    let operator = key(&app, "operator", &[Scope::Metrics]).await;
    let metrics = send(&app, &operator, ("GET", "/metrics"), "").await;
    assert_eq!(metrics.status, StatusCode::OK);
    let text = String::from_utf8(metrics.body.to_vec()).unwrap();
    assert!(text.contains("/detect"), "{text}");
    let image = scanned["image_id"].as_str().unwrap();
    for private in ["alice", &alice[4..20], image] {
        assert!(!text.contains(private), "{private} is in the metrics");
    }
}

/// The metrics are those of all tenants.
#[tokio::test]
async fn an_admin_of_a_tenant_neither_reads_the_metrics_nor_lets_others_do_so() {
    let app = locked().await;
    let admin = key(&app, "alice", &[Scope::Admin]).await;
    assert_eq!(status(&app, &admin, ("GET", "/metrics")).await, 403);
    let new = json!({"name": "a", "scopes": ["metrics"]}).to_string();
    let refused = send(&app, &admin, ("POST", "/keys"), new.clone()).await;
    refused.assert_error(403, "forbidden");
    let operator = key(&app, "operator", &[Scope::Admin, Scope::Metrics]).await;
    assert_eq!(status(&app, &operator, ("GET", "/metrics")).await, 200);
    let created = send(&app, &operator, ("POST", "/keys"), new).await;
    assert_eq!(created.status, StatusCode::CREATED);
}
