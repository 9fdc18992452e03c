//! Deleting old data by the clock.

use std::{sync::Arc, time::Duration};

use facescan::erasure::retention::RetentionSweeper;
use facescan_clock::Clock;
use serde_json::json;
use time::OffsetDateTime;

use crate::{
    batches::{id_of, item, submit},
    support::app::{TestApp, image_file},
};

/// A clock that is days ahead.
pub(super) struct Ahead {
    pub(super) days: u64,
}

impl Clock for Ahead {
    fn now(&self) -> OffsetDateTime {
        OffsetDateTime::now_utc() + self.monotonic()
    }

    fn monotonic(&self) -> Duration {
        Duration::from_secs(self.days * 24 * 60 * 60)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn old_results_batches_and_entries_are_deleted() {
    let app = TestApp::with(&[
        ("FACESCAN__RETENTION__RESULTS_DAYS", "30"),
        ("FACESCAN__RETENTION__PAYLOAD_DAYS", "7"),
        ("FACESCAN__RETENTION__AUDIT_DAYS", "365"),
    ])
    .await;
    app.post("/embed?store=true", image_file("t1.jpg")).await;
    let body = json!({"operation": "detect", "items": [item("a", "obama.jpg")]});
    let batch = id_of(&submit(&app, &body).await);
    let sweep = async |days| {
        let sweeper = RetentionSweeper {
            clock: Arc::new(Ahead { days }),
            ..app.app.retention.clone()
        };
        sweeper.sweep().await.unwrap();
        app.app.batches.sweep().await.unwrap();
        let images = app.get("/images").await.json()["results"].clone();
        let batch = app.get(&format!("/batches/{batch}")).await.status;
        let audit = &app.app.store;
        let entries = audit.audit_entries("default", 0, 100).await.unwrap();
        let actions: Vec<_> = entries
            .into_iter()
            .map(|entry| entry.entry.action)
            .collect();
        (images.as_array().unwrap().len(), batch.as_u16(), actions)
    };
    let submitted = || vec!["submit_batch".to_owned()];
    assert_eq!(sweep(6).await, (1, 200, submitted()));
    let with_expiry = |number| {
        let mut actions = submitted();
        actions.extend(vec!["expire".to_owned(); number]);
        actions
    };
    assert_eq!(sweep(8).await, (1, 404, with_expiry(1)));
    let payloads = app.data_dir().join("payloads/default");
    assert!(!payloads.exists() || std::fs::read_dir(payloads).unwrap().next().is_none());
    assert_eq!(sweep(29).await, (1, 404, with_expiry(1)));
    assert_eq!(sweep(31).await, (0, 404, with_expiry(2)));
    // The entries of day 0, 8 and 31 are old; the deletion of them is recorded.
    assert_eq!(sweep(400).await, (0, 404, vec!["expire".to_owned()]));
}
