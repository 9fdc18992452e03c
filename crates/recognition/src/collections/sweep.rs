//! Work in the background: deleting subjects whose time is over, and keeping the index up to date.

use std::{collections::HashMap, time::Duration};

use facescan_config::AuditLevel;
use facescan_store::{NewAuditEntry, StoreError};
use facescan_telemetry::{
    metrics::{Metrics, labels::Sweep},
    sweeps::Sweeps,
};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::Collections;

/// The time between two sweeps. The index clears the vectors of erased faces within this time.
const PERIOD: Duration = Duration::from_secs(5);

/// The subjects that one transaction deletes, so that other writers do not wait long.
const SUBJECTS: u32 = 100;

/// The faces of libraries that one transaction deletes.
const FACES: u32 = 1000;

/// The transactions of one sweep that delete faces of libraries.
const FACE_PAGES: u32 = 20;

/// The newest changes of a collection that are kept. An index that is further behind is loaded again.
const KEPT_CHANGES: u64 = 1_000_000;

impl Collections {
    /// Sweeps until `stop` is cancelled.
    pub async fn sweep_until(&self, metrics: &Metrics, stop: CancellationToken) {
        let mut trimmed = HashMap::new();
        let mut sweeps = Sweeps::new(Sweep::Collections, PERIOD, stop, metrics);
        while sweeps.next().await {
            // The index first, so that it does not miss changes that are deleted.
            sweeps.record(self.index.refresh().await);
            sweeps.record(self.sweep(&mut trimmed).await);
        }
    }

    async fn sweep(&self, trimmed: &mut HashMap<Uuid, u64>) -> Result<(), StoreError> {
        self.expire().await?;
        self.trim(trimmed).await
    }

    /// Deletes the subjects, and the faces of libraries, whose time is over. Returns their number.
    ///
    /// # Errors
    /// Returns an error of the database. The next sweep does the rest.
    pub async fn expire(&self) -> Result<u64, StoreError> {
        let now = self.clock.now();
        let entry = NewAuditEntry {
            tenant: String::new(),
            at: now,
            request_id: "collections".to_owned(),
            key_id: None,
            action: "expire_subjects".to_owned(),
            target: None,
            details: String::new(),
        };
        let mut expired = 0;
        loop {
            let entry = self.audit.records(AuditLevel::Changes).then_some(&entry);
            let now = self.clock.now();
            match self.store.expire_subjects(now, SUBJECTS, entry).await? {
                0 => break,
                some => expired += some,
            }
        }
        if expired > 0 {
            tracing::info!(subjects = expired, "erased subjects whose time is over");
        }
        Ok(expired + self.expire_library_faces(&entry).await?)
    }

    async fn expire_library_faces(&self, entry: &NewAuditEntry) -> Result<u64, StoreError> {
        let entry = NewAuditEntry {
            action: "expire_faces".to_owned(),
            ..entry.clone()
        };
        let entry = self.audit.records(AuditLevel::Changes).then_some(&entry);
        let mut expired = 0;
        // The index is brought up to date between sweeps, so a sweep must not take minutes.
        for _ in 0..FACE_PAGES {
            let now = self.clock.now();
            let deleted = self.store.expire_library_faces(now, FACES, entry).await?;
            if deleted == 0 {
                break;
            }
            expired += deleted;
        }
        if expired > 0 {
            tracing::info!(
                faces = expired,
                "erased faces of libraries whose time is over"
            );
        }
        Ok(expired)
    }

    /// Deletes changes that every index should have applied. `trimmed` has the position of each collection at its last time.
    async fn trim(&self, trimmed: &mut HashMap<Uuid, u64>) -> Result<(), StoreError> {
        let positions = self.store.index_positions().await?;
        trimmed.retain(|id, _| positions.iter().any(|it| it.collection_id == *id));
        for current in positions {
            let last = trimmed.entry(current.collection_id).or_default();
            if current.position < *last + 2 * KEPT_CHANGES {
                continue;
            }
            let up_to = current.position - KEPT_CHANGES;
            self.store
                .trim_index_changes(current.collection_id, up_to)
                .await?;
            *last = up_to;
        }
        Ok(())
    }
}
