//! The report of an erasure.

use std::time::Duration;

use facescan_config::{Config, IndexKind};
use facescan_store::Erasure;
use serde::Serialize;
use time::OffsetDateTime;
use utoipa::ToSchema;
use uuid::Uuid;

/// An erasure: what was asked for, what was erased, and where copies can be.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Erasure)]
pub struct ErasureReport {
    /// The id of the erasure.
    id: Uuid,
    /// What was asked for: `image`, `face`, `source`, `host`, `batch`, `collection`, `subject`, `enrollment` or `tenant`.
    kind: String,
    /// The id or the tenant. For a source or a host it is the sha256 of the text, in hex.
    target: String,
    /// Whether the erasure is done.
    state: ErasureState,
    /// When it was requested.
    #[serde(with = "facescan_clock::rfc3339")]
    requested_at: OffsetDateTime,
    /// When everything was erased. From here on, no response has it.
    #[serde(
        with = "facescan_clock::rfc3339::option",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(nullable = false)]
    erased_at: Option<OffsetDateTime>,
    /// When the files of the database gave up the rows.
    #[serde(
        with = "facescan_clock::rfc3339::option",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(nullable = false)]
    purged_at: Option<OffsetDateTime>,
    /// What was erased so far.
    erased: ErasedResponse,
    /// Where copies can still be.
    copies: Vec<Copies>,
}

/// The state of an erasure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum ErasureState {
    /// Some of it is not erased yet.
    Erasing,
    /// Everything is erased. The files of the database are not purged yet.
    Erased,
    /// Everything is erased, and the files of the database are purged.
    Purged,
}

/// The numbers of what was erased.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[schema(as = Erased)]
struct ErasedResponse {
    /// Stored images.
    images: u64,
    /// Scans of images.
    scans: u64,
    /// Faces.
    faces: u64,
    /// Vectors of faces and of whole images.
    vectors: u64,
    /// Batches.
    batches: u64,
    /// Items of batches. They keep their position and their state, and have nothing else.
    items: u64,
    /// Files of items. Those of whole batches are erased too, and do not count.
    payloads: u64,
    /// Subjects of collections.
    subjects: u64,
    /// Enrolled faces with their vectors.
    enrollments: u64,
}

/// A place where copies of erased data can be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = Copies)]
struct Copies {
    /// The place.
    #[schema(example = "backups")]
    place: &'static str,
    /// When the copies are gone at the latest. Absent if this server does not know it.
    #[serde(
        with = "facescan_clock::rfc3339::option",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(nullable = false)]
    until: Option<OffsetDateTime>,
    /// What the copies are, and what removes them.
    detail: &'static str,
}

impl ErasureReport {
    /// Creates the report of an erasure.
    pub fn new(erasure: Erasure, config: &Config) -> Self {
        let state = match (erasure.erased_at, erasure.purged_at) {
            (None, _) => ErasureState::Erasing,
            (Some(_), None) => ErasureState::Erased,
            (Some(_), Some(_)) => ErasureState::Purged,
        };
        let target = match state {
            ErasureState::Erasing if matches!(erasure.kind.as_str(), "source" | "host") => {
                super::digest_of(&erasure.target)
            }
            _ => erasure.target.clone(),
        };
        Self {
            copies: copies(&erasure, config),
            id: erasure.id,
            kind: erasure.kind,
            target,
            state,
            requested_at: erasure.requested_at,
            erased_at: erasure.erased_at,
            purged_at: erasure.purged_at,
            erased: ErasedResponse {
                images: erasure.counts.images,
                scans: erasure.counts.scans,
                faces: erasure.counts.faces,
                vectors: erasure.counts.vectors,
                batches: erasure.counts.batches,
                items: erasure.counts.items,
                payloads: erasure.counts.payloads,
                subjects: erasure.counts.subjects,
                enrollments: erasure.counts.enrollments,
            },
        }
    }

    /// Returns whether everything is erased.
    pub fn is_erased(&self) -> bool {
        self.state != ErasureState::Erasing
    }
}

fn copies(erasure: &Erasure, config: &Config) -> Vec<Copies> {
    let erased_at = erasure.erased_at;
    let after = |time: Option<Duration>| Some(erased_at? + time?);
    let mut copies = Vec::new();
    if erasure.purged_at.is_none() {
        copies.push(Copies {
            place: "database",
            until: after(Some(config.retention.purge_after())),
            detail: "deleted rows stay in the files of the database until they are purged",
        });
    } else if !config.uses_sqlite() {
        copies.push(Copies {
            place: "database",
            until: None,
            detail: "Postgres has freed the space of the rows, and later rows overwrite it; `facescan index purge` writes the tables to new files",
        });
    }
    if !config.uses_sqlite() {
        copies.push(Copies {
            place: "write-ahead log",
            until: None,
            detail: "Postgres recycles its log after checkpoints; an archive of the log is a backup",
        });
    }
    if config.recognition.index == IndexKind::Qdrant {
        copies.push(Copies {
            place: "index",
            until: None,
            detail: "Qdrant keeps the vectors of enrolled faces in its files until it writes their segment again, and in its log until it truncates it; `facescan index purge` removes them at once",
        });
    }
    copies.push(Copies {
        place: "backups",
        until: after(config.retention.backups()),
        detail: "the operator keeps them; retention.backup_days says how long",
    });
    if config.batches.payloads.is_some() {
        copies.push(Copies {
            place: "store of images",
            until: None,
            detail: "versions and snapshots of the bucket are those of its own rules",
        });
    }
    copies
}
