//! How people, faces of libraries and clusterings are read from rows.

use uuid::Uuid;

use super::records::{
    Clustering, ClusteringProgress, FaceRow, LibraryFace, Membership, NewClustering, Person,
};
use crate::collections::Enrollment;
use crate::record::{Columns, Record};

impl Record for Person {
    fn from_row(row: &impl Columns) -> Result<Self, sqlx::Error> {
        Ok(Self {
            id: row.get("id")?,
            name: row.get("name")?,
            created_at: row.time("created_at")?,
            faces: row.number("faces")?,
        })
    }
}

impl Record for Membership {
    fn from_row(row: &impl Columns) -> Result<Self, sqlx::Error> {
        Ok(Self {
            person_id: row.get("person_id")?,
            is_pinned: row.get::<Option<bool>>("is_pinned")?.unwrap_or(false),
        })
    }
}

impl Record for LibraryFace {
    fn from_row(row: &impl Columns) -> Result<Self, sqlx::Error> {
        Ok(Self {
            enrollment: Enrollment::from_row(row)?,
            image_id: row.get("image_id")?,
            is_acceptable: row.get("is_acceptable")?,
            membership: Membership::from_row(row)?,
        })
    }
}

impl Record for FaceRow {
    fn from_row(row: &impl Columns) -> Result<Self, sqlx::Error> {
        Ok(Self {
            row: row.number("row_id")?,
            image_id: row.get("image_id")?,
            is_acceptable: row.get("is_acceptable")?,
            membership: Membership::from_row(row)?,
        })
    }
}

impl Record for Clustering {
    fn from_row(row: &impl Columns) -> Result<Self, sqlx::Error> {
        Ok(Self {
            request: NewClustering {
                id: row.get("id")?,
                is_full: row.get("is_full")?,
                min_faces: row.number("min_faces")?,
                far: row.get("far")?,
                created_at: row.time("created_at")?,
            },
            state: row.named("state")?,
            progress: ClusteringProgress {
                compared: row.number("compared")?,
                faces: row.number("faces")?,
                people: row.number("people")?,
                unassigned: row.number("unassigned")?,
                moved: row.number("moved")?,
            },
            finished_at: row.optional_time("finished_at")?,
            error: row.get("error")?,
        })
    }
}

/// A clustering that no server works on.
pub(super) struct WaitingClustering {
    pub(super) clustering: Clustering,
    pub(super) collection_id: Uuid,
    pub(super) attempt: i64,
}

impl Record for WaitingClustering {
    fn from_row(row: &impl Columns) -> Result<Self, sqlx::Error> {
        Ok(Self {
            clustering: Clustering::from_row(row)?,
            collection_id: row.get("collection_id")?,
            attempt: row.get("attempt")?,
        })
    }
}
