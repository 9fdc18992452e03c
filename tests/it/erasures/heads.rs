//! Heads of the audit trail that are noted elsewhere, and what they show of a chain that was tampered with.

use std::{fs, path::PathBuf, sync::Arc};

use facescan::erasure::retention::RetentionSweeper;
use facescan_audit::heads::{HeadLine, HeadPublisher, destination::HeadDestination, read_heads};
use facescan_clock::{Clock, SystemClock};
use object_store::{ObjectStore, ObjectStoreExt, memory::InMemory};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::retention::Ahead;
use crate::{
    batches::post_json,
    support::{
        app::{TestApp, serve},
        cli::facescan,
        values::lines,
    },
};

const SECRET: &str = "0123456789abcdef0123456789abcdef";

/// An application whose heads go to a file, and the entries of its trail.
struct Noted {
    app: TestApp,
    folder: TempDir,
    settings: Vec<(&'static str, String)>,
}

impl Noted {
    async fn start(audit_days: &str) -> Self {
        let folder = TempDir::new().unwrap();
        let heads = url::Url::from_file_path(folder.path().join("heads.jsonl")).unwrap();
        let settings = vec![
            ("FACESCAN__AUDIT__SECRET", SECRET.to_owned()),
            ("FACESCAN__AUDIT__HEADS", heads.to_string()),
            ("FACESCAN__RETENTION__AUDIT_DAYS", audit_days.to_owned()),
        ];
        let pairs: Vec<_> = settings
            .iter()
            .map(|(key, value)| (*key, value.as_str()))
            .collect();
        let app = TestApp::with(&pairs).await;
        Self {
            app,
            folder,
            settings,
        }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("heads.jsonl")
    }

    /// Records entries, and notes the head.
    async fn note(&self, entries: usize) -> usize {
        for number in 0..entries {
            let body = json!({"source": format!("{number}")});
            post_json(&self.app, "/erasures", &body).await;
        }
        self.publisher().publish().await.unwrap()
    }

    fn publisher(&self) -> &HeadPublisher {
        self.app.app.audit_heads.as_ref().unwrap()
    }

    fn lines(&self) -> Vec<Value> {
        lines(&fs::read(self.file()).unwrap())
    }

    async fn execute(&self, statement: &'static str) {
        self.app.database().execute(statement).await;
    }

    fn verify(&self, args: &[&str]) -> (bool, String) {
        let file = self.file().display().to_string();
        let mut all = vec!["audit", "verify", "--heads", &file];
        all.extend(args);
        let mut command = facescan(all.into_iter().map(str::to_owned).collect::<Vec<_>>());
        command.env("FACESCAN__DATA_DIR", self.app.data_dir());
        command.envs(self.settings.iter().map(|(key, value)| (*key, value)));
        let output = command.output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (
            output.status.success(),
            String::from_utf8_lossy(&text).into_owned(),
        )
    }

    fn assert_broken(&self, fault: &str) {
        let (is_ok, text) = self.verify(&[]);
        assert!(!is_ok && text.contains(fault), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn heads_are_appended_to_a_file_when_they_have_changed() {
    let noted = Noted::start("0").await;
    for (entries, published) in [(2, 1), (0, 0), (1, 1)] {
        assert_eq!(noted.note(entries).await, published);
    }
    let lines = noted.lines();
    let numbers: Vec<_> = lines.iter().map(|line| &line["number"]).collect();
    assert_eq!(numbers, [&json!(2), &json!(3)]);
    let (is_ok, text) = noted.verify(&[]);
    assert!(
        is_ok && text.contains("default: intact, 3 entries"),
        "{text}"
    );
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = fs::metadata(noted.file()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chain_that_was_replaced_before_its_start_is_broken() {
    let noted = Noted::start("0").await;
    noted.note(3).await;
    // As if retention had deleted all, which the settings do not allow.
    noted.execute("DELETE FROM audit_entries").await;
    noted
        .execute("UPDATE audit_chains SET deleted = 5000, last = 5000, last_hash = deleted_hash")
        .await;
    noted
        .assert_broken("default: broken at entry 1: it was deleted, although retention.audit_days");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chain_that_was_dropped_is_named_without_naming_the_tenant() {
    let noted = Noted::start("0").await;
    noted.note(3).await;
    noted.execute("DELETE FROM audit_chains").await;
    noted.assert_broken("default: broken at entry 1: the chain that it belongs to is gone");
    noted.execute("DELETE FROM audit_entries").await;
    noted.assert_broken("default: broken at entry 3: the chain that it belongs to is gone");
    let (is_ok, _) = noted.verify(&["--tenant", "other"]);
    assert!(is_ok, "the other tenant has no entries");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_noted_entry_that_retention_has_deleted_is_still_compared() {
    let noted = Noted::start("30").await;
    noted.note(2).await;
    noted.note(1).await;
    let sweeper = RetentionSweeper {
        clock: Arc::new(Ahead { days: 31 }),
        ..noted.app.app.retention.clone()
    };
    sweeper.sweep().await.unwrap();
    let (is_ok, text) = noted.verify(&[]);
    assert!(
        is_ok && text.contains("default: intact, 1 entries from 4"),
        "{text}"
    );
    let other = format!("2:{}", "11".repeat(32));
    let (is_ok, text) = noted.verify(&["--tenant", "default", "--head", &other]);
    assert!(
        !is_ok && text.contains("entry 2: it does not have the hash"),
        "{text}"
    );

    // A record that somebody else wrote.
    noted
        .execute("UPDATE audit_deletions SET at = at + 1")
        .await;
    noted.assert_broken("broken at entry 1: it was deleted, and no record of retention");
    noted.execute("DELETE FROM audit_deletions").await;
    noted.assert_broken("broken at entry 1: it was deleted, and no record of retention");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_of_heads_that_somebody_else_wrote_is_refused() {
    let noted = Noted::start("0").await;
    noted.note(2).await;
    let line: HeadLine = serde_json::from_value(noted.lines()[0].clone()).unwrap();
    let (unsigned, no_head) = ("is not signed with audit.secret", "is no head");
    for (field, value, message) in [
        ("number", json!(1), unsigned),
        ("signature", Value::Null, unsigned),
        ("tenant", json!("b"), unsigned),
        ("number", json!(0), no_head),
        ("hash", json!("00"), no_head),
    ] {
        let mut wrong = json!(line);
        wrong[field] = value;
        let text = format!("{}\n{}\n", json!(line), wrong);
        fs::write(noted.file(), text).unwrap();
        let (is_ok, text) = noted.verify(&[]);
        assert!(
            !is_ok && text.contains("line 2") && text.contains(message),
            "{text}"
        );
    }
    // Without a secret, nobody checks the signatures.
    fs::write(noted.file(), format!("{}\n", json!(line))).unwrap();
    assert_eq!(read_heads(&noted.file(), None).unwrap()["default"].len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn heads_that_cannot_be_delivered_are_delivered_later() {
    let noted = Noted::start("0").await;
    fs::create_dir(noted.file()).unwrap();
    post_json(&noted.app, "/erasures", &json!({"source": "a"})).await;
    noted.publisher().publish().await.unwrap_err();
    noted.publisher().publish_or_warn().await;
    let failed = r#"facescan_sweeps_failed_total{sweep="audit_heads"} 1"#;
    noted.app.assert_metrics(&[failed]);
    fs::remove_dir(noted.file()).unwrap();
    assert_eq!(noted.publisher().publish().await.unwrap(), 1);
    assert_eq!(noted.lines().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn heads_go_to_object_stores_and_servers() {
    let noted = Noted::start("0").await;
    post_json(&noted.app, "/erasures", &json!({"source": "a"})).await;
    let bucket: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let publish = async |destination| {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
        let publisher = HeadPublisher {
            store: noted.app.app.store.clone(),
            destination,
            key: None,
            clock,
            metrics: noted.app.app.metrics.clone(),
            period: noted.app.app.config.audit.heads_period(),
            delivered: std::sync::Mutex::default(),
        };
        publisher.publish().await
    };
    let count = publish(HeadDestination::Objects(Arc::clone(&bucket))).await;
    assert_eq!(count.unwrap(), 1);
    let objects = bucket.list_with_delimiter(None).await.unwrap().objects;
    assert_eq!(objects.len(), 1);
    let object = bucket.get(&objects[0].location).await.unwrap();
    let bytes = object.bytes().await.unwrap();
    let line: HeadLine = serde_json::from_slice(&bytes).unwrap();
    assert_eq!(
        (line.tenant.as_str(), line.number, line.signature),
        ("default", 1, None)
    );

    let (sender, mut posted) = tokio::sync::mpsc::unbounded_channel();
    let receive = move |body: String| async move { sender.send(body).unwrap() };
    let router = axum::Router::new().route("/heads", axum::routing::post(receive));
    let address = serve(router).await;
    let at = |path: &str| HeadDestination::Http {
        client: facescan_outbound::client(facescan_outbound::tls::client_config().unwrap())
            .build()
            .unwrap(),
        url: format!("http://{address}{path}").parse().unwrap(),
    };
    assert_eq!(publish(at("/heads")).await.unwrap(), 1);
    assert!(posted.recv().await.unwrap().contains(r#""number":1"#));
    let refused = publish(at("/elsewhere")).await.unwrap_err();
    assert!(refused.to_string().contains("404"), "{refused}");
}
